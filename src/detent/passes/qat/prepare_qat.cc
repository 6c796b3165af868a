#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/verbs.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/passes/qat/qat_presets.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

struct PrepareQatOptions {
  std::string quantizers = "int8_lsq";
  FirstLastLayers first_last_layers = FirstLastLayers::kEightBits;
  std::vector<std::string> keep_float;
  int64_t num_samples = 1024;
  int64_t collect_steps = 0;
  Threshold statistic = Threshold::kLearnedStep;
  double statistic_argument = 99.999;
  double statistic_momentum = 0;
  bool learn_scales = true;
  std::optional<Threshold> weight_statistic;
  std::optional<Rounding> weight_rounding;
  NormFolding fold_batch_norm = NormFolding::kNo;

  static constexpr std::array kFormerNames = {FormerName{"edge_layers", "first_last_layers"}};
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("quantizers", self.quantizers, "one of `detent list quantizers`, for all layers with weights");
    visit("first_last_layers", self.first_last_layers, "first and last layer with weights");
    visit("keep_float", self.keep_float, "regular expressions for layers that stay in float");
    visit("num_samples", self.num_samples, "training samples that initialize activation scales",
          Between{1, 1e12});
    visit("collect_steps", self.collect_steps,
          "training steps that collect activation scales; 0: num_samples initializes them", Between{0, 1e7});
    visit("statistic", self.statistic, "statistic of a step: the value of the largest code");
    visit("statistic_argument", self.statistic_argument, "percentile, or standard deviations of mean_sigma",
          Between{0, 100});
    visit("statistic_momentum", self.statistic_momentum,
          "share of a step in the running average; 0: all steps alike", Between{0, 1});
    visit("learn_scales", self.learn_scales, "train activation scales after collection");
    visit("weight_statistic", self.weight_statistic,
          "initial value of the largest code of weights with learned scales; NA: learned_step, or "
          "squared_error for learned rounding");
    visit("weight_rounding", self.weight_rounding,
          "rounding of integer weights with a learned scale; NA: the quantizers'");
    visit("fold_batch_norm", self.fold_batch_norm,
          "fold the following batch norm into weights before rounding, by the statistics of the batch or by "
          "the running ones (corrected)");
  }
  void check(const std::string& where) const {
    find_qat_preset(quantizers, where + ": key \"quantizers\"");
    for (const std::string& text : keep_float) NamePattern(text, where + ": key \"keep_float\"");
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;
};

std::vector<std::string> layers_with_weights(const Graph& graph) {
  std::vector<std::string> layers;
  for (const Node& node : graph.nodes()) {
    if (is_weighted_sum(node)) layers.push_back(node.name);
  }
  return layers;
}

void PrepareQatOptions::check_graph(const Graph& graph, const EarlierPasses& earlier,
                                    const std::string& where) const {
  if (earlier.change_network) return;
  for (const std::string& text : keep_float) {
    const NamePattern pattern(text, where);
    const auto matches = [&](const Node& node) { return pattern.matches(node.name); };
    if (std::ranges::none_of(graph.nodes(), matches))
      fail("{}: key \"keep_float\": {}", where, unmatched_pattern_message(text, graph.node_names()));
  }
}

bool has_few_bits(const QatPreset& preset) {
  constexpr double kEdgeBits = 8;
  for (const std::string& text : {preset.weights, preset.activations_not_below_0}) {
    if (!text.empty() && bits_per_value(parse_quant_spec_text(text).format) < kEdgeBits) return true;
  }
  return false;
}

/// Which layers are quantized, and with what.
std::vector<std::pair<std::string, const QatPreset*>> chosen_layers(const Graph& graph,
                                                                    const PrepareQatOptions& options,
                                                                    const std::string& where) {
  const std::vector<std::string> layers = layers_with_weights(graph);
  const QatPreset& preset = find_qat_preset(options.quantizers, where);
  std::vector<std::pair<std::string, const QatPreset*>> chosen;
  for (const std::string& layer : layers) {
    const auto stays = [&](const std::string& text) { return NamePattern(text, where).matches(layer); };
    if (std::ranges::any_of(options.keep_float, stays)) continue;
    const bool is_first_or_last = layer == layers.front() || layer == layers.back();
    if (is_first_or_last && options.first_last_layers == FirstLastLayers::kFloat) continue;
    const bool eight_bits =
        is_first_or_last && options.first_last_layers == FirstLastLayers::kEightBits && has_few_bits(preset);
    // Scales of 8 bits are small beside the steps of an optimizer: by their logarithms they stay above 0.
    chosen.emplace_back(layer, eight_bits ? &find_qat_preset("int8_log", where) : &preset);
  }
  if (chosen.empty()) fail("{}: no layer with weights is left to quantize", where);
  return chosen;
}

