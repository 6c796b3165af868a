#include <algorithm>
#include <limits>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// The shape that a network for one sample asks for, as one of a batch: a size of 1 in front is open, and the
/// others follow from a sample. Nothing where they do not.
std::optional<Shape> shape_of_batch(const NodeImport& node, Shape wanted) {
  if (wanted.empty() || wanted[0] != 1 || !node.has_freed_batch(0)) return std::nullopt;
  const Shape& shape = node.type(0).shape;
  const int64_t sample = element_count({shape.begin() + 1, shape.end()});
  const auto open = std::ranges::find(wanted, -1);
  if (std::ranges::find(wanted, 0) != wanted.end()) return std::nullopt;
  if (open != wanted.end()) {
    *open = 1;
    const int64_t others = element_count(wanted);
    if (sample % others != 0) return std::nullopt;
    *open = sample / others;
  }
  if (element_count(wanted) != sample) return std::nullopt;
  wanted[0] = -1;
  return wanted;
}

/// A view where the result's sizes are known but for one: how they were computed then is not needed.
void convert_reshape(NodeImport& node) {
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  const auto wanted = node.integers(1);
  const auto of_batch = wanted && !allow_zero ? shape_of_batch(node, *wanted) : std::nullopt;
  const NodeInput list = of_batch ? NodeImport::list_of(*of_batch) : node.list(1);
  const Table attributes = {{"allow_zero", allow_zero}};
  const Shape shape = node.result_shape("dynamic_reshape", {node.input(0), list}, attributes);
  constexpr size_t kMostViewDims = 8;
  const bool is_view = !shape.empty() && shape.size() <= kMostViewDims &&
                       std::ranges::find(shape, 0) == shape.end() &&
                       std::ranges::count(shape, kOpenSize) <= 1;
  if (!is_view) return node.set_output(0, node.add("dynamic_reshape", {node.input(0), list}, attributes));
  std::vector<NodeInput> inputs = {node.input(0)};
  for (const int64_t size : shape) inputs.push_back(NodeInput::of_constant(Value(size)));
  node.set_output(0, node.add("view", std::move(inputs)));
}

/// A list of one size of input 0, as the network computes it.
NodeInput computed_size(NodeImport& node, int64_t dim) {
  const NodeInput shape = node.add("shape_of", {node.input(0)});
  return node.add("gather", {shape, NodeImport::list_of({dim})}, {{"dim", 0}});
}

NodeInput sizes_of(NodeImport& node, const std::vector<int64_t>& values) {
  return node.constant_of(Tensor::from({std::ssize(values)}, values));
}

/// [product of the dimensions before the axis, product of the others]
void convert_flatten(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) fail("axis {} of {} dimensions", axis, rank);
  if (axis == 1 && rank > 1)
    return node.set_output(0, node.add("flatten", {node.input(0)}, {{"start_dim", 1}}));
  const auto product = [&](int64_t begin, int64_t end) -> std::optional<int64_t> {
    int64_t result = 1;
    for (int64_t d = begin; d < end; ++d) {
      const auto size = node.size(0, d);
      if (!size || *size == 0) return std::nullopt;
      result *= *size;
    }
    return result;
  };
  const auto before = product(0, axis);
  const auto after = product(axis, rank);
  if (!before && !after) {
    std::vector<int64_t> dims(static_cast<size_t>(axis));
    std::iota(dims.begin(), dims.end(), 0);
    const NodeInput sizes =
        node.add("gather", {node.add("shape_of", {node.input(0)}), NodeImport::list_of(dims)}, {{"dim", 0}});
    const NodeInput rows = node.add("prod", {sizes, NodeImport::list_of({0})}, {{"keepdim", true}});
    const NodeInput rest = node.constant_of(Tensor::from({1}, std::vector<int64_t>{-1}));
    const NodeInput shape = node.add("cat", {rows, rest}, {{"dim", 0}});
    return node.set_output(0, node.add("dynamic_reshape", {node.input(0), shape}));
  }
  std::vector<NodeInput> inputs = {node.input(0), NodeInput::of_constant(Value(before.value_or(-1))),
                                   NodeInput::of_constant(Value(after.value_or(-1)))};
  node.set_output(0, node.add("view", std::move(inputs)));
}

