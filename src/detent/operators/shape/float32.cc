#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/resize_weights.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

Tensor list_of(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({std::ssize(values)}, values);
}

Tensor list_of_sizes(const FloatNode& n) {
  const Shape shape = n.operand(0).shape();
  const int64_t first = integer_attribute(n.node, "start");
  const auto count = n.inferred().front().shape.front();
  const auto begin = shape.begin() +
                     std::clamp<int64_t>(first < 0 ? first + std::ssize(shape) : first, 0, std::ssize(shape));
  return list_of({begin, begin + count});
}

Tensor count_of_elements(const FloatNode& n) {
  return Tensor::from<int64_t>({}, std::vector{n.operand(0).numel()});
}

Tensor tiled(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const std::vector<int64_t> repeats = n.integers(1);
  StridedView view;
  Shape shape;
  const StridedView all = StridedView::of(x.shape());
  for (size_t d = 0; d < repeats.size(); ++d) {
    view.shape.insert(view.shape.end(), {repeats[d], x.shape()[d]});
    view.strides.insert(view.strides.end(), {0, all.strides[d]});
    shape.push_back(repeats[d] * x.shape()[d]);
  }
  return gathered(x, view).reshaped(shape);
}

/// The dimensions that an input lists, or the first ones.
std::vector<size_t> listed_dims(const FloatNode& n, size_t index, size_t count, size_t rank) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  if (!n.is_absent(index)) dims = n.integers(index);
  if (dims.size() != count)
    fail("node \"{}\" ({}): got {} dimensions, expected {}", n.node.name, n.node.op, dims.size(), count);
  std::vector<size_t> from_front;
  for (const int64_t dim : dims) from_front.push_back(n.dimension(dim, rank));
  return from_front;
}

Tensor sliced(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const std::vector<int64_t> starts = n.integers(1);
  const std::vector<int64_t> ends = n.integers(2);
  const std::vector<size_t> dims = listed_dims(n, 3, starts.size(), x.shape().size());
  std::vector<int64_t> steps(starts.size(), 1);
  if (!n.is_absent(4)) steps = n.integers(4);
  if (ends.size() != starts.size() || steps.size() != starts.size())
    fail("node \"{}\" ({}): got lists of different lengths, expected {} of each", n.node.name, n.node.op,
         starts.size());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  const auto bounded = [&](int64_t position) { return std::clamp(position, -kMost, kMost); };
  StridedView view = StridedView::of(x.shape());
  for (size_t i = 0; i < dims.size(); ++i) {
    const PositionRange range{bounded(starts[i]), bounded(ends[i]), bounded(steps[i])};
    int64_t& size = view.shape[dims[i]];
    const int64_t count = slice_count(range, size);
    if (count > 0) view.offset += first_position(range, size) * view.strides[dims[i]];
    if (count > 1) view.strides[dims[i]] *= range.step;
    size = count;
  }
  return gathered(x, view);
}

/// Where the elements of a dimension come from that has borders of these sizes.
std::vector<int64_t> border_sources(int64_t before, int64_t size, int64_t after, const std::string& mode) {
  std::vector<int64_t> sources;
  for (int64_t p = -before; p < size + after; ++p) sources.push_back(border_source(p, size, mode));
  return sources;
}

Tensor padded(const FloatNode& n) {
  Tensor x = n.operand(0);
  const std::vector<int64_t> borders = n.integers(1);
  const size_t count = borders.size() / 2;
  const std::vector<size_t> dims = listed_dims(n, 3, count, x.shape().size());
  const Tensor value = n.is_absent(2) ? Tensor(x.dtype(), {}) : n.operand(2);
  const std::string& mode = choice_attribute(n.node, "mode");
  for (size_t i = 0; i < count; ++i) {
    if (borders[i] == 0 && borders[i + count] == 0) continue;
    const int64_t size = x.shape()[dims[i]];
    x = selected_positions(x, dims[i], border_sources(borders[i], size, borders[i + count], mode), value);
  }
  return x;
}

/// Borders whose elements are some of the input's: each dimension takes one place for each.
std::optional<std::vector<ResampledAxis>> bordered_axes(const FloatNode& n, const Shape& input) {
  const std::string& mode = choice_attribute(n.node, "mode");
  if (mode == "constant") return std::nullopt;
  const std::vector<int64_t> borders = n.integers(1);
  const size_t count = borders.size() / 2;
  const std::vector<size_t> dims = listed_dims(n, 3, count, input.size());
  std::vector<ResampledAxis> axes;
  for (size_t i = 0; i < count; ++i) {
    if (borders[i] == 0 && borders[i + count] == 0) continue;
    ResampledAxis axis{dims[i], {}};
    const int64_t size = input[axis.dim];
    if (size == 0) return std::nullopt;
    for (const int64_t place : border_sources(borders[i], size, borders[i + count], mode))
      axis.taps.push_back({{place}, {1}});
    axes.push_back(std::move(axis));
  }
  std::ranges::sort(axes, {}, &ResampledAxis::dim);
  return axes;
}