/// Profiles the layers' inputs: magnitudes, from which scales begin, and whether anything is below 0.
void profile_inputs(Graph& graph, const std::vector<std::pair<std::string, const QatPreset*>>& layers,
                    int64_t samples, PassContext& context) {
  List names;
  for (const auto& [layer, preset] : layers) names.emplace_back(layer);
  find_pass("profile_statistics")
      .run(graph,
           {{"by", "name"},
            {"target_activation_nodes", std::move(names)},
            {"num_samples", samples},
            {"exact_num_samples", true},
            {"activation_statistics", Table{{"abs_mean", Table()}, {"range_min_max", Table()}}}},
           context);
}

/// The range of what the layer reads.
Interval input_range(const Node& layer, const std::string& where) {
  const Table* statistics = layer.statistics.find("data_in_0");
  const Value* range = statistics == nullptr ? nullptr : statistics->find("range_min_max");
  const Table* result = range == nullptr ? nullptr : range->get_if<Table>();
  const auto end = [&](const char* name) {
    const Value* value = result == nullptr ? nullptr : result->find(name);
    double scratch = 0;
    const double* number = value == nullptr ? nullptr : value->number(scratch);
    if (number == nullptr)
      fail("{}: node \"{}\": the range of its input was not profiled", where, layer.name);
    return static_cast<float>(*number);
  };
  return {end("min"), end("max")};
}

double least_input(const Node& layer, const std::string& where) {
  return static_cast<double>(input_range(layer, where).low);
}

QuantSpec weight_spec(const Node& layer, const QatPreset& preset) {
  QuantSpec spec = parse_quant_spec_text(preset.weights);
  if (spec.granularity != Granularity::kTensor)
    spec.axis = find_operator(layer.op).weight_channel_dim.value_or(0);
  return spec;
}

/// The least input of the profile, as a code.
float begin_zero_point(const Node& layer, const Quantizer& quantizer, const std::string& where) {
  const float scale = quantizer.find_parameter("scale")->tensor.values<float>()[0];
  return static_cast<float>(std::nearbyint(std::max(-least_input(layer, where), 0.0) / double{scale}));
}

/// Samples that the network is given, in 8 bits or more: their range is known, and only for the sake of this
/// scale would training need the gradient of samples.
bool has_known_range(const Graph& graph, const Node& layer, const Quantizer& quantizer) {
  constexpr int kEnough = 8;
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  const NodeInput& input = layer.inputs[0];
  return integers && integers->width >= kEnough && !input.is_constant() &&
         role_of(graph.node(input.node)) == OperatorRole::kInput;
}

void complete_inputs(const Graph& graph, Node& layer, const QatPreset& preset,
                     const PrepareQatOptions& options, const std::string& where) {
  Quantizer& quantizer = *layer.quantization.at("data_in_0");
  if (preset.learns_field && !integer_codes(quantizer.spec.format))
    return own_exponent_bias(quantizer, input_range(layer, where), where);
  Parameter* scale = quantizer.find_parameter("scale");
  if (scale == nullptr) return;
  if (preset.range_is_one) {
    scale->tensor.values<float>()[0] = static_cast<float>(1 / largest_code_of(quantizer.spec));
    scale->trainable = false;
    return;
  }
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  const bool has_zero_point = preset.learns_zero_points && integers && !integers->is_signed;
  if (has_zero_point) {
    const auto most = static_cast<float>(integers->high());
    add_number(quantizer, "zero_point", std::min(begin_zero_point(layer, quantizer, where), most));
  }
  const bool is_fixed = !has_zero_point && has_known_range(graph, layer, quantizer);
  if (is_fixed) {
    const Interval range = input_range(layer, where);
    const double most = std::max(std::fabs(double{range.low}), std::fabs(double{range.high}));
    if (most > 0)
      scale->tensor.values<float>()[0] = static_cast<float>(most / largest_code_of(quantizer.spec));
  }
  represent_scale(quantizer, preset.activation_scale);
  for (auto& [name, parameter] : quantizer.parameters)
    parameter->trainable = options.learn_scales && !is_fixed;
  if (options.collect_steps == 0) return;
  for (auto& [name, parameter] : quantizer.parameters)
    std::ranges::fill(parameter->tensor.values<float>(), std::numeric_limits<float>::quiet_NaN());
  quantizer.observer = ScaleObserver{.statistic = options.statistic,
                                     .argument = static_cast<float>(options.statistic_argument),
                                     .momentum = static_cast<float>(options.statistic_momentum),
                                     .steps = options.collect_steps};
}