void convert_transpose(NodeImport& node) {
  std::vector<int64_t> reversed(node.rank(0));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const std::vector<int64_t> dims = node.integers("perm", reversed);
  if (dims.empty()) return node.pass_on(0);
  node.set_output(0, node.add("permute", {node.input(0)}, {{"dims", Value(dims)}}));
}

void convert_concat(NodeImport& node) {
  std::vector<NodeInput> inputs;
  if (node.input_count() == 0) fail("it has no inputs");
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  node.set_output(0, node.add("cat", std::move(inputs), {{"dim", node.integer("axis", 1)}}));
}

/// Sizes: an attribute before opset 13, then an input; else equal parts. Nothing where a run decides on them.
std::optional<std::vector<int64_t>> split_sizes(const NodeImport& node, int64_t axis) {
  if (node.has_attribute("split")) return node.integers("split", {});
  if (node.has_input(1)) return node.integers(1);
  const auto size = node.size(0, axis);
  if (!size) return std::nullopt;
  const auto parts = static_cast<int64_t>(node.output_count());
  const int64_t each = (*size + parts - 1) / parts;
  std::vector<int64_t> sizes(static_cast<size_t>(parts), each);
  sizes.back() = *size - each * (parts - 1);
  return sizes;
}

/// Equal parts of an open size, of which the last may be smaller.
NodeInput equal_parts(NodeImport& node, int64_t axis) {
  const auto parts = static_cast<int64_t>(node.output_count());
  const NodeInput size = computed_size(node, axis < 0 ? axis + static_cast<int64_t>(node.rank(0)) : axis);
  const NodeInput rounded_up = node.add("add", {size, sizes_of(node, {parts - 1})});
  const NodeInput each = node.add("div", {rounded_up, sizes_of(node, {parts})});
  std::vector<NodeInput> sizes(static_cast<size_t>(parts - 1), each);
  sizes.push_back(node.add("sub", {size, node.add("mul", {each, sizes_of(node, {parts - 1})})}));
  return node.add("cat", std::move(sizes), {{"dim", 0}});
}

void convert_split(NodeImport& node) {
  const int64_t axis = node.integer("axis", 0);
  const auto sizes = split_sizes(node, axis);
  NodeInput parts;
  if (sizes && std::ranges::find_if(*sizes, [](int64_t s) { return s < 1; }) == sizes->end()) {
    parts = node.add("split", {node.input(0)}, {{"sizes", Value(*sizes)}, {"dim", axis}});
  } else {
    const NodeInput list = sizes               ? NodeImport::list_of(*sizes)
                           : node.has_input(1) ? node.input(1)
                                               : equal_parts(node, axis);
    parts = node.add("dynamic_split", {node.input(0), list},
                     {{"count", static_cast<int64_t>(node.output_count())}, {"dim", axis}});
  }
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(parts.node, i));
  }
}

/// Positions beyond any size, as exporters write for "all", fit Python's rule.
bool is_plain_slice(const NodeImport& node, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& ends, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& steps) {
  if (starts.empty() || ends.size() != starts.size() || dims.size() != starts.size() ||
      steps.size() != starts.size())
    return false;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto size = node.size(0, dims[i]);
    // A slice that takes all of an open size leaves something, whatever the size.
    const bool takes_all = starts[i] == 0 && ends[i] >= std::numeric_limits<int32_t>::max();
    if (steps[i] < 1 || (!size && !takes_all)) return false;
    if (size && slice_count({starts[i], ends[i], steps[i]}, *size) < 1) return false;
  }
  return true;
}

