#include "detent/operators/schema.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace detent {

std::vector<StridedCopy> whole_result(const StridedView& from) {
  return {{0, from, StridedView::of(from.shape)}};
}

namespace {

// These move elements and make no new values but zeros, so there is nothing for a format to round.

Operand infer_slice(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  for (const SliceRange& range : slice_ranges(node, shape)) {
    const int64_t size = shape[range.dim];
    shape[range.dim] = range.end > range.start ? (range.end - range.start - 1) / range.step + 1 : 0;
    if (shape[range.dim] < 1 && size > 0) fail("nothing is left of dimension {}", range.dim);
  }
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> sliced(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  StridedView from = StridedView::of(inputs[0]);
  for (const SliceRange& range : slice_ranges(node, inputs[0])) {
    from.offset += range.start * from.strides[range.dim];
    if (result[range.dim] > 1) from.strides[range.dim] *= range.step;
  }
  from.shape = result;
  return whole_result(from);
}

OperatorSchema slice() {
  return {.name = "slice",
          .help = "every step-th element of some dimensions, as x[start:end:step] does in Python",
          .mase_type = MaseType::kImplicitFunc,
          .attributes = {{"dims", AttributeKind::kIntegers, Value(), "dimensions to slice"},
                         {"starts", AttributeKind::kIntegers, 0, "first element of each"},
                         {"ends", AttributeKind::kIntegers, Value(), "element past the last; NA: all", true},
                         {"steps", AttributeKind::kIntegers, 1, "distance of elements, at least 1"}},
          .infer = infer_slice,
          .dtypes = DTypeRule::kKept,
          .trait = Movement{sliced}};
}

Operand infer_select(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  const int64_t index = integer_attribute(node, "index");
  if (index < -shape[dim] || index >= shape[dim]) {
    fail("attribute \"index\": got {}, expected {} to {}", index, -shape[dim], shape[dim] - 1);
  }
  shape.erase(shape.begin() + static_cast<int64_t>(dim));
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> selected(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  StridedView from = StridedView::of(inputs[0]);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), inputs[0].size());
  const int64_t index = integer_attribute(node, "index");
  from.offset = (index < 0 ? index + inputs[0][dim] : index) * from.strides[dim];
  from.shape = result;
  from.strides.erase(from.strides.begin() + static_cast<int64_t>(dim));
  return whole_result(from);
}

OperatorSchema select() {
  return {.name = "select",
          .help = "one position of a dimension, which disappears",
          .mase_type = MaseType::kImplicitFunc,
          .attributes = {{"dim", AttributeKind::kInteger, Value(), "the dimension"},
                         {"index", AttributeKind::kInteger, Value(), "the position; -1 is the last"}},
          .infer = infer_select,
          .dtypes = DTypeRule::kKept,
          .trait = Movement{selected}};
}

Operand infer_pad(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const std::vector<int64_t> border = integers_attribute(node, "pad");
  if (border.size() % 2 != 0 || border.size() > 2 * shape.size()) {
    fail("attribute \"pad\": got {}, expected two numbers a dimension, of at most {} dimensions",
         shape_text(border), shape.size());
  }
  for (size_t i = 0; i < border.size(); ++i) {
    expect_size("attribute \"pad\"", border[i], 0);
    shape[shape.size() - 1 - i / 2] += border[i];
  }
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> padded(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  StridedView to = StridedView::of(result);
  const std::vector<int64_t> border = integers_attribute(node, "pad");
  for (size_t i = 0; i < border.size(); i += 2) {
    to.offset += border[i] * to.strides[result.size() - 1 - i / 2];
  }
  to.shape = inputs[0];
  return {{0, StridedView::of(inputs[0]), std::move(to)}};
}

OperatorSchema pad() {
  return {.name = "pad",
          .help = "zeros around the last dimensions",
          .mase_type = MaseType::kBuiltinFunc,
          .attributes = {{"pad", AttributeKind::kIntegers, Value(),
                          "zeros before and after the last dimension, then the one before it, ..."}},
          .infer = infer_pad,
          .dtypes = DTypeRule::kKept,
          .trait = Movement{padded}};
}

std::vector<Operand> infer_split(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  std::vector<Operand> results;
  int64_t sum = 0;
  for (const int64_t size : integers_attribute(node, "sizes")) {
    expect_size("attribute \"sizes\"", size, 1);
    sum += size;
    results.push_back({shape, Value()});
    results.back().shape[dim] = size;
  }
  if (results.empty() || (sum != shape[dim] && shape[dim] != kOpenSize)) {
    fail("attribute \"sizes\": got {}, expected sizes that sum to {}, those of dimension {}",
         value_text(*node.attributes.find("sizes")), shape[dim], dim);
  }
  return results;
}

std::vector<StridedCopy> part(const Node& node, const Shape& input, size_t index) {
  const std::vector<int64_t> sizes = integers_attribute(node, "sizes");
  const size_t dim = dimension_index(integer_attribute(node, "dim"), input.size());
  StridedView from = StridedView::of(input);
  for (size_t i = 0; i < index; ++i) from.offset += sizes[i] * from.strides[dim];
  from.shape[dim] = sizes[index];
  return whole_result(from);
}

OperatorSchema split() {
  return {.name = "split",
          .help = "parts of a dimension, one result each",
          .mase_type = MaseType::kBuiltinFunc,
          .attributes = {{"sizes", AttributeKind::kIntegers, Value(), "positions that each result takes"},
                         {"dim", AttributeKind::kInteger, 0, "the dimension"}},
          .infer_results = infer_split,
          .result_count = [](const Node& node) { return integers_attribute(node, "sizes").size(); },
          .dtypes = DTypeRule::kKept,
          .takes_open_sizes = true,
          .trait = Movement{.parts = part}};
}

constexpr size_t kMostJoined = 4096;

Operand infer_cat(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape other = tensor_shape(inputs, i);
    const int64_t size = dim < other.size() ? std::exchange(other[dim], shape[dim]) : 0;
    for (size_t d = 0; d < std::min(shape.size(), other.size()); ++d) {
      if (d != dim && other[d] == kOpenSize) other[d] = shape[d];
      if (d != dim && shape[d] == kOpenSize) shape[d] = other[d];
    }
    if (other != shape) {
      fail("got shapes {} and {}, expected equal ones but for dimension {}",
           shape_text(tensor_shape(inputs, 0)), shape_text(tensor_shape(inputs, i)), dim);
    }
    shape[dim] = shape[dim] == kOpenSize || size == kOpenSize ? kOpenSize : shape[dim] + size;
  }
  return {std::move(shape), Value()};
}

std::vector<StridedCopy> joined(const Node& node, std::span<const Shape> inputs, const Shape& result) {
  const size_t dim = dimension_index(integer_attribute(node, "dim"), result.size());
  std::vector<StridedCopy> copies;
  StridedView to = StridedView::of(result);
  for (size_t i = 0; i < inputs.size(); ++i) {
    to.shape = inputs[i];
    copies.push_back({i, StridedView::of(inputs[i]), to});
    to.offset += inputs[i][dim] * to.strides[dim];
  }
  return copies;
}

OperatorSchema cat() {
  return {.name = "cat",
          .help = "the inputs one after another along a dimension",
          .mase_type = MaseType::kBuiltinFunc,
          .max_inputs = kMostJoined,
          .attributes = {{"dim", AttributeKind::kInteger, 0, "the dimension"}},
          .infer = infer_cat,
          .dtypes = DTypeRule::kKept,
          .takes_open_sizes = true,
          .trait = Movement{joined, /*joins=*/true}};
}

}  // namespace