/// Puts the weights that inference will have in the place of the layers', and gives these, by layer.
std::map<std::string, Tensor> fold_weights(
    Graph& graph, const std::vector<std::pair<std::string, const QatPreset*>>& layers,
    const std::string& where) {
  std::map<std::string, Tensor> weights;
  for (const auto& [name, preset] : layers) {
    Node& layer = graph.node(name);
    const Node* norm = foldable_norm(graph, layer);
    if (norm == nullptr) continue;
    Tensor& weight = layer.find_parameter("weight")->tensor;
    weights.emplace(name, weight);
    weight = scaled_weight(layer, channel_map(*norm));
  }
  if (weights.empty())
    fail("{}: key \"fold_batch_norm\": no layer that is quantized has a batch norm after it", where);
  return weights;
}

void fold_norm_into(Quantizer& weight, NormFolding folding, const std::string& where) {
  const Rounding rounding = weight.rounding;
  if (rounding == Rounding::kLearned || rounding == Rounding::kDorefa) {
    fail(
        "{}: key \"fold_batch_norm\": got \"{}\", expected \"no\" where the rounding of weights is \"{}\": "
        "{}",
        where, enum_name(folding), enum_name(rounding),
        rounding == Rounding::kLearned ? "such weights stay, and a norm would move them"
                                       : "it would take the norm's factors away");
  }
  weight.norm_folding = folding;
}

void run_prepare_qat(Graph& graph, const PrepareQatOptions& options, PassContext& context) {
  const auto layers = chosen_layers(graph, options, context.where);
  profile_inputs(graph, layers, options.num_samples, context);
  for (const auto& [name, preset] : layers) {
    Node& layer = graph.node(name);
    layer.quantization["weight"] = Quantizer(weight_spec(layer, *preset));
    const bool is_signed = least_input(layer, context.where) < 0;
    const std::string& activations = is_signed ? preset->activations : preset->activations_not_below_0;
    if (!activations.empty()) layer.quantization["data_in_0"] = Quantizer(parse_quant_spec_text(activations));
  }
  std::map<std::string, Tensor> unfolded;
  if (options.fold_batch_norm != NormFolding::kNo) unfolded = fold_weights(graph, layers, context.where);
  place_learned_scales(graph, context.where);
  const WeightBeginning beginning{options.weight_rounding, options.weight_statistic,
                                  options.statistic_argument};
  for (const auto& [name, preset] : layers) {
    Node& layer = graph.node(name);
    complete_weights(layer, *preset, beginning, context.where);
    if (layer.quantization.contains("data_in_0"))
      complete_inputs(graph, layer, *preset, options, context.where);
  }
  for (auto& [name, weight] : unfolded) {
    Node& layer = graph.node(name);
    layer.find_parameter("weight")->tensor = std::move(weight);
    fold_norm_into(*layer.quantization.at("weight"), options.fold_batch_norm, context.where);
  }
  verify(graph);
  context.report(fmt::format("prepare_qat: {} of {} layers with weights quantized ({})\n", layers.size(),
                             layers_with_weights(graph).size(), options.quantizers));
}

}  // namespace

PassInfo prepare_qat_pass() {
  return make_pass("prepare_qat", PassKind::kTransform,
                   "attaches trainable quantizers for quantization-aware training", run_prepare_qat,
                   PassStage::kQuantizing);
}

}  // namespace detent
