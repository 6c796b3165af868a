#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "detent/core/tensor.h"

namespace onnx {
class TensorProto;
}

namespace detent {

/// The dtype of one of ONNX's element types (TensorProto.DataType), or that holds its values
/// (narrow_elements.h). Throws Error on those that detent does not have: strings, complex numbers.
DType dtype_of_onnx(int64_t element_type);
/// The inverse.
int64_t onnx_element_type(DType dtype);
/// The element type that has a name, "FLOAT16". Throws Error on others.
int64_t onnx_element_type(std::string_view name);
/// "FLOAT16"
std::string onnx_element_type_name(int64_t element_type);

/// The elements of a tensor whose data are in the message itself. Throws Error naming it when they do not fit
/// its shape.
Tensor tensor_of(const onnx::TensorProto& proto);
/// Its dimensions. Throws Error naming it when one is negative or there are too many elements.
Shape shape_of(const onnx::TensorProto& proto);

/// Makes bytes of a bool tensor that are not 0 a 1, as a bool must be.
void set_truth(Tensor& tensor);

/// float16, bfloat16 and float64 as float32; others as they are. A float64 beyond float32 becomes infinite.
Tensor as_float32(const Tensor& tensor);

}  // namespace detent
