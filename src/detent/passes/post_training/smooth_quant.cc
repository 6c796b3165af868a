#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/equalization_pairs.h"
#include "detent/passes/staged_runs/staged_run.h"
#include "detent/passes/transform/graph_edits.h"

// Moves the range of activations into weights (SmoothQuant; Xiao et al. 2022, arXiv:2211.10438):
//
//     producer -> relu, ... -> x -> layers (W)     becomes     f producer -> ... -> f x -> layers (W / f)
//
// with f = range of W ^ (1 - alpha) / range of x ^ alpha for each channel of x, whose range is the largest
// magnitude in the calibration data. The producer is a norm, convolution or linear layer, which takes up f in
// its weight and bias. The network computes the same. It fires where everything that reads x is a convolution
// or linear layer and all between is homogeneous, before anything is quantized.

namespace detent {
namespace {

struct SmoothQuantPassOptions : CalibrationInputOptions {
  double alpha = 0.5;
  std::vector<std::string> nodes;
  bool check = true;
  double tolerance = 1e-4;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("alpha", self.alpha, "share of the range that moves into the weights", Between{0, 1});
    visit("nodes", self.nodes, "layers whose inputs to smooth; empty: all possible ones");
    CalibrationInputOptions::fields(self, visit);
    visit("check", self.check, "compare the outputs on calibration samples before and after");
    visit("tolerance", self.tolerance, "largest difference allowed, relative to the largest output",
          Between{0, 1});
  }
  void check_graph(const Graph& graph, const EarlierPasses& /*earlier*/, const std::string& where) const {
    for (const std::string& name : nodes) {
      if (graph.find(name) != nullptr) continue;
      fail("{}: key \"nodes\": {}", where, unknown_name_message("node", name, graph.node_names()));
    }
  }
};

bool may_produce(const Node& node) {
  if (is_weighted_sum(node)) return true;
  const auto* norm = trait<Normalization>(node);
  if (norm == nullptr || norm->over != Normalization::Over::kLastDims) return norm != nullptr;
  return integers_attribute(node, "normalized_shape").size() == 1;
}

/// The pairs that the options ask for. A node that is named but has none is an error.
std::vector<EqualizationPair> chosen_links(const Graph& graph, const SmoothQuantPassOptions& options,
                                           const PassContext& context) {
  EqualizationPairs found = find_equalization_pairs(graph, may_produce);
  if (options.nodes.empty()) {
    for (const std::string& obstacle : found.obstacles)
      context.report(fmt::format("smooth_quant: {}\n", obstacle));
    if (found.pairs.empty()) fail("{}: no layer's input can be smoothed (reasons above)", context.where);
    return std::move(found.pairs);
  }
  for (const std::string& name : options.nodes) {
    const Node& node = graph.node(name);
    const auto has = [&](const EqualizationPair& pair) {
      return std::ranges::find(pair.sinks, name) != pair.sinks.end();
    };
    if (std::ranges::any_of(found.pairs, has)) continue;
    const std::string value = node.inputs.empty() ? "" : node.inputs[0].node;
    const auto obstacle = std::ranges::find_if(
        found.obstacles, [&](const std::string& text) { return text.starts_with(value + ":"); });
    fail("{}: key \"nodes\": the input of \"{}\" cannot be smoothed: {}", context.where, name,
         obstacle == found.obstacles.end() ? fmt::format("{} is no convolution or linear layer", node.op)
                                           : *obstacle);
  }
  std::erase_if(found.pairs, [&](const EqualizationPair& pair) {
    return std::ranges::none_of(pair.sinks, [&](const std::string& sink) {
      return std::ranges::find(options.nodes, sink) != options.nodes.end();
    });
  });
  return std::move(found.pairs);
}

/// Largest magnitudes of a layer's input, for each of `channels` channels.
void take_ranges(const Node& layer, const Tensor& input, int64_t features, std::vector<double>& ranges) {
  const auto axis = static_cast<int64_t>(channel_axis(layer, input.shape().size()));
  const int64_t inner = element_count({input.shape().begin() + axis + 1, input.shape().end()});
  const int64_t size = input.dim(axis);
  const std::span<const float> values = input.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    double& range = ranges[static_cast<size_t>(static_cast<int64_t>(i) / inner % size / features)];
    range = std::max(range, std::fabs(static_cast<double>(values[i])));
  }
}

/// By the name of a pair's first sink.
std::map<std::string, std::vector<double>, std::less<>> input_ranges(
    const Graph& graph, const std::vector<EqualizationPair>& pairs, const SmoothQuantPassOptions& options,
    PassContext& context) {
  std::map<std::string, std::vector<double>, std::less<>> ranges;
  std::map<std::string, int64_t, std::less<>> features;
  for (const EqualizationPair& pair : pairs) {
    ranges[pair.sinks[0]].resize(static_cast<size_t>(pair.channels));
    features[pair.sinks[0]] = pair.features;
  }
  const CalibrationBatches batches(graph, options, context);
  const std::unique_ptr<const Program> program = context.executor().compile(graph);
  auto observation = Observation::of_none();
  for (const auto& [node, range] : ranges) observation.operands->emplace(node, "data_in_0");
  observation.see = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
    take_ranges(node, value, features.at(node.name), ranges.at(node.name));
  };
  for (int64_t batch = 0; batch < batches.count() && !ranges.empty(); ++batch)
    program->run(batches.inputs(batch), observation);
  return ranges;
}

std::string spread(const std::vector<double>& ranges, const std::vector<double>* factors) {
  double low = 0;
  double high = 0;
  for (size_t c = 0; c < ranges.size(); ++c) {
    const double range = ranges[c] * (factors == nullptr ? 1 : (*factors)[c]);
    high = std::max(high, range);
    if (range > 0 && (low == 0 || range < low)) low = range;
  }
  return low == 0 ? "1" : fmt::format("{:.4g}", high / low);
}

void run_smooth_quant(Graph& graph, const SmoothQuantPassOptions& options, PassContext& context) {
  const std::vector<EqualizationPair> pairs = chosen_links(graph, options, context);
  const auto ranges = input_ranges(graph, pairs, options, context);
  Graph smoothed = graph;
  TextTable table({"input of", "taken up by", "spread of its channels before", "after"});
  for (const EqualizationPair& pair : pairs) {
    const std::vector<double>& sources = ranges.at(pair.sinks[0]);
    const std::vector<double> sinks = sink_ranges(smoothed, pair);
    std::vector<double> factors;
    for (size_t c = 0; c < sources.size(); ++c) {
      factors.push_back(equalizing_factor(sources[c], sinks[c], options.alpha));
    }
    move_scale(smoothed, pair, factors);
    table.add_row({fmt::format("{}", fmt::join(pair.sinks, ", ")), pair.producer, spread(sources, nullptr),
                   spread(sources, &factors)});
  }
  if (options.check) check_same_outputs(graph, smoothed, options.tolerance, context);
  graph = std::move(smoothed);
  context.report(table.to_text());
}

}  // namespace

PassInfo smooth_quant_pass() {
  return make_pass("smooth_quant", PassKind::kTransform,
                   "moves per-channel ranges of activations into the following weights; outputs stay equal",
                   run_smooth_quant, PassStage::kBeforeQuantizing);
}

}  // namespace detent
