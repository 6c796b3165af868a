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

struct Dimension {
  int64_t size;
  int64_t from;  // strides
  int64_t to;
};

/// The dimensions of a copy; those that follow each other in both views are one.
std::vector<Dimension> joined_dimensions(const StridedView& from, const StridedView& to) {
  std::vector<Dimension> dimensions;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    const Dimension next{from.shape[d], from.strides[d], to.strides[d]};
    if (next.size == 1) continue;
    if (!dimensions.empty()) {
      Dimension& last = dimensions.back();
      if (last.from == next.from * next.size && last.to == next.to * next.size) {
        last = {last.size * next.size, next.from, next.to};
        continue;
      }
    }
    dimensions.push_back(next);
  }
  if (dimensions.empty()) dimensions.push_back({1, 1, 1});
  return dimensions;
}

void copy_row(const Dimension& row, const int32_t* from, int32_t* to) {
  if (row.from == 1 && row.to == 1) {
    std::copy_n(from, row.size, to);
  } else {
    for (int64_t i = 0; i < row.size; ++i) to[i * row.to] = from[i * row.from];
  }
}

/// In row-major order of the shape that both views have.
void copy_elements(const Tensor& input, const StridedView& from, Tensor& result, const StridedView& to) {
  DETENT_CHECK(from.shape == to.shape, "a copy of {} to {}", shape_text(from.shape), shape_text(to.shape));
  const int64_t count = element_count(from.shape);
  if (count == 0) return;
  std::vector<Dimension> outer = joined_dimensions(from, to);
  const Dimension row = outer.back();
  outer.pop_back();
  std::vector<int64_t> index(outer.size(), 0);
  const int32_t* read = words(input).data() + from.offset;
  int32_t* written = words(result).data() + to.offset;
  for (int64_t rows = count / row.size; rows > 0; --rows) {
    copy_row(row, read, written);
    for (size_t d = outer.size(); d-- > 0;) {
      read += outer[d].from;
      written += outer[d].to;
      if (++index[d] < outer[d].size) break;
      read -= outer[d].from * outer[d].size;
      written -= outer[d].to * outer[d].size;
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