/// Bounds are attributes before opset 10, then inputs, as those of the early DynamicSlice are.
void convert_slice(NodeImport& node) {
  constexpr int64_t kBoundsAreInputs = 10;
  const bool attributes = node.opset() < kBoundsAreInputs && node.op() == "Slice";
  const auto given = [&](const char* name, size_t index) -> std::optional<std::vector<int64_t>> {
    return attributes ? std::optional(node.integers(name, {})) : node.integers(index);
  };
  const auto starts = given("starts", 1);
  const auto ends = given("ends", 2);
  std::optional<std::vector<int64_t>> dims;
  std::optional<std::vector<int64_t>> steps;
  if (attributes ? node.has_attribute("axes") : node.has_input(3)) {
    dims = given("axes", 3);
  } else if (starts) {
    dims.emplace(starts->size());
    std::iota(dims->begin(), dims->end(), 0);
  }
  if (!attributes && node.has_input(4)) {
    steps = node.integers(4);
  } else if (starts) {
    steps.emplace(starts->size(), 1);
  }
  if (starts && ends && dims && steps && is_plain_slice(node, *starts, *ends, *dims, *steps)) {
    node.set_output(0, node.add("slice", {node.input(0)},
                                {{"dims", Value(*dims)},
                                 {"starts", Value(*starts)},
                                 {"ends", Value(*ends)},
                                 {"steps", Value(*steps)}}));
    return;
  }
  const auto operand = [&](const auto& known, size_t index) {
    if (known) return NodeImport::list_of(*known);
    return node.has_input(index) ? node.input(index) : NodeInput::absent();
  };
  node.set_output(0, node.add("dynamic_slice", {node.input(0), operand(starts, 1), operand(ends, 2),
                                                operand(dims, 3), operand(steps, 4)}));
}

constexpr int64_t kAxesAreInput = 13;

/// The axes of Squeeze and Unsqueeze: an attribute before opset 13, then an input.
NodeInput axes_operand(NodeImport& node) {
  if (node.opset() < kAxesAreInput)
    return node.has_attribute("axes") ? NodeImport::list_of(node.integers("axes", {})) : NodeInput::absent();
  return node.has_input(1) ? node.list(1) : NodeInput::absent();
}

bool is_open(const NodeImport& node) {
  for (size_t d = 0; d < node.rank(0); ++d)
    if (!node.size(0, static_cast<int64_t>(d))) return true;
  return false;
}

std::vector<int64_t> axes_of_one(const NodeImport& node) {
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < static_cast<int64_t>(node.rank(0)); ++d)
    if (node.size(0, d) == 1) axes.push_back(d);
  return axes;
}

/// A list of no axes stands for all dimensions of size 1, as none does: those whose size is 1 in every run,
/// so that the rank does not follow from open sizes.
void convert_squeeze(NodeImport& node) {
  NodeInput axes = axes_operand(node);
  if (!axes.is_absent() && node.opset() >= kAxesAreInput && node.type(1).shape == Shape{0})
    axes = NodeInput::absent();
  std::vector<NodeInput> inputs = {node.input(0)};
  if (axes.is_absent() && node.has_freed_batch(0)) fail("without axes it takes away a batch of 1");
  if (axes.is_absent() && is_open(node)) {
    const std::vector<int64_t> known = axes_of_one(node);
    node.warn(
        "without axes it keeps open dimensions where they are 1 too, such as a batch of one sample, where "
        "ONNX Runtime drops them: give it axes (in PyTorch squeeze(dim)), or fix the sizes (--shape)");
    if (known.empty()) return node.pass_on(0);
    axes = NodeImport::list_of(known);
  }
  if (!axes.is_absent()) inputs.push_back(axes);
  node.set_output(0, node.add("squeeze", std::move(inputs)));
}

void convert_unsqueeze(NodeImport& node) {
  node.set_output(0, node.add("unsqueeze", {node.input(0), axes_operand(node)}));
}

