#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/equalization_pairs.h"
#include "detent/passes/transform/graph_edits.h"

// Folds a batch_norm into the convolution or linear layer before it, as inference computes it:
//
//     y = (w * x + b - mean) / sqrt(var + eps) * gamma + beta = (w * s) * x + (b - mean) * s + beta
//
// with s = gamma / sqrt(var + eps) for each output channel (Jacob et al. 2018, arXiv:1712.05877,
// section 3.2), in double, rounded to float32 once. A layer that something else reads as well, or that is
// quantized already, keeps its batch_norm, and the report says why.

namespace detent {
namespace {

struct FuseOptions {
  bool check = true;
  double tolerance = 1e-4;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("check", self.check, "compare the outputs on calibration samples before and after");
    visit("tolerance", self.tolerance, "largest difference allowed, relative to the largest output",
          Between{0, 1});
  }
};

void fold(Node& layer, const Node& norm) {
  const ChannelMap map = channel_map(norm);
  Tensor bias = moved_bias(layer, map);
  layer.own_parameter("weight")->tensor = scaled_weight(layer, map);
  set_bias(layer, std::move(bias));
  layer.quantization = norm.quantization;
  layer.statistics.results = norm.statistics.results;
  for (const char* changed : {"weight", "bias"}) layer.statistics.args.erase(changed);
}

struct FoldedNorms {
  size_t norms = 0;
  size_t folded = 0;
};

/// `prefix` stands before the names of nodes of a loop's body.
FoldedNorms fold_norms(Graph& graph, const std::string& prefix, const PassContext& context) {
  const ValueTypes values = infer_shapes(graph);
  const std::map<std::string, size_t> readers = reader_counts(graph);
  std::map<std::string, std::string> replaced;  // norm -> layer
  FoldedNorms count;
  for (const Node& norm : graph.nodes()) {
    if (!is_batch_norm(norm)) continue;
    ++count.norms;
    const std::string& source = norm.inputs[0].node;
    const auto fused = replaced.find(source);  // a norm after a norm
    Node& layer = graph.node(fused == replaced.end() ? source : fused->second);
    std::string reason = folding_obstacle(layer, norm, values.at(source).shape.size(), readers.at(source));
    if (reason.empty() && !layer.quantization.empty()) reason = fmt::format("{} is quantized", layer.name);
    if (reason.empty()) {
      fold(layer, norm);
      replaced[norm.name] = layer.name;
    } else {
      context.report(fmt::format("fuse_batch_norm: {}{} stays: {}\n", prefix, norm.name, reason));
    }
  }
  redirect_readers(graph, replaced);
  graph.erase_if([&](const Node& node) { return replaced.contains(node.name); });
  count.folded = replaced.size();
  for (Node& node : graph.nodes()) {
    if (node.body == nullptr) continue;
    Graph body = *node.body;
    const FoldedNorms inner = fold_norms(body, prefix + node.name + ".", context);
    if (inner.folded > 0) node.body = std::make_shared<const Graph>(std::move(body));
    count.norms += inner.norms;
    count.folded += inner.folded;
  }
  return count;
}

void run_fuse(Graph& graph, const FuseOptions& options, PassContext& context) {
  const Graph before = graph;
  const auto [norms, folded] = fold_norms(graph, "", context);
  verify(graph);
  std::string checked;
  if (options.check && folded > 0) {
    const auto [difference, samples] = check_same_outputs(before, graph, options.tolerance, context);
    checked = fmt::format("; outputs differ by at most {:.2g} ({} samples)", difference, samples);
  }
  context.report(fmt::format("fuse_batch_norm: {} of {} folded{}\n", folded, norms, checked));
}

}  // namespace

PassInfo fuse_batch_norm_pass() {
  PassInfo pass = make_pass("fuse_batch_norm", PassKind::kTransform,
                            "folds each batch_norm into the preceding convolution or linear layer", run_fuse,
                            PassStage::kBeforeQuantizing);
  pass.reaches_bodies = true;
  return pass;
}

}  // namespace detent
