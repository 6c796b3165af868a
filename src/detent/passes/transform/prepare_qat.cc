#include <set>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/learned_scales.h"
#include "detent/passes/transform/qat_presets.h"
#include "detent/passes/transform/static_quantize_options.h"

namespace detent {
namespace {

struct PrepareQatOptions {
  std::string quantizers = "int8_lsq";
  FirstLastLayers first_last_layers = FirstLastLayers::kEightBits;
  std::vector<std::string> keep_float;
  int64_t num_samples = 1024;

  static constexpr std::array kFormerNames = {FormerName{"edge_layers", "first_last_layers"}};
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("quantizers", self.quantizers,
          "of weights and inputs of all layers with weights; see `detent list quantizers`");
    visit("first_last_layers", self.first_last_layers, "the first and the last layer with weights");
    visit("keep_float", self.keep_float, "regular expressions of names of layers that stay in float");
    visit("num_samples", self.num_samples, "training samples from which scales of activations begin",
          Between{1, 1e12});
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
    const bool eight_bits = is_first_or_last && options.first_last_layers == FirstLastLayers::kEightBits;
    chosen.emplace_back(layer, eight_bits ? &find_qat_preset("int8_lsq", where) : &preset);
  }
  if (chosen.empty()) fail("{}: no layer with weights is left to quantize", where);
  return chosen;
}

/// What the layers read: magnitudes, from which scales begin, and whether anything is below 0.
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

bool is_ever_negative(const Node& layer, const std::string& where) {
  const Table* statistics = layer.statistics.find("data_in_0");
  const Value* range = statistics == nullptr ? nullptr : statistics->find("range_min_max");
  const Table* result = range == nullptr ? nullptr : range->get_if<Table>();
  const Value* least = result == nullptr ? nullptr : result->find("min");
  double scratch = 0;
  const double* number = least == nullptr ? nullptr : least->number(scratch);
  if (number == nullptr) fail("{}: node \"{}\": the range of its input was not profiled", where, layer.name);
  return *number < 0;
}

QuantSpec weight_spec(const Node& layer, const QatPreset& preset) {
  QuantSpec spec = parse_quant_spec_text(preset.weights);
  if (spec.granularity != Granularity::kTensor)
    spec.axis = find_operator(layer.op).weight_channel_dim.value_or(0);
  return spec;
}

void run_prepare_qat(Graph& graph, const PrepareQatOptions& options, PassContext& context) {
  const auto layers = chosen_layers(graph, options, context.where);
  profile_inputs(graph, layers, options.num_samples, context);
  for (const auto& [name, preset] : layers) {
    Node& layer = graph.node(name);
    layer.quantization["weight"] = Quantizer(weight_spec(layer, *preset));
    const bool is_signed = is_ever_negative(layer, context.where);
    const std::string& activations = is_signed ? preset->activations : preset->activations_not_below_0;
    if (!activations.empty()) layer.quantization["data_in_0"] = Quantizer(parse_quant_spec_text(activations));
  }
  place_learned_scales(graph, context.where);
  context.report(fmt::format("prepare_qat: {} of {} layers with weights quantized ({})\n", layers.size(),
                             layers_with_weights(graph).size(), options.quantizers));
}

}  // namespace

PassInfo prepare_qat_pass() {
  return make_pass("prepare_qat", PassKind::kTransform,
                   "quantizers, with learned scales, for quantization-aware training", run_prepare_qat,
                   PassStage::kQuantizing);
}

}  // namespace detent