/// Zeros at the ends of dimensions are a layer of their own; anything else is general.
void convert_pad(NodeImport& node) {
  constexpr int64_t kBordersAreInput = 11;
  const bool attributes = node.opset() < kBordersAreInput && !node.has_input(1);
  const std::string mode = node.text("mode", "constant");
  const char* const name = node.has_attribute("paddings") ? "paddings" : "pads";
  const auto borders = attributes ? std::optional(node.integers(name, {})) : node.integers(1);
  NodeInput value = NodeInput::absent();
  if (attributes && node.number("value", 0) != 0) value = NodeImport::number_of(node.number("value", 0));
  if (!attributes && node.has_input(2)) {
    const auto number = node.number(size_t{2});
    const bool is_number = number && is_floating_point(node.type(2).dtype);
    value = is_number ? NodeImport::number_of(*number) : node.input(2);
    if (number && *number == 0) value = NodeInput::absent();
  }
  const size_t rank = node.rank(0);
  const bool is_plain = borders && borders->size() == 2 * rank && mode == "constant" && value.is_absent() &&
                        !node.has_input(3) && std::ranges::all_of(*borders, [](int64_t b) { return b >= 0; });
  if (is_plain) {
    std::vector<int64_t> pad;
    for (size_t d = rank; d-- > 0;) {
      pad.push_back((*borders)[d]);
      pad.push_back((*borders)[d + rank]);
    }
    return node.set_output(0, node.add("pad", {node.input(0)}, {{"pad", Value(pad)}}));
  }
  NodeInput list = borders ? NodeImport::list_of(*borders) : node.input(1);
  if (!borders && node.rank(1) == 2)  // of com.microsoft
    list = node.add("dynamic_reshape", {list, NodeImport::list_of({-1})});
  std::vector<NodeInput> inputs = {node.input(0), list, value};
  if (node.has_input(3)) inputs.push_back(node.list(3));
  node.set_output(0, node.add("dynamic_pad", std::move(inputs), {{"mode", mode}}));
}

void convert_expand(NodeImport& node) {
  node.set_output(0, node.add("dynamic_expand", {node.input(0), node.list(1)}));
}

/// Before opset 6 one dimension is repeated: inputs 1 and 2 say how often, and which.
void convert_tile(NodeImport& node) {
  constexpr int64_t kRepeatsAll = 6;
  if (node.opset() >= kRepeatsAll || !node.has_input(2))
    return node.set_output(0, node.add("tile", {node.input(0), node.list(1)}));
  const auto count = node.integer(1);
  const auto axis = node.integer(2);
  if (!count || !axis) node.refuse("a number of tiles or an axis that only a run knows");
  std::vector<int64_t> repeats(node.rank(0), 1);
  if (*axis < 0 || *axis >= std::ssize(repeats)) fail("axis {} of {} dimensions", *axis, repeats.size());
  repeats[static_cast<size_t>(*axis)] = *count;
  node.set_output(0, node.add("tile", {node.input(0), NodeImport::list_of(repeats)}));
}

void convert_shape(NodeImport& node) {
  Table attributes = {{"start", node.integer("start", 0)}};
  if (node.has_attribute("end")) attributes["end"] = node.integer("end", 0);
  node.set_output(0, node.add("shape_of", {node.input(0)}, std::move(attributes)));
}

void convert_size(NodeImport& node) { node.set_output(0, node.add("numel", {node.input(0)})); }

/// The one element of a tensor as a number of its own kind.
Value only_element(const Tensor& tensor) {
  if (tensor.numel() != 1) fail("the value has {} elements, expected one", tensor.numel());
  if (is_floating_point(tensor.dtype())) return to_dtype(tensor, DType::kFloat64).values<double>()[0];
  return to_dtype(tensor, DType::kInt64).values<int64_t>()[0];
}

void convert_constant_of_shape(NodeImport& node) {
  const bool given = node.has_attribute("value");
  const Tensor value = given ? node.tensor("value") : Tensor(DType::kFloat32, {1});
  node.set_output(
      0, node.add("full", {node.list(0)},
                  {{"value", only_element(value)}, {"dtype", std::string(dtype_name(value.dtype()))}}));
  node.set_float_type(0, node.tensor_type("value").value_or(value.dtype()));
  node.set_narrow_type(0, node.attribute_narrow_type("value"));
}

