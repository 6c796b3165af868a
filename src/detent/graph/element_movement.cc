#include "detent/graph/element_movement.h"

#include <algorithm>

#include "detent/core/element_types.h"
#include "detent/core/error.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

struct MovedDimension {
  int64_t size;
  int64_t from;  // strides
  int64_t to;
};

/// The dimensions of a copy; those that follow each other in both views are one.
std::vector<MovedDimension> joined_dimensions(const StridedView& from, const StridedView& to) {
  std::vector<MovedDimension> dimensions;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    const MovedDimension next{from.shape[d], from.strides[d], to.strides[d]};
    if (next.size == 1) continue;
    if (!dimensions.empty()) {
      MovedDimension& last = dimensions.back();
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

template <class Word>
void copy_row(const MovedDimension& row, const Word* from, Word* to) {
  if (row.from == 1 && row.to == 1) {
    std::copy_n(from, row.size, to);
  } else {
    for (int64_t i = 0; i < row.size; ++i) to[i * row.to] = from[i * row.from];
  }
}

template <class Word>
void copy_words(const Word* input, const StridedView& from, Word* result, const StridedView& to) {
  const int64_t count = element_count(from.shape);
  std::vector<MovedDimension> outer = joined_dimensions(from, to);
  const MovedDimension row = outer.back();
  outer.pop_back();
  std::vector<int64_t> index(outer.size(), 0);
  const Word* read = input + from.offset;
  Word* written = result + to.offset;
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

/// In row-major order of the shape that both views have.
void copy_elements(const Tensor& input, const StridedView& from, Tensor& result, const StridedView& to) {
  DETENT_CHECK(from.shape == to.shape, "a copy of {} to {}", shape_text(from.shape), shape_text(to.shape));
  if (element_count(from.shape) == 0) return;
  visit_words(input.dtype(),
              [&]<class Word>(Word) { copy_words(words_of<Word>(input), from, words_of<Word>(result), to); });
}

/// Elements have 32 bits, unless `fill` is 0.
void fill_elements(Tensor& tensor, int32_t fill) {
  if (fill == 0) return;  // a new tensor's elements are
  DETENT_CHECK(dtype_size(tensor.dtype()) == sizeof(fill), "{} filled with {}", dtype_name(tensor.dtype()),
               fill);
  std::fill_n(words_of<int32_t>(tensor), tensor.numel(), fill);
}

}  // namespace

Tensor gathered(const Tensor& from, const StridedView& view) {
  Tensor result = unfilled_tensor(from.dtype(), view.shape);
  copy_elements(from, view, result, StridedView::of(view.shape));
  return result;
}

std::vector<StridedCopy> movement_copies(const Node& node, std::span<const Shape> inputs, const Shape& result,
                                         size_t index) {
  const auto* movement = trait<Movement>(node);
  DETENT_CHECK(movement != nullptr, "node {} ({}) does not move elements", node.name, node.op);
  if (movement->is_view()) return {};
  return movement->parts ? movement->parts(node, inputs[0], index) : movement->copies(node, inputs, result);
}

Tensor copied_elements(std::span<const Tensor> inputs, std::span<const StridedCopy> copies,
                       const Shape& shape) {
  Tensor result(inputs[0].dtype(), shape);
  for (const StridedCopy& copy : copies) copy_elements(inputs[copy.input], copy.from, result, copy.to);
  return result;
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

}  // namespace detent