std::vector<Tensor> split(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const size_t dim = n.dimension(integer_attribute(n.node, "dim"), x.shape().size());
  StridedView view = StridedView::of(x.shape());
  std::vector<Tensor> parts;
  for (const Operand& part : n.inferred()) {
    view.shape = part.shape;
    parts.push_back(gathered(x, view));
    view.offset += part.shape[dim] * view.strides[dim];
  }
  return parts;
}

Tensor filled(const FloatNode& n) {
  const Tensor value = full_value(n.node);
  Tensor result(value.dtype(), n.integers(0));
  visit_words(value.dtype(), [&]<class Word>(Word) {
    std::fill_n(words_of<Word>(result), result.numel(), *words_of<Word>(value));
  });
  return result;
}

Tensor range(const FloatNode& n) {
  const DType dtype = n.inferred().front().dtype;
  const auto number = [&](size_t index) {
    const Tensor given = n.operand(index);
    if (given.numel() != 1)
      fail("node \"{}\" (range): input {} has shape {}, expected one number", n.node.name, index,
           shape_text(given.shape()));
    return to_dtype(given, dtype);
  };
  return range_elements(number(0), number(1), number(2));
}

Tensor cast(const FloatNode& n) {
  return to_dtype(n.operand(0), dtype_of_name(choice_attribute(n.node, "dtype")));
}

Tensor asserted(const FloatNode& n) {
  const Tensor conditions = n.operand(1);
  if (!std::ranges::all_of(std::as_const(conditions).values<bool>(), std::identity()))
    fail("node \"{}\" (assert): {}", n.node.name, text_attribute(n.node, "message"));
  return n.operand(0);
}

std::vector<Tensor> without_dropout(const FloatNode& n) {
  const auto is_zero = [&](size_t index) {
    const Tensor given = to_dtype(n.operand(index), DType::kBool);
    return std::ranges::none_of(given.values<bool>(), std::identity());
  };
  if (!is_zero(1) && !is_zero(2))
    fail("node \"{}\": inputs 1 and 2 ask to drop elements at random, as in training", n.node.name);
  Tensor mask(DType::kBool, n.operand(0).shape());
  std::ranges::fill(mask.values<bool>(), true);
  return {n.operand(0), mask};
}

/// Operators with the trait Movement.
std::vector<Tensor> moved(const FloatNode& n) {
  const std::vector<std::string>& indices = find_operator(n.node.op).index_operands;
  std::vector<Tensor> elements;
  for (size_t i = 0; i < n.node.inputs.size(); ++i) {
    const bool is_index =
        !indices.empty() && std::ranges::find(indices, fmt::format("data_in_{}", i)) != indices.end();
    if (!n.node.inputs[i].is_constant() && !is_index && n.inputs[i].number.is_na())
      elements.push_back(n.operand(i));
  }
  std::vector<Tensor> results;
  for (const Operand& result : n.inferred())
    results.push_back(moved_elements(n.node, elements, result.shape, 0, results.size()));
  return results;
}

}  // namespace

FloatOperators movement_operators() {
  FloatOperators operators = {
      {"shape_of", list_of_sizes, true},
      {"numel", count_of_elements, true},
      {"tile", tiled, true},
      {"dynamic_slice", sliced, true},
      {.op = "dynamic_pad", .compute = padded, .is_exact = true, .resampled = bordered_axes},
      {"full", filled, true},
      {"range", range, true},
      {.op = "cast", .compute = cast, .is_exact = true, .codes = CodeOperator::kConversion},
      {"assert", asserted, true},
      {.op = "dynamic_split", .compute = nullptr, .is_exact = true, .compute_all = split},
      {.op = "inference_dropout", .compute = nullptr, .is_exact = true, .compute_all = without_dropout},
  };
  for (const OperatorSchema& schema : all_operators()) {
    if (std::holds_alternative<Movement>(schema.trait))
      operators.push_back({.op = schema.name, .compute = nullptr, .is_exact = true, .compute_all = moved});
  }
  return operators;
}

}  // namespace detent