/// Numbers are int64 or float32: others say their type as tensors.
/// That of com.microsoft takes lists of one too, and may lack the step.
void convert_range(NodeImport& node) {
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < 3; ++i) {
    if (!node.has_input(i)) {
      inputs.push_back(
          node.constant_of(to_dtype(Tensor::from({}, std::vector<float>{1}), node.type(0).dtype)));
      continue;
    }
    const DType dtype = node.type(i).dtype;
    const bool is_plain = dtype == DType::kInt64 || dtype == DType::kFloat32;
    const NodeInput number = is_plain ? node.number_or_input(i) : node.input(i);
    const bool is_list = !number.is_constant() && node.rank(i) == 1;
    inputs.push_back(is_list ? node.add("select", {number}, {{"dim", 0}, {"index", 0}}) : number);
  }
  node.set_output(0, node.add("range", std::move(inputs)));
}

void convert_identity(NodeImport& node) { node.pass_on(0); }

/// Where only a run knows whether anything is dropped.
void convert_dropout_by_inputs(NodeImport& node, std::optional<double> ratio) {
  const NodeInput share = ratio ? NodeImport::number_of(*ratio) : node.input(1);
  const NodeInput result = node.add("inference_dropout", {node.input(0), share, node.input(2)});
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(result.node, i));
  }
}

/// In inference the input itself, and a mask that keeps all.
void convert_dropout(NodeImport& node) {
  constexpr double kDefault = 0.5;
  const auto ratio = node.has_input(1) ? node.number(size_t{1}) : std::optional(kDefault);
  const auto training = node.has_input(2) ? node.number(size_t{2}) : std::optional(0.0);
  const bool drops = training != 0.0 && ratio != 0.0;
  if (drops && ratio && training) return convert_training_dropout(node);
  if (drops) return convert_dropout_by_inputs(node, ratio);
  node.pass_on(0);
  if (!node.wants(1)) return;
  const NodeInput shape = node.add("shape_of", {node.input(0)});
  node.set_output(1, node.add("full", {shape}, {{"value", 1.0}, {"dtype", "bool"}}));
}

void convert_constant(NodeImport& node) {
  for (const char* name : {"value", "value_float", "value_int", "value_ints", "value_floats", "value_string",
                           "value_strings", "sparse_value"}) {
    if (!node.has_attribute(name)) continue;
    node.set_output(0, node.tensor(name));
    if (const auto type = node.tensor_type(name)) node.set_float_type(0, *type);
    node.set_narrow_type(0, node.attribute_narrow_type(name));
    return;
  }
  node.refuse("a constant of this kind");
}

/// Blocks of a dimension of channels become blocks of the image, by a view, a permutation and a view.
NodeInput regrouped(NodeImport& node, const Shape& split, const std::vector<int64_t>& order,
                    const Shape& joined) {
  const auto view = [&](NodeInput x, const Shape& shape) {
    std::vector<NodeInput> inputs = {std::move(x)};
    for (const int64_t size : shape) inputs.push_back(NodeInput::of_constant(Value(size)));
    return node.add("view", std::move(inputs));
  };
  const NodeInput parts = view(node.input(0), split);
  return view(node.add("permute", {parts}, {{"dims", Value(order)}}), joined);
}

/// [C, H, W], of which C must be known; kOpenSize for what is open.
Shape image_shape(const NodeImport& node) {
  if (node.rank(0) != 4) fail("an input of {} dimensions, expected 4", node.rank(0));
  Shape shape;
  for (const int64_t d : {1, 2, 3}) {
    const auto size = node.size(0, d);
    if (!size && d == 1) node.refuse("an open number of channels");
    shape.push_back(size.value_or(kOpenSize));
  }
  return shape;
}

/// As `regrouped` with lists of sizes that the network computes.
NodeInput regrouped_by(NodeImport& node, std::vector<NodeInput> split, const std::vector<int64_t>& order,
                       std::vector<NodeInput> joined) {
  const auto reshaped = [&](const NodeInput& x, std::vector<NodeInput> sizes) {
    return node.add("dynamic_reshape", {x, node.add("cat", std::move(sizes), {{"dim", 0}})});
  };
  const NodeInput parts = reshaped(node.input(0), std::move(split));
  return reshaped(node.add("permute", {parts}, {{"dims", Value(order)}}), std::move(joined));
}

