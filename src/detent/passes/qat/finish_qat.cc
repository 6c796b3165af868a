#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/verbs.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/loop.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"
#include "detent/graph/traits.h"
#include "detent/inference/code_type.h"
#include "detent/inference/node_form.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/passes/transform/graph_edits.h"

// A network after quantization-aware training, made ready for integer execution: each batch norm moves into
// the quantized layer before it, which keeps its integers. With s the scale of a channel, m its factor in the
// norm and q the codes,
//
//     (q s) m = (sign(m) q) (|m| s)
//
// so the weights become their rounded values, scales become |m| s, and channels with m < 0 change their
// signs.

namespace detent {
namespace {

struct FinishQatOptions {
  Requantization requantization = Requantization::kFloat;
  AccumulatorChoice accumulator;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("requantization", self.requantization, "by a float32 multiplier, or by an integer and a shift");
    visit("accumulator", self.accumulator, kAccumulatorHelp);
  }
  void check(const std::string& where) const { check_accumulators(accumulator, where); }
};

/// Weights whose range is found at each step have one from here on, and those that are not rounded to the
/// nearest code are at one.
void give_scales(Node& layer) {
  if (const Quantizer* quantizer = layer.find_quantizer("weight")) {
    SettledOperand settled = settle(*quantizer, layer.find_parameter("weight")->tensor);
    layer.find_parameter("weight")->tensor = std::move(settled.values);
    if (!(settled.quantizer == *quantizer)) layer.quantization["weight"] = std::move(settled.quantizer);
  }
  const std::optional<QuantSpec> rounding = layer.rounding("weight");
  if (rounding && integer_codes(rounding->format) && !repeats_exactly(rounding->format))
    layer.quantization["weight"] = with_given_parameters(*rounding, layer.find_parameter("weight")->tensor);
}

/// Codes of a layer's weights and the scale of each channel.
struct IntegerWeights {
  std::vector<int> codes;
  std::vector<float> scales;  // one an output channel
  CodeType type;
};

int weight_axis(const Node& layer) {
  return static_cast<int>(find_operator(layer.op).weight_channel_dim.value_or(0));
}

std::optional<IntegerWeights> integer_weights(const Node& layer) {
  const std::optional<QuantSpec> rounding = layer.rounding("weight");
  if (!rounding || rounding->granularity == Granularity::kGroup) return std::nullopt;
  const std::vector<CodeType> types = code_types(*rounding);
  const WeightChannels channels(layer);
  const bool has_zero_points =
      std::ranges::any_of(types, [](const CodeType& type) { return type.zero_point != 0; });
  if (types.empty() || has_zero_points) return std::nullopt;
  const int64_t rows = layer.find_parameter("weight")->tensor.dim(weight_axis(layer));
  if (rows != channels.outputs() || (types.size() > 1 && std::ssize(types) != rows)) return std::nullopt;
  IntegerWeights result{{}, {}, types.front()};
  for (int64_t c = 0; c < channels.outputs(); ++c)
    result.scales.push_back(types[types.size() == 1 ? 0 : static_cast<size_t>(c)].scale);
  const Tensor values = fake_quantize(*rounding, layer.find_parameter("weight")->tensor);
  int64_t index = 0;
  for (const float value : values.values<float>()) {
    const float scale = result.scales[static_cast<size_t>(channels.output(index++))];
    result.codes.push_back(static_cast<int>(std::lround(value / scale)));
  }
  return result;
}

/// Why the codes cannot stay; "" when they can. Changes them, and the scales, to what they are then.
std::string multiply_channels(IntegerWeights& weights, const Node& layer,
                              const std::vector<double>& factors) {
  const WeightChannels channels(layer);
  for (size_t i = 0; i < weights.codes.size(); ++i) {
    int& code = weights.codes[i];
    if (factors[static_cast<size_t>(channels.output(static_cast<int64_t>(i)))] < 0) code = -code;
    if (code < weights.type.low || code > weights.type.high)
      return fmt::format("{} has the code {}, of which there is no negative", layer.name, -code);
  }
  for (size_t c = 0; c < factors.size(); ++c) {
    const auto scale = static_cast<float>(std::fabs(factors[c]) * static_cast<double>(weights.scales[c]));
    if (!(scale > 0) || !std::isfinite(scale))
      return fmt::format("channel {} of {} is multiplied by {}", c, layer.name, factors[c]);
    weights.scales[c] = scale;
  }
  return "";
}

void set_weights(Node& layer, const IntegerWeights& weights) {
  const WeightChannels channels(layer);
  Tensor tensor = layer.find_parameter("weight")->tensor.clone();
  int64_t index = 0;
  for (float& value : tensor.values<float>()) {
    const auto code = static_cast<float>(weights.codes[static_cast<size_t>(index)]);
    value = code * weights.scales[static_cast<size_t>(channels.output(index++))];
  }
  layer.find_parameter("weight")->tensor = std::move(tensor);
  QuantSpec spec = *layer.rounding("weight");
  spec.granularity = Granularity::kChannel;
  spec.axis = weight_axis(layer);
  spec.format = with_scales(spec.format, {weights.scales});
  layer.quantization["weight"] = Quantizer(std::move(spec));
}

/// "" where the layer took up the norm.
std::string fold_into_codes(Node& layer, const Node& norm) {
  std::optional<IntegerWeights> weights = integer_weights(layer);
  if (!weights) return fmt::format("the weights of {} are no integers with a scale per channel", layer.name);
  if (layer.quantization.contains("data_out_0"))
    return fmt::format("the result of {} is quantized", layer.name);
  if (layer.quantization.contains("bias")) return fmt::format("the bias of {} is quantized", layer.name);
  const ChannelMap map = channel_map(norm);
  const std::string obstacle = multiply_channels(*weights, layer, map.scale);
  if (!obstacle.empty()) return obstacle;
  set_bias(layer, moved_bias(layer, map));
  set_weights(layer, *weights);
  for (const auto& [operand, quantizer] : norm.quantization) layer.quantization[operand] = quantizer;
  return "";
}

/// Removes the norms that their layers have taken up while they were trained; how many there were.
size_t take_up_trained_norms(Graph& graph) {
  std::map<std::string, std::string> replaced;
  for (const Node& layer : graph.nodes()) {
    if (const Node* norm = folded_norm(graph, layer)) replaced[norm->name] = layer.name;
  }
  fold_trained_norms(graph);
  for (const auto& [norm, layer] : replaced) {
    for (const auto& [operand, quantizer] : graph.node(norm).quantization)
      graph.node(layer).quantization[operand] = quantizer;
  }
  redirect_readers(graph, replaced);
  graph.erase_if([&](const Node& node) { return replaced.contains(node.name); });
  return replaced.size();
}

struct Finished {
  size_t folded = 0;
  size_t in_integers = 0;
};

Finished finish(Graph& graph, const FinishQatOptions& options, const PassContext& context);

/// Bodies of loops that have quantizers.
void finish_bodies(Graph& graph, const FinishQatOptions& options, const PassContext& context,
                   Finished& finished) {
  for (Node& node : graph.nodes()) {
    if (node.body == nullptr || !holds_quantizers(*node.body)) continue;
    Graph body = node.body->deep_copy();
    const auto [folded, in_integers] = finish(body, options, context);
    finished.folded += folded;
    finished.in_integers += in_integers;
    node.body = std::make_shared<const Graph>(std::move(body));
  }
}

Finished finish(Graph& graph, const FinishQatOptions& options, const PassContext& context) {
  const size_t folded_before = take_up_trained_norms(graph);
  const ValueTypes values = infer_shapes(graph);
  const std::map<std::string, size_t> readers = reader_counts(graph);
  std::map<std::string, std::string> replaced;
  for (Node& node : graph.nodes()) {
    if (is_weighted_sum(node) && node.find_parameter("weight") != nullptr) give_scales(node);
  }
  for (const Node& norm : graph.nodes()) {
    if (!is_batch_norm(norm)) continue;
    const std::string& source = norm.inputs[0].node;
    Node& layer = graph.node(source);
    std::string reason = folding_obstacle(layer, norm, values.at(source).shape.size(), readers.at(source));
    if (reason.empty()) reason = fold_into_codes(layer, norm);
    if (reason.empty()) {
      replaced[norm.name] = source;
    } else {
      context.report(fmt::format("finish_qat: {} stays: {}\n", norm.name, reason));
    }
  }
  redirect_readers(graph, replaced);
  graph.erase_if([&](const Node& node) { return replaced.contains(node.name); });
  graph.set_requantization(options.requantization);
  for (Node& node : graph.nodes())
    if (is_weighted_sum(node)) fit_weight_scales(node);
  Finished finished{.folded = replaced.size() + folded_before};
  for (const Node& node : graph.nodes())
    if (is_weighted_sum(node) && node_form(node, options.requantization)) ++finished.in_integers;
  finish_bodies(graph, options, context, finished);
  return finished;
}

void run_finish_qat(Graph& graph, const FinishQatOptions& options, PassContext& context) {
  const auto [folded, in_integers] = finish(graph, options, context);
  context.report(set_accumulators(graph, options.accumulator, context.where));
  verify(graph);
  context.report(
      fmt::format("finish_qat: {} batch norms folded, {} layers compute on integers\n", folded, in_integers));
}

}  // namespace

PassInfo finish_qat_pass() {
  PassInfo pass =
      make_pass("finish_qat", PassKind::kTransform,
                "folds batch norms into trained quantized layers, whose integers stay, for integer execution",
                run_finish_qat, PassStage::kAfterRounding);
  pass.reaches_bodies = true;
  return pass;
}

}  // namespace detent
