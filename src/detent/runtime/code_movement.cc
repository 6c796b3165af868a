#include "detent/runtime/code_movement.h"

#include <algorithm>
#include <cstring>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Both kinds of elements as 32 bits.
std::span<const int32_t> words(const Tensor& tensor) {
  return {reinterpret_cast<const int32_t*>(tensor.bytes().data()), static_cast<size_t>(tensor.numel())};
}
std::span<int32_t> words(Tensor& tensor) {
  return {reinterpret_cast<int32_t*>(tensor.bytes().data()), static_cast<size_t>(tensor.numel())};
}

/// Where the elements of a tensor lie in the memory of another.
struct View {
  Shape shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

View whole(const Shape& shape) {
  View view{shape, std::vector<int64_t>(shape.size(), 1)};
  for (size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  return view;
}

/// Calls `visit(offset)` for each element of the view, in its row-major order.
template <class Visit>
void for_each_offset(const View& view, Visit visit) {
  const int64_t count = element_count(view.shape);
  std::vector<int64_t> index(view.shape.size(), 0);
  int64_t offset = view.offset;
  for (int64_t i = 0; i < count; ++i) {
    visit(offset);
    for (size_t d = view.shape.size(); d-- > 0;) {
      offset += view.strides[d];
      if (++index[d] < view.shape[d]) break;
      offset -= view.strides[d] * view.shape[d];
      index[d] = 0;
    }
  }
}

Tensor gathered(const Tensor& from, const View& view) {
  Tensor result(from.dtype(), view.shape);
  auto to = words(result).begin();
  for_each_offset(view, [&, source = words(from)](int64_t at) { *to++ = source[static_cast<size_t>(at)]; });
  return result;
}

/// Writes `from` to where `view` lies in `to`.
void scatter(const Tensor& from, Tensor& to, const View& view) {
  auto next = words(from).begin();
  for_each_offset(view, [&, target = words(to)](int64_t at) { target[static_cast<size_t>(at)] = *next++; });
}

size_t dimension(int64_t dim, const Shape& shape) {
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim);
}

View transposed(const Node& node, const Shape& shape) {
  View view = whole(shape);
  const size_t a = dimension(integer_attribute(node, "dim0"), shape);
  const size_t b = dimension(integer_attribute(node, "dim1"), shape);
  std::swap(view.shape[a], view.shape[b]);
  std::swap(view.strides[a], view.strides[b]);
  return view;
}

View permuted(const Node& node, const Shape& shape) {
  const View from = whole(shape);
  View view;
  for (const int64_t dim : integers_attribute(node, "dims")) {
    view.shape.push_back(from.shape[dimension(dim, shape)]);
    view.strides.push_back(from.strides[dimension(dim, shape)]);
  }
  return view;
}

View expanded(const Shape& shape, const Shape& result) {
  View view = whole(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1 && result[i] != 1) view.strides[i] = 0;
  }
  view.shape = result;
  return view;
}

View sliced(const Node& node, const Shape& shape, const Shape& result) {
  View view = whole(shape);
  for (const SliceRange& range : slice_ranges(node, shape)) {
    view.offset += range.start * view.strides[range.dim];
    view.strides[range.dim] *= range.step;
  }
  view.shape = result;
  return view;
}

View selected(const Node& node, const Shape& shape) {
  View view = whole(shape);
  const size_t dim = dimension(integer_attribute(node, "dim"), shape);
  const int64_t index = integer_attribute(node, "index");
  view.offset = (index < 0 ? index + shape[dim] : index) * view.strides[dim];
  view.shape.erase(view.shape.begin() + static_cast<int64_t>(dim));
  view.strides.erase(view.strides.begin() + static_cast<int64_t>(dim));
  return view;
}

Tensor padded(const Node& node, const Tensor& input, const Shape& shape, int32_t fill) {
  Tensor result(input.dtype(), shape);
  std::ranges::fill(words(result), fill);
  View view = whole(shape);
  const std::vector<int64_t> border = integers_attribute(node, "pad");
  for (size_t i = 0; i < border.size(); i += 2) {
    view.offset += border[i] * view.strides[shape.size() - 1 - i / 2];
  }
  view.shape = input.shape();
  scatter(input, result, view);
  return result;
}

Tensor joined(const Node& node, std::span<const Tensor> inputs, const Shape& shape) {
  Tensor result(inputs[0].dtype(), shape);
  View view = whole(shape);
  const size_t dim = dimension(integer_attribute(node, "dim"), shape);
  for (const Tensor& input : inputs) {
    view.shape = input.shape();
    scatter(input, result, view);
    view.offset += input.shape()[dim] * view.strides[dim];
  }
  return result;
}

}  // namespace

Tensor moved_elements(const Node& node, std::span<const Tensor> inputs, const Shape& shape, int32_t fill) {
  const Tensor& input = inputs[0];
  if (node.op == "transpose") return gathered(input, transposed(node, input.shape()));
  if (node.op == "permute") return gathered(input, permuted(node, input.shape()));
  if (node.op == "expand") return gathered(input, expanded(input.shape(), shape));
  if (node.op == "slice") return gathered(input, sliced(node, input.shape(), shape));
  if (node.op == "select") return gathered(input, selected(node, input.shape()));
  if (node.op == "pad") return padded(node, input, shape, fill);
  if (node.op == "cat") return joined(node, inputs, shape);
  return input.reshaped(shape);
}

}  // namespace detent
