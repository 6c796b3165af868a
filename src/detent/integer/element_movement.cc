#include "detent/integer/element_movement.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Both kinds of elements as 32 bits.
std::span<const int32_t> words(const Tensor& tensor) {
  return {reinterpret_cast<const int32_t*>(tensor.bytes().data()), static_cast<size_t>(tensor.numel())};
}
std::span<int32_t> words(Tensor& tensor) {
  return {reinterpret_cast<int32_t*>(tensor.bytes().data()), static_cast<size_t>(tensor.numel())};
}

/// Element by element, in row-major order of the shape that both views have.
void copy_elements(const Tensor& input, const StridedView& from, Tensor& result, const StridedView& to) {
  DETENT_CHECK(from.shape == to.shape, "a copy of {} to {}", shape_text(from.shape), shape_text(to.shape));
  const auto source = words(input);
  const auto target = words(result);
  const int64_t count = element_count(from.shape);
  std::vector<int64_t> index(from.shape.size(), 0);
  int64_t read = from.offset;
  int64_t written = to.offset;
  for (int64_t i = 0; i < count; ++i) {
    target[static_cast<size_t>(written)] = source[static_cast<size_t>(read)];
    for (size_t d = from.shape.size(); d-- > 0;) {
      read += from.strides[d];
      written += to.strides[d];
      if (++index[d] < from.shape[d]) break;
      read -= from.strides[d] * from.shape[d];
      written -= to.strides[d] * to.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

Tensor gathered(const Tensor& from, const StridedView& view) {
  Tensor result(from.dtype(), view.shape);
  copy_elements(from, view, result, StridedView::of(view.shape));
  return result;
}

Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill,
                      size_t index) {
  const auto* movement = trait<Movement>(node);
  DETENT_CHECK(movement != nullptr, "node {} ({}) does not move elements", node.name, node.op);
  if (movement->is_view()) return inputs[0].reshaped(shape);
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  const std::vector<StridedCopy> copies =
      movement->parts ? movement->parts(node, shapes[0], index) : movement->copies(node, shapes, shape);
  int64_t copied = 0;
  for (const StridedCopy& copy : copies) copied += element_count(copy.to.shape);
  Tensor result(inputs[0].dtype(), shape);
  if (copied < result.numel()) std::ranges::fill(words(result), fill);
  for (const StridedCopy& copy : copies) copy_elements(inputs[copy.input], copy.from, result, copy.to);
  return result;
}

}  // namespace detent
