#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "detent/core/convert.h"
#include "detent/core/pair_functions.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/known_elements.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

// Operators that compute shapes, and those whose result has a shape that an input gives, as ONNX defines
// them. Where only a run knows that input, the sizes are open.

/// How many numbers an input lists, one for each of some dimensions.
size_t list_size(std::span<const Operand> inputs, size_t index) {
  const Shape& shape = tensor_shape(inputs, index);
  if (shape.size() != 1 || shape[0] == kOpenSize)
    fail("input {} has shape {}, expected a list of known length", index, shape_text(shape));
  if (shape[0] > static_cast<int64_t>(kMostDims))
    fail("input {} has shape {}, expected a number for each of at most {} dimensions", index,
         shape_text(shape), kMostDims);
  return static_cast<size_t>(shape[0]);
}

Operand infer_shape_of(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const auto rank = std::ssize(shape);
  const auto place = [&](const char* name) {
    const Value* value = node.attributes.find(name);
    const int64_t at = value->is_na() ? rank : integer_attribute(node, name);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = place("start");
  const int64_t end = std::max(start, place("end"));
  Operand result{{end - start}, Value(), DType::kInt64};
  const Shape part(shape.begin() + start, shape.begin() + end);
  if (std::ranges::find(part, kOpenSize) == part.end())
    result.elements = Tensor::from<int64_t>({std::ssize(part)}, part);
  return result;
}

Operand infer_numel(const Node& /*node*/, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  Operand result{{}, Value(), DType::kInt64};
  if (!inputs[0].is_open()) result.elements = Tensor::from<int64_t>({}, std::vector{element_count(shape)});
  return result;
}

/// 0 keeps a dimension, unless `allow_zero`; one -1 takes what is left.
Operand infer_dynamic_reshape(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const auto wanted = known_integers(inputs, 1);
  if (!wanted) return {Shape(list_size(inputs, 1), kOpenSize), Value()};
  Shape result;
  const bool copies = !boolean_attribute(node, "allow_zero");
  for (size_t d = 0; d < wanted->size(); ++d) {
    const int64_t size = (*wanted)[d];
    if (size < -1) fail("input 1 asks for a size of {}", size);
    if (size == 0 && copies && d >= shape.size())
      fail("input 1 keeps dimension {} of a tensor of shape {}", d, shape_text(shape));
    result.push_back(size == 0 && copies ? shape[d] : size);
  }
  if (std::ranges::count(*wanted, -1) > 1) fail("input 1 leaves more than one size open");
  if (inputs[0].is_open() || std::ranges::count(result, kOpenSize) > 1) return {std::move(result), Value()};
  const int64_t count = element_count(shape);
  if (const auto open = std::ranges::find(result, kOpenSize); open != result.end()) {
    *open = 1;
    const int64_t rest = element_count(result);
    *open = rest > 0 ? count / rest : 0;
  }
  if (element_count(result) != count)
    fail("{} elements of shape {} do not fit into {}", count, shape_text(shape), shape_text(*wanted));
  return {std::move(result), Value()};
}

/// Both shapes broadcast to each other.
Operand infer_dynamic_expand(const Node& /*node*/, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const auto wanted = known_integers(inputs, 1);
  return {broadcast_shapes(shape, wanted ? *wanted : Shape(list_size(inputs, 1), kOpenSize)), Value()};
}

std::optional<Tensor> expanded_elements(const Node& /*node*/, std::span<const Operand> inputs,
                                        const Operand& result) {
  if (!inputs[0].elements) return std::nullopt;
  return gathered(*inputs[0].elements, StridedView::broadcast(inputs[0].shape, result.shape));
}

Operand infer_tile(const Node& /*node*/, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const auto repeats = known_integers(inputs, 1);
  if ((repeats ? repeats->size() : list_size(inputs, 1)) != shape.size())
    fail("input 1 has not one number for each of {} dimensions", shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (repeats) expect_size("input 1", (*repeats)[d], 0);
    const bool is_known = repeats && shape[d] != kOpenSize;
    shape[d] = is_known ? element_count({shape[d], (*repeats)[d]}) : kOpenSize;
  }
  return {std::move(shape), Value()};
}

/// Inputs: starts, ends and, where they are given, dimensions and steps, which may be negative.
Operand infer_dynamic_slice(const Node& /*node*/, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const auto starts = known_integers(inputs, 1);
  const auto ends = known_integers(inputs, 2);
  const size_t count = starts ? starts->size() : list_size(inputs, 1);
  std::optional<std::vector<int64_t>> dims(std::in_place, count);
  std::optional<std::vector<int64_t>> steps(std::in_place, count, 1);
  for (size_t i = 0; i < count; ++i) (*dims)[i] = static_cast<int64_t>(i);
  if (is_given(inputs, 3)) dims = known_integers(inputs, 3);
  if (is_given(inputs, 4)) steps = known_integers(inputs, 4);
  if (!dims) return {Shape(shape.size(), kOpenSize), Value()};
  const auto has_size = [&](const auto& list) { return !list || list->size() == count; };
  if (!has_size(dims) || !has_size(ends) || !has_size(steps))
    fail("got lists of different lengths, expected {} of each", count);
  for (size_t i = 0; i < count; ++i) {
    int64_t& size = shape[dimension_index((*dims)[i], shape.size())];
    if (!starts || !ends || !steps || size == kOpenSize) {
      size = kOpenSize;
      continue;
    }
    size = slice_count({(*starts)[i], (*ends)[i], (*steps)[i]}, size);
  }
  return {std::move(shape), Value()};
}

std::optional<Tensor> sliced_elements(const Node& /*node*/, std::span<const Operand> inputs,
                                      const Operand& result) {
  const auto starts = known_integers(inputs, 1);
  const auto ends = known_integers(inputs, 2);
  if (!inputs[0].elements || !starts || !ends) return std::nullopt;
  std::optional<std::vector<int64_t>> dims(std::in_place, starts->size());
  for (size_t i = 0; i < dims->size(); ++i) (*dims)[i] = static_cast<int64_t>(i);
  std::optional<std::vector<int64_t>> steps(std::in_place, starts->size(), 1);
  if (is_given(inputs, 3)) dims = known_integers(inputs, 3);
  if (is_given(inputs, 4)) steps = known_integers(inputs, 4);
  if (!dims || !steps) return std::nullopt;
  if (element_count(result.shape) == 0) return Tensor(result.dtype, result.shape);
  StridedView view = StridedView::of(inputs[0].shape);
  view.shape = result.shape;
  for (size_t i = 0; i < dims->size(); ++i) {
    const size_t dim = dimension_index((*dims)[i], view.shape.size());
    const PositionRange range{(*starts)[i], (*ends)[i], (*steps)[i]};
    view.offset += first_position(range, inputs[0].shape[dim]) * view.strides[dim];
    if (view.shape[dim] > 1) view.strides[dim] *= range.step;
  }
  return gathered(*inputs[0].elements, view);
}

/// Inputs: how many before each dimension, then how many after each; the value; the dimensions that are
/// meant.
Operand infer_dynamic_pad(const Node& /*node*/, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const auto borders = known_integers(inputs, 1);
  const size_t count = (borders ? borders->size() : list_size(inputs, 1)) / 2;
  std::optional<std::vector<int64_t>> dims(std::in_place, count);
  for (size_t i = 0; i < count; ++i) (*dims)[i] = static_cast<int64_t>(i);
  if (is_given(inputs, 3)) dims = known_integers(inputs, 3);
  expect_one_element(inputs, 2);
  if (dims && (dims->size() != count || count > shape.size() || (borders && borders->size() != 2 * count)))
    fail("input 1 has not two numbers for each of {} dimensions", dims->size());
  for (size_t i = 0; dims && i < count; ++i) {
    int64_t& size = shape[dimension_index((*dims)[i], shape.size())];
    if (!borders || size == kOpenSize) {
      size = kOpenSize;
      continue;
    }
    const auto is_border = [](int64_t border) { return border >= -kLargestSize && border <= kLargestSize; };
    if (!is_border((*borders)[i]) || !is_border((*borders)[i + count]))
      fail("input 1 is {}, expected borders of at most {}", shape_text(*borders), kLargestSize);
    size += (*borders)[i] + (*borders)[i + count];
    if (size < 0 || size > kLargestSize)
      fail("input 1 is {}, which leaves {} of dimension {}", shape_text(*borders), size, (*dims)[i]);
  }
  if (!dims) std::ranges::fill(shape, kOpenSize);
  return {std::move(shape), Value()};
}

std::vector<Operand> infer_dynamic_split(const Node& node, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const size_t dim = dimension_index(integer_attribute(node, "dim"), shape.size());
  const auto sizes = known_integers(inputs, 1);
  const auto count = static_cast<size_t>(integer_attribute(node, "count"));
  if (sizes && sizes->size() != count) fail("input 1 lists {} sizes, expected {}", sizes->size(), count);
  std::vector<Operand> results;
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (sizes) expect_size("input 1", (*sizes)[i], 0);
    results.push_back({shape, Value(), inputs[0].dtype});
    sum += results.back().shape[dim] = sizes ? (*sizes)[i] : kOpenSize;
  }
  if (sizes && shape[dim] != kOpenSize && sum != shape[dim])
    fail("input 1 is {}, expected sizes that sum to {}", shape_text(*sizes), shape[dim]);
  return results;
}