void convert_open_depth_to_space(NodeImport& node, int64_t channels, int64_t block) {
  const NodeInput rows = computed_size(node, 2);
  const NodeInput columns = computed_size(node, 3);
  const NodeInput blocks = sizes_of(node, {block});
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  const std::vector<int64_t> inner = columns_first ? std::vector<int64_t>{0, channels, block, block}
                                                   : std::vector<int64_t>{0, block, block, channels};
  const std::vector<int64_t> order =
      columns_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  node.set_output(0, regrouped_by(node, {sizes_of(node, inner), rows, columns}, order,
                                  {sizes_of(node, {0, channels}), node.add("mul", {rows, blocks}),
                                   node.add("mul", {columns, blocks})}));
}

void convert_open_space_to_depth(NodeImport& node, int64_t channels, int64_t block) {
  const NodeInput blocks = sizes_of(node, {block});
  const NodeInput rows = node.add("div", {computed_size(node, 2), blocks});
  const NodeInput columns = node.add("div", {computed_size(node, 3), blocks});
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  const std::vector<int64_t> order =
      columns_first ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  node.set_output(0, regrouped_by(node, {sizes_of(node, {0, channels}), rows, blocks, columns, blocks}, order,
                                  {sizes_of(node, {0, channels * block * block}), rows, columns}));
}

void convert_depth_to_space(NodeImport& node) {
  const Shape image = image_shape(node);
  const int64_t block = node.integer("blocksize", 1);
  if (block < 1 || block > image[0] || image[0] % (block * block) != 0)
    fail("blocksize {} and {} channels", block, image[0]);
  const int64_t channels = image[0] / (block * block);
  if (image[1] == kOpenSize || image[2] == kOpenSize)
    return convert_open_depth_to_space(node, channels, block);
  const Shape joined = {-1, channels, image[1] * block, image[2] * block};
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  node.set_output(
      0, columns_first
             ? regrouped(node, {-1, channels, block, block, image[1], image[2]}, {0, 1, 4, 2, 5, 3}, joined)
             : regrouped(node, {-1, block, block, channels, image[1], image[2]}, {0, 3, 4, 1, 5, 2}, joined));
}

void convert_space_to_depth(NodeImport& node) {
  const Shape image = image_shape(node);
  const int64_t block = node.integer("blocksize", 1);
  constexpr int64_t kLargestBlockSize = 1 << 15;
  if (block < 1 || block > kLargestBlockSize) fail("blocksize {}", block);
  if (image[1] == kOpenSize || image[2] == kOpenSize)
    return convert_open_space_to_depth(node, image[0], block);
  if (image[1] % block != 0 || image[2] % block != 0)
    fail("blocksize {} and an image of {} x {}", block, image[1], image[2]);
  const int64_t rows = image[1] / block;
  const int64_t columns = image[2] / block;
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  const std::vector<int64_t> order =
      columns_first ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  node.set_output(0, regrouped(node, {-1, image[0], rows, block, columns, block}, order,
                               {-1, image[0] * block * block, rows, columns}));
}

}  // namespace

OnnxConverterList shape_converters() {
  return {{"Reshape", convert_reshape},
          {"Flatten", convert_flatten},
          {"Transpose", convert_transpose},
          {"Concat", convert_concat},
          {"Split", convert_split},
          {"Slice", convert_slice},
          {"DynamicSlice", convert_slice},
          {"Squeeze", convert_squeeze},
          {"Unsqueeze", convert_unsqueeze},
          {"Pad", convert_pad},
          {"Expand", convert_expand},
          {"Tile", convert_tile},
          {"Shape", convert_shape},
          {"Size", convert_size},
          {"ConstantOfShape", convert_constant_of_shape},
          {"Range", convert_range},
          {"Identity", convert_identity},
          {"Dropout", convert_dropout},
          {"Constant", convert_constant},
          {"DepthToSpace", convert_depth_to_space},
          {"SpaceToDepth", convert_space_to_depth}};
}

}  // namespace detent
