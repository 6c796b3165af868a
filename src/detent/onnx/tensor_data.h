#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"

namespace onnx {
class TensorProto;
}

namespace detent {

/// The dtype of one of ONNX's element types (TensorProto.DataType), or that holds its values
/// (tensor_data.h). Throws Error on those that detent does not have: strings, complex numbers.
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

/// float16, bfloat16 and float64 as float32; others as they are. A finite float64 beyond float32 becomes the
/// last one of its sign: most such numbers stand for the least of all, as in masks.
Tensor as_float32(const Tensor& tensor);
/// Whether it holds a finite float64 beyond float32.
bool exceeds_float32(const Tensor& tensor);
/// Whether it holds float64 other than 0 and float32 rounds all of them to it.
bool vanishes_in_float32(const Tensor& tensor);

/// Texts, which OnnxModelFile numbers.
inline constexpr int64_t kOnnxText = 8;

/// An element type of ONNX that no DType is: its values are held by one that has them all.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a table of a dozen rows, read in this order
struct NarrowType {
  int64_t onnx;  // TensorProto.DataType
  std::string_view name;
  DType held;
  int bits;
  bool is_signed = false;
  // How many bits the fraction of floats has, what their exponent is counted from, and which codes are no
  // numbers.
  int fraction = -1;
  int bias = 0;
  enum class Nan : uint8_t { kNone, kLast, kFamily, kMinusZero } nan = Nan::kNone;
  const char* format = nullptr;  // that rounds to it, if there is one

  bool is_float() const { return fraction >= 0; }
  bool is_text() const { return onnx == kOnnxText; }
  double low() const;
  double high() const;
};

/// nullptr for other element types.
const NarrowType* find_narrow_type(int64_t element_type);
const NarrowType* find_narrow_type(std::string_view name);
/// The one whose elements are those of a format, "fp8_e5m2"; nullptr where there is none.
const NarrowType* narrow_type_of_format(std::string_view format);

/// Bytes that elements take in files: several of less than 8 bits share one.
uint64_t packed_size(const NarrowType& type, int64_t count);
/// The values of packed elements, of which there are as many as the shape has.
Tensor unpacked(const NarrowType& type, const Shape& shape, std::span<const std::byte> packed);
/// The packed elements that a message has, one by one or in its raw data.
std::vector<std::byte> packed_elements(const onnx::TensorProto& proto, const NarrowType& type);

}  // namespace detent