/// Without the dimensions that input 1 lists, whose size is 1; or all such ones.
Operand infer_squeeze(const Node& /*node*/, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  std::set<size_t> gone;
  if (is_given(inputs, 1)) {
    const auto dims = known_integers(inputs, 1);
    if (!dims) {
      const size_t count = list_size(inputs, 1);
      if (count > shape.size()) fail("input 1 lists {} dimensions of {}", count, shape.size());
      if (count == shape.size() && !inputs[0].is_open() && element_count(shape) != 1)
        fail("input 1 lists all dimensions of shape {}, expected those of size 1", shape_text(shape));
      return {Shape(shape.size() - count, kOpenSize), Value()};
    }
    for (const int64_t dim : *dims) gone.insert(dimension_index(dim, shape.size()));
  } else {
    if (inputs[0].is_open()) fail("the sizes of the input are not known, so input 1 must be given");
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) gone.insert(d);
    }
  }
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!gone.contains(d)) result.push_back(shape[d]);
    if (gone.contains(d) && shape[d] != 1 && shape[d] != kOpenSize)
      fail("dimension {} has size {}, expected 1", d, shape[d]);
  }
  return {std::move(result), Value()};
}

Operand infer_unsqueeze(const Node& /*node*/, std::span<const Operand> inputs) {
  const Shape& shape = tensor_shape(inputs, 0);
  const auto dims = known_integers(inputs, 1);
  const size_t rank = shape.size() + (dims ? dims->size() : list_size(inputs, 1));
  if (!dims) return {Shape(rank, kOpenSize), Value()};
  std::set<size_t> added;
  for (const int64_t dim : *dims) added.insert(dimension_index(dim, rank));
  if (added.size() != dims->size()) fail("input 1 is {}, expected each dimension once", shape_text(*dims));
  Shape result;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) result.push_back(added.contains(d) ? 1 : shape[next++]);
  return {std::move(result), Value()};
}

