#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/equalization_pairs.h"
#include "detent/passes/transform/graph_edits.h"

// Cross-layer equalization (Nagel et al. 2019, arXiv:1906.04721, section 4.1):
//
//     layer (W1, b1) -> relu, pooling, ... -> layer (W2)     becomes     (f W1, f b1) -> ... -> (W2 / f)
//
// with a factor f for each channel between them that brings the ranges of W1's row and W2's column together,
// so that one scale a tensor suits all channels. Repeated over all such pairs until the factors are next
// to 1. The network computes the same. It fires where everything that reads the value is a convolution or
// linear layer, nothing between the layers has other readers, and all between is homogeneous (relu6 is not:
// its 6 is fixed); before anything is quantized, and after batch norms are folded.

namespace detent {
namespace {

struct EqualizePassOptions {
  double alpha = 0.5;
  int64_t iterations = 20;
  double threshold = 0.05;
  bool check = true;
  double tolerance = 1e-4;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("alpha", self.alpha, "f = range of W2 ^ (1 - alpha) / range of W1 ^ alpha", Between{0, 1});
    visit("iterations", self.iterations, "most rounds over all pairs", Between{1, 1e6});
    visit("threshold", self.threshold, "ends when all factors of a round differ from 1 by less",
          Between{0, 1e6});
    visit("check", self.check, "compare the outputs on calibration samples before and after");
    visit("tolerance", self.tolerance, "largest difference allowed, relative to the largest output",
          Between{0, 1});
  }
};

std::vector<double> source_ranges(const Graph& graph, const EqualizationPair& pair) {
  std::vector<double> ranges(static_cast<size_t>(pair.channels));
  const Node& source = graph.node(pair.producer);
  const std::span<const float> weight = source.find_parameter("weight")->tensor.values<float>();
  const WeightChannels channels(source);
  for (size_t i = 0; i < weight.size(); ++i) {
    double& range = ranges[static_cast<size_t>(channels.output(static_cast<int64_t>(i)))];
    range = std::max(range, std::fabs(static_cast<double>(weight[i])));
  }
  return ranges;
}

/// Returns the largest |1 - f|.
double equalize_pair(Graph& graph, const EqualizationPair& pair, double alpha) {
  const std::vector<double> sources = source_ranges(graph, pair);
  const std::vector<double> sinks = sink_ranges(graph, pair);
  std::vector<double> factors;
  double largest = 0;
  for (size_t c = 0; c < sources.size(); ++c) {
    factors.push_back(equalizing_factor(sources[c], sinks[c], alpha));
    largest = std::max(largest, std::fabs(1 - factors.back()));
  }
  move_scale(graph, pair, factors);
  return largest;
}

/// The largest range of a channel over the smallest that is not 0.
std::string pair_spread(const Graph& graph, const EqualizationPair& pair) {
  std::vector<double> ranges = source_ranges(graph, pair);
  std::erase(ranges, 0.0);
  if (ranges.empty()) return "1";
  const auto [low, high] = std::ranges::minmax(ranges);
  return fmt::format("{:.4g}", high / low);
}

void run_equalize(Graph& graph, const EqualizePassOptions& options, PassContext& context) {
  const EqualizationPairs found = find_equalization_pairs(graph, is_weighted_sum);
  for (const std::string& obstacle : found.obstacles) context.report(fmt::format("equalize: {}\n", obstacle));
  if (found.pairs.empty()) {
    fail("{}: no two layers can be equalized (reasons above); is fuse_batch_norm missing before?",
         context.where);
  }
  Graph equalized = graph;
  std::vector<std::string> before;
  for (const EqualizationPair& pair : found.pairs) before.push_back(pair_spread(graph, pair));
  double largest = 0;
  int64_t rounds = 0;
  do {
    largest = 0;
    for (const EqualizationPair& pair : found.pairs) {
      largest = std::max(largest, equalize_pair(equalized, pair, options.alpha));
    }
    ++rounds;
  } while (largest > options.threshold && rounds < options.iterations);
  if (options.check) check_same_outputs(graph, equalized, options.tolerance, context);
  graph = std::move(equalized);
  TextTable table({"layer", "equalized with", "spread of its channels before", "after"});
  for (size_t i = 0; i < found.pairs.size(); ++i) {
    const EqualizationPair& pair = found.pairs[i];
    table.add_row(
        {pair.producer, fmt::format("{}", fmt::join(pair.sinks, ", ")), before[i], pair_spread(graph, pair)});
  }
  context.report(table.to_text());
  context.report(fmt::format("equalize: {} rounds, last factors within {:.2g} of 1\n", rounds, largest));
}

}  // namespace

PassInfo equalize_pass() {
  return make_pass("equalize", PassKind::kTransform,
                   "scales channels between layers to similar weight ranges; outputs stay equal",
                   run_equalize, PassStage::kBeforeQuantizing);
}

}  // namespace detent
