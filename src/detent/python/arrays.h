#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // everywhere: what is cast with it must be so in all files

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent::python {

/// Python's name of the object's type, for messages.
std::string type_text(nanobind::handle object);

/// The elements of an array: numpy's, or of anything with DLPack or the buffer protocol, in memory of the
/// processor. Contiguous ones are not copied, and are kept alive as long as the tensor. Throws TypeError,
/// beginning with `what`, on anything else.
Tensor tensor_of(nanobind::handle array, const std::string& what);

/// The same as `dtype`: floats of another width are copied, integers as wider ones. Throws TypeError where
/// that would change the kind of numbers.
Tensor tensor_of(nanobind::handle array, DType dtype, const std::string& what);

/// As a numpy array that shares the tensor's memory, or a copy where others use that too.
nanobind::object array_of(const Tensor& tensor);

/// An array that is there, to be written to: contiguous and writable. Throws TypeError, beginning with
/// `what`.
Tensor writable_tensor_of(nanobind::handle array, const std::string& what);

/// Copies into an array that is there: of the same dtype and shape, contiguous and writable. Throws
/// TypeError, beginning with `what`.
void copy_into(nanobind::handle array, const Tensor& tensor, const std::string& what);

/// NA is None; tables are dicts.
nanobind::object object_of(const Value& value);
nanobind::dict object_of(const Table& table);

/// The inverse; tuples are lists. Throws TypeError, beginning with `where`, on what is no value.
Value value_of(nanobind::handle object, const std::string& where);
Table table_of(nanobind::handle dict, const std::string& where);

/// Options as dicts of name, type, default and help.
nanobind::list descriptions(const std::vector<FieldDescription>& fields);

}  // namespace detent::python
