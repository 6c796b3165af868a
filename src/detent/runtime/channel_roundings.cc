#include "detent/runtime/channel_roundings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "detent/core/convert.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// How nodes round as a format does.
struct ChannelRounding {
  DType codes;
  Tensor scale;
  Tensor zero_point;
  int64_t axis;
};

std::optional<DType> type_of_codes(const Affine& affine) {
  if (affine.narrow_range) return std::nullopt;
  if (affine.width == 8) return affine.is_signed ? DType::kInt8 : DType::kUInt8;
  return affine.width == 16 && affine.is_signed ? std::optional(DType::kInt16) : std::nullopt;
}

std::optional<ChannelRounding> channel_rounding(const Node& node, const std::string& operand) {
  const std::optional<QuantSpec> spec = node.rounding(operand);
  if (!spec || spec->granularity != Granularity::kChannel) return std::nullopt;
  const auto* affine = std::get_if<Affine>(&spec->format);
  const auto codes = affine == nullptr || affine->scale.size() < 2 ? std::nullopt : type_of_codes(*affine);
  if (!codes) return std::nullopt;
  const auto channels = std::ssize(affine->scale);
  Tensor zero(DType::kInt32, {channels});
  for (size_t i = 0; i < affine->zero_point.size(); ++i)
    zero.values<int32_t>()[i] = affine->zero_point[i];
  return ChannelRounding{*codes, Tensor::from({channels}, affine->scale), to_dtype(zero, *codes), spec->axis};
}

class Rewriting {
 public:
  explicit Rewriting(const Graph& graph) : graph_(graph), result_(graph.name()) {
    result_.set_requantization(graph.requantization());
  }

  Graph rewritten() {
    for (const Node& node : graph_.nodes()) add(node);
    return std::move(result_);
  }

 private:
  void add(Node node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      NodeInput& input = node.inputs[i];
      if (input.is_constant()) continue;
      if (const auto rounded = rounded_.find(value_name(input)); rounded != rounded_.end())
        input = rounded->second;
      const std::string operand = fmt::format("data_in_{}", i);
      const auto rounding = channel_rounding(node, operand);
      if (!rounding) continue;
      input = add_rounding(node.name + "_" + operand, input, *rounding);
      node.quantization.erase(operand);
    }
    std::map<std::string, ChannelRounding> of_results;
    const bool is_output = role_of(node) == OperatorRole::kOutput;
    for (size_t i = 0; !is_output && i < result_count(node); ++i) {
      const std::string operand = fmt::format("data_out_{}", i);
      if (const auto rounding = channel_rounding(node, operand)) {
        of_results.emplace(value_name(node.name, i), *rounding);
        node.quantization.erase(operand);
      }
    }
    const std::string name = node.name;
    const size_t results = is_output ? 0 : result_count(node);
    if (role_of(node) == OperatorRole::kInput) {
      result_.add_input(name, graph_.input_types().find(name)->second);
      result_.node(name) = std::move(node);
    } else {
      result_.add(std::move(node));
    }
    for (size_t i = 0; i < results; ++i) {
      const auto rounding = of_results.find(value_name(name, i));
      if (rounding == of_results.end()) continue;
      rounded_[rounding->first] =
          add_rounding(fmt::format("{}_data_out_{}", name, i), NodeInput::of(name, i), rounding->second);
    }
  }

  NodeInput add_rounding(const std::string& name, const NodeInput& value, const ChannelRounding& rounding) {
    const NodeInput scale = add_constant(name + "_scale", rounding.scale);
    const NodeInput zero = add_constant(name + "_zero_point", rounding.zero_point);
    Node codes{.name = free_name(name + "_codes"), .op = "quantize_linear", .inputs = {value, scale, zero}};
    codes.attributes = {{"axis", rounding.axis}, {"dtype", std::string(dtype_name(rounding.codes))}};
    const NodeInput quantized = NodeInput::of(result_.add(std::move(codes)).name);
    Node back{.name = free_name(name + "_rounded"),
              .op = "dequantize_linear",
              .inputs = {quantized, scale, zero},
              .attributes = {{"axis", rounding.axis}}};
    return NodeInput::of(result_.add(std::move(back)).name);
  }

  NodeInput add_constant(const std::string& name, const Tensor& tensor) {
    Node node{.name = free_name(name), .op = "get_attr", .mase_type = MaseType::kGetAttr};
    node.target = node.name;
    node.parameters = {{"value", ParameterRef(Parameter{tensor, false})}};
    return NodeInput::of(result_.add(std::move(node)).name);
  }

  std::string free_name(std::string name) const {
    while (graph_.find(name) != nullptr || result_.find(name) != nullptr) name += "_";
    return name;
  }

  const Graph& graph_;
  Graph result_;
  std::map<std::string, NodeInput> rounded_;  // by value
};

bool rounds_channels(const Node& node) {
  return std::ranges::any_of(node.quantization, [&](const auto& entry) {
    return entry.first.starts_with("data_") && channel_rounding(node, entry.first).has_value();
  });
}

}  // namespace

Graph with_channel_roundings_as_nodes(Graph graph) {
  const Graph& given = graph;
  if (std::ranges::none_of(given.nodes(), rounds_channels)) return graph;
  return Rewriting(given).rewritten();
}

}  // namespace detent
