#include "detent/core/strided_view.h"

#include <algorithm>
#include <limits>

#include "detent/core/element_types.h"
#include "detent/core/error.h"

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

}  // namespace

StridedView StridedView::of(const Shape& shape) {
  StridedView view{shape, std::vector<int64_t>(shape.size(), 1)};
  for (size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  return view;
}

StridedView StridedView::broadcast(const Shape& from, const Shape& to) {
  const StridedView whole = of(from);
  StridedView view{to, std::vector<int64_t>(to.size(), 0)};
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = to.size() - 1 - i;
    const size_t source = from.size() - 1 - i;
    if (from[source] == to[at]) view.strides[at] = whole.strides[source];
  }
  return view;
}

bool StridedView::is_contiguous() const {
  const std::vector<int64_t> adjacent = of(shape).strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != adjacent[d]) return false;
  }
  return true;
}

bool StridedView::keeps_order() const {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (strides[d] > last) return false;
    last = strides[d];
  }
  return true;
}

/// A step of so many elements is so many along each dimension of `inner`, the first as many as there can be.
/// That is right for all elements at once where no sum of steps leaves a dimension.
std::optional<StridedView> StridedView::over(const StridedView& inner) const {
  if (inner.is_contiguous()) {
    StridedView moved = *this;
    moved.offset += inner.offset;
    return moved;
  }
  const std::vector<int64_t> adjacent = of(inner.shape).strides;
  std::vector<int64_t> farthest(inner.shape.size(), 0);  // along each dimension of `inner`
  const auto moved_by = [&](int64_t elements, int64_t times) {
    int64_t by = 0;
    for (size_t d = 0; d < adjacent.size(); ++d) {
      const int64_t along = inner.shape[d] == 1 ? 0 : elements / adjacent[d];
      elements -= along * adjacent[d];
      farthest[d] += along * times;
      by += along * inner.strides[d];
    }
    return by;
  };
  if (std::ranges::any_of(strides, [](int64_t stride) { return stride < 0; })) return std::nullopt;
  StridedView moved{shape, {}, inner.offset + moved_by(offset, 1)};
  for (size_t d = 0; d < shape.size(); ++d)
    moved.strides.push_back(shape[d] == 1 ? 0 : moved_by(strides[d], shape[d] - 1));
  for (size_t d = 0; d < farthest.size(); ++d) {
    if (farthest[d] >= inner.shape[d]) return std::nullopt;
  }
  return moved;
}

Tensor broadcast(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape || tensor.numel() == 1) return tensor;
  return gathered(tensor, StridedView::broadcast(tensor.shape(), shape));
}

BroadcastPair::BroadcastPair(const Tensor& left, const Tensor& right)
    : shape(broadcast_shapes(left.shape(), right.shape())) {
  a = broadcast(left, shape);
  b = broadcast(right, shape);
  a_step = a.numel() == 1 ? 0 : 1;
  b_step = b.numel() == 1 ? 0 : 1;
}

void copy_elements(const Tensor& input, const StridedView& from, Tensor& result, const StridedView& to) {
  DETENT_CHECK(from.shape == to.shape, "a copy of {} to {}", shape_text(from.shape), shape_text(to.shape));
  if (element_count(from.shape) == 0) return;
  visit_words(input.dtype(),
              [&]<class Word>(Word) { copy_words(words_of<Word>(input), from, words_of<Word>(result), to); });
}

Tensor gathered(const Tensor& from, const StridedView& view) {
  Tensor result = unfilled_tensor(from.dtype(), view.shape);
  copy_elements(from, view, result, StridedView::of(view.shape));
  return result;
}

Tensor copied_elements(std::span<const Tensor> inputs, std::span<const StridedCopy> copies,
                       const Shape& shape) {
  Tensor result(inputs[0].dtype(), shape);
  for (const StridedCopy& copy : copies) copy_elements(inputs[copy.input], copy.from, result, copy.to);
  return result;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    const bool is_open = from_a == kOpenSize || from_b == kOpenSize;
    if (!is_open && from_a != from_b && from_a != 1 && from_b != 1) {
      fail("shapes {} and {} do not broadcast", shape_text(a), shape_text(b));
    }
    int64_t& size = shape[shape.size() - 1 - i];
    size = from_a == 1 ? from_b : from_a;
    if (is_open) size = std::max(from_a, from_b) > 1 ? std::max(from_a, from_b) : kOpenSize;
  }
  return shape;
}

}  // namespace detent