std::vector<SliceRange> slice_ranges(const Node& node, const Shape& shape) {
  const std::vector<int64_t> dims = integers_attribute(node, "dims");
  const std::vector<int64_t> starts = integers_attribute(node, "starts", dims.size());
  const std::vector<int64_t> steps = integers_attribute(node, "steps", dims.size());
  const bool to_the_end = node.attributes.find("ends")->is_na();
  const std::vector<int64_t> ends = to_the_end ? std::vector(dims.size(), std::numeric_limits<int64_t>::max())
                                               : integers_attribute(node, "ends", dims.size());
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t dim = dimension_index(dims[i], shape.size());
    const auto position = [size = shape[dim]](int64_t index) {
      return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
    };
    if (steps[i] < 1) fail("attribute \"steps\": got {}, expected at least 1", steps[i]);
    if (std::ranges::find(ranges, dim, &SliceRange::dim) != ranges.end())
      fail("attribute \"dims\": got {} twice", dims[i]);
    const int64_t step = std::min(steps[i], std::max<int64_t>(shape[dim], 1));  // a larger one takes as much
    ranges.push_back({dim, position(starts[i]), position(ends[i]), step});
  }
  return ranges;
}

std::vector<OperatorSchema> indexing_operators() { return {slice(), select(), pad(), cat(), split()}; }

namespace {

/// Row x[...] of weight [rows, dim] for every index.
Operand infer_embedding(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const Tensor& weight = node.find_parameter("weight")->tensor;
  if (weight.rank() != 2) fail("weight has shape {}, expected [rows, dim]", shape_text(weight.shape()));
  const Value* padding = node.attributes.find("padding_idx");
  if (padding != nullptr && !padding->is_na()) {
    const int64_t index = integer_attribute(node, "padding_idx");
    if (index < -weight.dim(0) || index >= weight.dim(0)) {
      fail("attribute \"padding_idx\": got {}, expected {} to {}", index, -weight.dim(0), weight.dim(0) - 1);
    }
  }
  shape.push_back(weight.dim(1));
  return {std::move(shape), Value()};
}

}  // namespace

std::vector<OperatorSchema> embedding_operators() {
  return {{.name = "embedding",
           .help = "rows of weight by index, negative ones from the end; indices are int64, or float32 with "
                   "integer values",
           .mase_type = MaseType::kModuleRelatedFunc,
           .parameters = {{.name = "weight", .initial = NormalInitial{.zero_row = "padding_idx"}}},
           .attributes = {{"padding_idx", AttributeKind::kInteger, Value(),
                           "row that begins as zeros and is not trained; NA: none", true}},
           .infer = infer_embedding,
           .weight_channel_dim = 0,
           .quantizable = true,
           .index_operands = {"data_in_0"}}};
}

}  // namespace detent