const std::vector<std::string>& dtype_choices() {
  static const std::vector<std::string> choices = {"bool",  "uint8", "int8",    "int16",
                                                   "int32", "int64", "float32", "float64"};
  return choices;
}

OperatorSchema full() {
  return {.name = "full",
          .help = "a tensor of the shape that input 0 lists, of one value",
          .attributes =
              {{.name = "value", .kind = AttributeKind::kNumber, .default_value = 0.0, .help = "the value"},
               {.name = "dtype",
                .kind = AttributeKind::kChoice,
                .default_value = "float32",
                .help = "element type",
                .choices = dtype_choices()}},
          .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
            const auto wanted = known_integers(inputs, 0);
            for (const int64_t size : wanted.value_or(std::vector<int64_t>()))
              expect_size("input 0", size, 0);
            return {wanted ? *wanted : Shape(list_size(inputs, 0), kOpenSize), Value(),
                    dtype_of_name(choice_attribute(node, "dtype"))};
          },
          .dtypes = DTypeRule::kOwn,
          .elements = [](const Node& node, std::span<const Operand>,
                         const Operand& result) -> std::optional<Tensor> {
            return gathered(full_value(node), StridedView::broadcast({}, result.shape));
          },
          .takes_open_sizes = true,
          .index_operands = {"data_in_0"}};
}

/// Start, limit and step; nothing unless all three are known.
std::optional<std::array<Tensor, 3>> known_range(std::span<const Operand> inputs, DType dtype) {
  std::array<Tensor, 3> range;
  for (size_t i = 0; i < range.size(); ++i) {
    const auto number = known_tensor(inputs, i, dtype);
    if (!number || number->numel() != 1) return std::nullopt;
    range[i] = to_dtype(*number, dtype);
  }
  return range;
}

