#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "detent/core/fields.h"
#include "detent/core/value.h"

namespace detent::python {

/// NA is None; tables are dicts.
nanobind::object object_of(const Value& value);
nanobind::dict object_of(const Table& table);

/// The inverse; tuples are lists. Throws TypeError, beginning with `where`, on what is no value.
Value value_of(nanobind::handle object, const std::string& where);
Table table_of(nanobind::handle dict, const std::string& where);

/// Options as dicts of name, type, default and help.
nanobind::list descriptions(const std::vector<FieldDescription>& fields);

}  // namespace detent::python
