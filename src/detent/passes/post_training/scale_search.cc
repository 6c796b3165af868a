#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/core/progress.h"
#include "detent/core/text_table.h"
#include "detent/inference/node_form.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/staged_runs/round_weights.h"
#include "detent/reconstruction/scale_search.h"

// Chooses the scales of quantized weights by an exhaustive search for the least error of what each group of
// weights that shares one adds to the layer's outputs: the objective of GPTQ (Frantar et al. 2022,
// arXiv:2210.17323), and in groups the one by which AWQ clips (Lin et al. 2023, arXiv:2306.00978). Errors
// weighted by the mean squares of the inputs alone would favour clipping too much: what is clipped errs in
// one direction, and inputs after a relu add that up.
//
//     linear, conv with a spec of weight  ->  the same with other scales (and zero points)
//
// Weights stay as they are, so that passes that choose their values may follow.

namespace detent {
namespace {

struct ScaleSearchPassOptions : CalibrationInputOptions {
  ScaleSearchOptions search;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    ScaleSearchOptions::fields(self.search, visit);
    CalibrationInputOptions::fields(self, visit);
  }
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const {
    if (!earlier.quantize) check_weights_to_round(graph, where);
  }
};

struct SearchableLayers {
  std::vector<size_t> nodes;
  std::vector<std::string> others;  // whose formats derive their scales from the weights, with the formats
};

SearchableLayers searchable_layers(const Graph& graph) {
  SearchableLayers layers;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const QuantSpec* spec = node.find_quantization("weight");
    if (spec == nullptr) continue;
    if (Im2Col::exist_for(node) && has_searchable_scales(*spec)) {
      layers.nodes.push_back(i);
    } else {
      layers.others.push_back(fmt::format("{} ({})", node.name, format_name(spec->format)));
    }
  }
  return layers;
}

void run_scale_search(Graph& graph, const ScaleSearchPassOptions& options, PassContext& context) {
  check_weights_to_round(graph, context.where);
  const SearchableLayers layers = searchable_layers(graph);
  if (layers.nodes.empty()) {
    fail("{}: no weight has scales to choose, those of its format follow the weights: {}", context.where,
         listed_names(layers.others));
  }
  Graph searched = graph;
  StagedRun run(searched, options, context);
  TextTable table({"node", "scales", "largest weights, SQNR dB", "chosen, SQNR dB"});
  Progress progress("choosing scales, layers", std::ssize(layers.nodes),
                    {.shown = context.group->is_first()});
  for (const size_t index : layers.nodes) {
    Node& node = searched.nodes()[index];
    const std::string where = fmt::format("{}: node \"{}\"", context.where, node.name);
    std::vector<Matrix<double>> grams;
    for (InputMoments& inputs : input_moments(node, index, run, nullptr, where))
      grams.push_back(std::move(inputs.gram));
    const Tensor& weight = node.find_parameter("weight")->tensor;
    const SearchedScales found =
        search_scales(*node.find_quantization("weight"), weight, grams, options.search, where);
    node.quantization["weight"] = found.spec;
    fit_weight_scales(node);
    table.add_row(
        {node.name,
         fmt::format("{}", weight_distributions(weight, found.spec, Calibrator::kMinMax, where).size()),
         decibel(found.signal, found.before), decibel(found.signal, found.after)});
    progress.update(std::ssize(table.rows()), node.name);
  }
  progress.finish();
  graph = std::move(searched);
  context.report(table.to_text());
  if (layers.others.empty()) return;
  context.report(
      fmt::format("scale_search: scales that follow the weights stay: {}\n", listed_names(layers.others)));
}

}  // namespace

PassInfo scale_search_pass() {
  return make_pass("scale_search", PassKind::kTransform,
                   "searches the scales of quantized weights for the least error of a layer's outputs",
                   run_scale_search, PassStage::kChoosingScales);
}

}  // namespace detent
