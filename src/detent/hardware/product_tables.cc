#include "detent/hardware/layer_circuits.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/inference/code_type.h"

namespace detent {
namespace {

constexpr size_t kMostValues = 16;

/// The list that the input is rounded to; none where integers take it as codes of an affine format.
std::vector<float> listed_values(const Node& node) {
  if (!is_weighted_sum(node) || operand_code_type(node, "data_in_0")) return {};
  const std::optional<QuantSpec> rounding = node.rounding("data_in_0");
  return rounding ? fixed_values(*rounding) : std::vector<float>{};
}

/// The step of the weights; nullopt where they have none, or several.
std::optional<float> weight_step(const Node& node) {
  const std::optional<QuantSpec> rounding = node.rounding("weight");
  if (!rounding) return std::nullopt;
  const std::vector<CodeType> types = code_types(*rounding);
  const auto differs = [&](const CodeType& type) { return type.scale != types.front().scale; };
  if (types.empty() || std::ranges::any_of(types, differs)) return std::nullopt;
  return types.front().scale;
}

bool pads(const Node& node, size_t dims) {
  return dims > 0 && std::ranges::any_of(integers_attribute(node, "padding", dims),
                                         [](int64_t zeros) { return zeros > 0; });
}

/// Elements of a window, [channels of all groups, kernel...], that each product of each output reads.
Tensor product_inputs(const Tensor& weight, int64_t groups) {
  const int64_t outputs = weight.dim(0);
  const int64_t taps = weight.numel() / outputs;
  Tensor inputs(DType::kInt64, {outputs, taps, 1});
  const auto places = inputs.values<int64_t>();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t t = 0; t < taps; ++t)
      places[static_cast<size_t>(o * taps + t)] = o / (outputs / groups) * taps + t;
  }
  return inputs;
}

/// Products of values and weights, in steps.
Tensor product_tables(const Tensor& weight, float step, std::span<const float> values, float value_step) {
  const int64_t outputs = weight.dim(0);
  Tensor tables(DType::kInt32, {outputs, weight.numel() / outputs, std::ssize(values)});
  const auto entries = tables.values<int32_t>();
  size_t entry = 0;
  for (const float factor : weight.values<float>()) {
    const int64_t weight_steps = *steps_of(factor, step);
    for (const float value : values)
      entries[entry++] = static_cast<int32_t>(weight_steps * *steps_of(value, value_step));
  }
  return tables;
}

/// Adds the bias to each entry of an output's first table. Returns whether it is no multiple of the unit.
bool add_bias(const Parameter& bias, float unit, Tensor& tables) {
  const size_t values = static_cast<size_t>(tables.dim(2));
  const auto row = static_cast<size_t>(tables.dim(1)) * values;
  const auto entries = tables.values<int32_t>();
  bool is_rounded = false;
  size_t output = 0;
  for (const float value : bias.tensor.values<float>()) {
    const float steps = std::nearbyint(value / unit);
    is_rounded = is_rounded || steps * unit != value;
    for (size_t i = 0; i < values; ++i) entries[output * row + i] += static_cast<int32_t>(steps);
    ++output;
  }
  return is_rounded;
}

List list_of(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

std::string why_no_product_tables(const Node& node) {
  const std::vector<float> values = listed_values(node);
  if (values.empty()) return "";
  const auto& sum = *trait<WeightedSum>(node);
  if (sum.transposed || sum.spatial_dims > 2)
    return "inputs of listed values are read by linear layers and convolutions of one and two dimensions";
  if (values.size() > kMostValues)
    return fmt::format("its input has {} values, expected an affine format or at most {} values",
                       values.size(), kMostValues);
  if (!step_of(values))
    return fmt::format(
        "the {} values of its input are no multiples of the least of them: the passes lutnet (inputs = 1, "
        "prune "
        "= 0) and finish_lutnet make tables of sums that are rounded",
        values.size());
  if (!weight_step(node))
    return fmt::format(
        "its input has {} values, which are no codes of an affine format, so that its weights have to be "
        "multiples of one step",
        values.size());
  if (node.find_quantizer("data_out_0") != nullptr)
    return "its input has no affine format, so that its result cannot be rounded (data_out_0) before it is "
           "read";
  return "";
}

bool has_product_tables(const Node& node) {
  return !listed_values(node).empty() && why_no_product_tables(node).empty();
}

bool make_product_tables(Node& node) {
  const size_t dims = trait<WeightedSum>(node)->spatial_dims;
  const Tensor weight = fake_quantize(*node.rounding("weight"), node.find_parameter("weight")->tensor);
  std::vector<float> values = listed_values(node);
  std::ranges::sort(values);
  const float value_step = *step_of(values);
  if (pads(node, dims) && std::ranges::find(values, 0.0F) == values.end())
    values.insert(std::ranges::lower_bound(values, 0.0F), 0.0F);
  const float step = *weight_step(node);
  Tensor tables = product_tables(weight, step, values, value_step);
  const Parameter* bias = node.find_parameter("bias");
  const bool is_rounded = bias != nullptr && add_bias(*bias, step * value_step, tables);
  Table attributes{{"scale", static_cast<double>(step * value_step)}};
  if (dims > 0) {
    for (const char* name : {"stride", "padding", "dilation"})
      attributes[name] = list_of(integers_attribute(node, name, dims));
    attributes["kernel_size"] = list_of({weight.shape().begin() + 2, weight.shape().end()});
  }
  const int64_t groups = dims > 0 ? integer_attribute(node, "groups") : 1;
  const auto count = std::ssize(values);
  node.op = truth_tables_operator(dims);
  node.mase_type = MaseType::kModuleRelatedFunc;
  node.attributes = std::move(attributes);
  node.parameters = {{"inputs", Parameter{product_inputs(weight, groups), false}},
                     {"tables", Parameter{std::move(tables), false}},
                     {"input_values", Parameter{Tensor::from<float>({count}, values), false}}};
  node.quantization.erase("weight");
  return is_rounded;
}

}  // namespace detent