OperatorSchema range() {
  return {.name = "range",
          .help = "the numbers from input 0 on, in steps of input 2, that lie before input 1",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
            DType dtype = DType::kInt64;
            for (size_t i = 0; i < inputs.size(); ++i) expect_one_element(inputs, i);
            for (const Operand& input : inputs) {
              if (input.is_tensor() ? is_floating_point(input.dtype) : input.value.is<double>())
                dtype = DType::kFloat32;
            }
            for (const Operand& input : inputs) {
              if (input.is_tensor() && !is_floating_point(input.dtype)) dtype = input.dtype;
            }
            const auto known = known_range(inputs, dtype);
            const int64_t count = known ? range_count((*known)[0], (*known)[1], (*known)[2]) : kOpenSize;
            return {{count}, Value(), dtype};
          },
          .dtypes = DTypeRule::kOwn,
          .elements = [](const Node&, std::span<const Operand> inputs,
                         const Operand& result) -> std::optional<Tensor> {
            const auto known = known_range(inputs, result.dtype);
            if (!known) return std::nullopt;
            return range_elements((*known)[0], (*known)[1], (*known)[2]);
          },
          .takes_open_sizes = true,
          .index_operands = {"data_in_0", "data_in_1", "data_in_2"}};
}

/// With the element type of input 0, and a last input of sizes or axes.
OperatorSchema shaping(const char* name, const char* help, const ShapeInference& infer, size_t min_inputs = 2,
                       size_t max_inputs = 2) {
  OperatorSchema schema = {.name = name,
                           .help = help,
                           .mase_type = MaseType::kImplicitFunc,
                           .min_inputs = min_inputs,
                           .max_inputs = max_inputs,
                           .infer =
                               [infer](const Node& node, std::span<const Operand> inputs) {
                                 Operand result = infer(node, inputs);
                                 result.dtype = inputs[0].dtype;
                                 return result;
                               },
                           .dtypes = DTypeRule::kOwn,
                           .takes_open_sizes = true};
  for (size_t i = 1; i < max_inputs; ++i) {
    schema.index_operands.push_back(fmt::format("data_in_{}", i));
    if (i >= min_inputs) schema.optional_operands.push_back(fmt::format("data_in_{}", i));
  }
  return schema;
}

OperatorSchema as_view(OperatorSchema schema) {
  schema.trait = Movement{};
  return schema;
}

OperatorSchema dynamic_slice() {
  OperatorSchema schema = shaping("dynamic_slice",
                                  "x[start:end:step], where inputs 1, 2, 3 and 4 list starts, ends, "
                                  "dimensions and steps",
                                  infer_dynamic_slice, 3, 5);
  schema.elements = sliced_elements;
  return schema;
}

OperatorSchema dynamic_expand() {
  OperatorSchema schema =
      shaping("dynamic_expand", "broadcast with the shape that input 1 lists", infer_dynamic_expand);
  schema.elements = expanded_elements;
  schema.trait = Movement{[](const Node&, std::span<const Shape> inputs, const Shape& result) {
    return whole_result(StridedView::broadcast(inputs[0], result));
  }};
  return schema;
}

OperatorSchema dynamic_pad() {
  OperatorSchema schema = shaping("dynamic_pad",
                                  "a border as wide as input 1 says: before each dimension, then after each; "
                                  "of the value that is input 2; of the dimensions that input 3 lists",
                                  infer_dynamic_pad, 2, 4);
  schema.attributes = {{.name = "mode",
                        .kind = AttributeKind::kChoice,
                        .default_value = "constant",
                        .help = "what the border holds",
                        .choices = {"constant", "reflect", "edge", "wrap"}}};
  return schema;
}

}  // namespace

/// As ONNX clamps it: with a negative step, a start before the first element is that one.
int64_t first_position(const PositionRange& range, int64_t size) {
  const int64_t start = range.start < 0 ? range.start + size : range.start;
  if (range.step > 0) return std::clamp<int64_t>(start, 0, size);
  return std::max<int64_t>(std::min(start, size - 1), 0);
}

