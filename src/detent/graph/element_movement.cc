#include "detent/graph/element_movement.h"

#include <algorithm>

#include "detent/core/element_types.h"
#include "detent/core/error.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Elements have 32 bits, unless `fill` is 0.
void fill_elements(Tensor& tensor, int32_t fill) {
  if (fill == 0) return;  // a new tensor's elements are
  DETENT_CHECK(dtype_size(tensor.dtype()) == sizeof(fill), "{} filled with {}", dtype_name(tensor.dtype()),
               fill);
  std::fill_n(words_of<int32_t>(tensor), tensor.numel(), fill);
}

}  // namespace

std::vector<StridedCopy> movement_copies(const Node& node, std::span<const Shape> inputs, const Shape& result,
                                         size_t index) {
  const auto* movement = trait<Movement>(node);
  DETENT_CHECK(movement != nullptr, "node {} ({}) does not move elements", node.name, node.op);
  if (movement->is_view()) return {};
  return movement->parts ? movement->parts(node, inputs[0], index) : movement->copies(node, inputs, result);
}

Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill,
                      size_t index) {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  const std::vector<StridedCopy> copies = movement_copies(node, shapes, shape, index);
  if (is_view(node)) return inputs[0].reshaped(shape);
  int64_t copied = 0;
  for (const StridedCopy& copy : copies) copied += element_count(copy.to.shape);
  Tensor result(inputs[0].dtype(), shape);
  if (copied < result.numel()) fill_elements(result, fill);
  for (const StridedCopy& copy : copies) copy_elements(inputs[copy.input], copy.from, result, copy.to);
  return result;
}

int64_t border_source(int64_t position, int64_t size, std::string_view mode) {
  if (position >= 0 && position < size) return position;
  if (mode == "constant") return -1;
  if (size == 0) fail("mode {} has nothing to repeat in a dimension of size 0", mode);
  if (mode == "edge") return position < 0 ? 0 : size - 1;
  if (mode == "wrap") return (position % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t place = (position % period + period) % period;
  return place < size ? place : period - place;
}

}  // namespace detent