int64_t slice_count(const PositionRange& range, int64_t size) {
  if (range.step == 0) fail("a step is 0");
  const int64_t end = range.end < 0 ? range.end + size : range.end;
  const int64_t last =
      range.step > 0 ? std::clamp<int64_t>(end, 0, size) : std::max<int64_t>(std::min(end, size - 1), -1);
  const int64_t length = last - first_position(range, size);
  if (size == 0 || length == 0 || (length > 0) != (range.step > 0)) return 0;
  const auto bits = static_cast<uint64_t>(range.step);
  const uint64_t step = range.step > 0 ? bits : -bits;  // the least step has no counterpart
  return static_cast<int64_t>((static_cast<uint64_t>(std::abs(length)) - 1) / step) + 1;
}

int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& step) {
  const double count = visit_numbers(start.dtype(), [&]<class T>(T) -> double {
    const T from = std::as_const(start).values<T>()[0];
    const T to = std::as_const(limit).values<T>()[0];
    const T by = std::as_const(step).values<T>()[0];
    if (by == 0) fail("input 2 is 0, expected a step");
    if constexpr (std::is_floating_point_v<T>) {
      return std::ceil(static_cast<double>(to - from) / static_cast<double>(by));
    } else {
      if (by > 0 ? from >= to : from <= to) return 0;
      // Unsigned integers hold the distances, which may be almost 2^64.
      const uint64_t above = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
      const auto stride = static_cast<uint64_t>(+by);  // of an int8_t, which is a character, as an int
      return static_cast<double>(by > 0 ? (above - 1) / stride + 1 : (-above - 1) / -stride + 1);
    }
  });
  if (!(count <= kLargestSize)) fail("a range of {} numbers, expected at most {}", count, kLargestSize);
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

Tensor range_elements(const Tensor& start, const Tensor& limit, const Tensor& step) {
  Tensor result(start.dtype(), {range_count(start, limit, step)});
  visit_numbers(start.dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      const T from = start.values<T>()[0];
      const T by = step.values<T>()[0];
      for (size_t i = 0; T & number : result.values<T>())
        number = Sum::of(from, Product::of(static_cast<T>(i++), by));
    }
  });
  return result;
}

Tensor full_value(const Node& node) {
  const DType dtype = dtype_of_name(choice_attribute(node, "dtype"));
  const Value& given = *node.attributes.find("value");
  const std::optional<Tensor> value = tensor_of_number(given, dtype);
  if (!value)
    fail("attribute \"value\": got {}, which {} does not hold", value_text(given), dtype_name(dtype));
  return *value;
}

std::vector<OperatorSchema> dynamic_shape_operators() {
  return {
      {.name = "shape_of",
       .help = "the sizes of the dimensions start to end, as a list",
       .attributes = {{"start", AttributeKind::kInteger, 0, "first dimension"},
                      {"end", AttributeKind::kInteger, Value(), "past the last one; NA: all", true}},
       .infer = infer_shape_of,
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true},
      {.name = "numel",
       .help = "the number of elements",
       .infer = infer_numel,
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true},
      [] {
        OperatorSchema schema =
            as_view(shaping("dynamic_reshape",
                            "the same elements in the shape that input 1 lists; 0 keeps a "
                            "dimension, one -1 takes what is left",
                            infer_dynamic_reshape));
        schema.attributes = {{"allow_zero", AttributeKind::kBoolean, false, "0 is a size"}};
        return schema;
      }(),
      dynamic_expand(),
      shaping("tile", "repeats each dimension as often as input 1 says", infer_tile),
      dynamic_slice(),
      dynamic_pad(),
      {.name = "dynamic_split",
       .help = "parts of a dimension, of the sizes that input 1 lists, one result each",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"count", AttributeKind::kInteger, Value(), "number of parts"},
                      {"dim", AttributeKind::kInteger, 0, "the dimension"}},
       .infer_results = infer_dynamic_split,
       .result_count =
           [](const Node& node) {
             const int64_t count = integer_attribute(node, "count");
             constexpr int64_t kMost = 4096;
             if (count < 1 || count > kMost)
               fail("node \"{}\": attribute \"count\": got {}, expected 1 to {}", node.name, count, kMost);
             return static_cast<size_t>(count);
           },
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true,
       .index_operands = {"data_in_1"}},
      as_view(shaping("squeeze", "without dimensions of size 1: those that input 1 lists, or all",
                      infer_squeeze, 1, 2)),
      as_view(shaping("unsqueeze", "with new dimensions of size 1, which input 1 lists", infer_unsqueeze)),
      full(),
      range(),
  };
}

}  // namespace detent
