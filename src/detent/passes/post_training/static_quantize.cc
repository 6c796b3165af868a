#include "detent/passes/post_training/static_quantize.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/ranges.h>

#include "detent/files/file.h"
#include "detent/graph/operators.h"
#include "detent/inference/plan.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/loop_bodies.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/post_training/quantized_nodes.h"
#include "detent/passes/transform/graph_edits.h"

// Quantizes a network for execution in integers (Jacob et al. 2018, arXiv:1712.05877): weights become affine
// symmetric codes, activations affine codes with a zero point, biases 32-bit integers in units of input scale
// times weight scale, and every node that has an integer form computes on codes. Ranges of activations come
// from a run of the float network over calibration samples.
//
// A node's result, with all that later nodes only move or compare of it (relu, max pooling, views, padding),
// is one group of values with one scale, chosen for those that a node computes with: a relu after a
// convolution is so part of the convolution's rounding. Layers with weights take `activations` bits in; nodes
// that add, join, average or look up take `elementwise` bits, so that a sum of residuals need not be as
// coarse as the inputs of the layers. `bits` names nodes that take other widths; keep_float wins over it, it
// over the rest.

namespace detent {
namespace {

/// Bits that elementwise nodes take at most, where nothing names them.
int widest_activations(const StaticQuantizeOptions& options) {
  return std::max(options.elementwise.width, options.activations.integer.width);
}

/// By loop, where its body has layers or loops that have.
std::map<std::string, std::shared_ptr<const MeasuredNetwork>, std::less<>> measured_bodies(
    const Graph& network, std::span<const StaticQuantizeOptions> options, const PassContext& context) {
  std::map<std::string, std::shared_ptr<const MeasuredNetwork>, std::less<>> bodies;
  for (const Node& node : network.nodes()) {
    if (node.body == nullptr) continue;
    within_body(network, node.name, context, [&](PassContext& inside) {
      const StaticQuantizeOptions& first = options.front();
      const bool has_layers =
          plan_without_samples(*node.body, first, inside.prefix(), inside.where).has_weights();
      if (has_layers) {
        bodies[node.name] =
            std::make_shared<const MeasuredNetwork>(measured_for(*node.body, options, inside));
      } else if (has_layers_in_bodies(*node.body, first, inside.where)) {
        MeasuredNetwork measured{.graph = *node.body, .masked = {}};
        measured.bodies = measured_bodies(*node.body, options, inside);
        bodies[node.name] = std::make_shared<const MeasuredNetwork>(std::move(measured));
      }
    });
  }
  return bodies;
}

}  // namespace

bool MeasuredNetwork::is_reached() const {
  return !has_ranges ||
         std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.statistics.empty(); });
}

MeasuredNetwork measured_for(const Graph& network, const StaticQuantizeOptions& options,
                             PassContext& context) {
  return measured_for(network, std::span(&options, 1), context);
}

MeasuredNetwork measured_for(const Graph& network, std::span<const StaticQuantizeOptions> options,
                             PassContext& context) {
  const StaticQuantizeOptions& first = options.front();
  const NodeBitsMatcher bits(first.formats, first.bits, context.where, context.prefix());
  MeasuredNetwork measured{.graph = network, .masked = {}};
  measured.has_ranges = std::ranges::any_of(options, &StaticQuantizeOptions::quantizes_activations);
  if (measured.has_ranges) measured.masked = masked_scores(network, context);
  CodePlan plan = plan_nodes(network, first, bits, context.where, measured.masked.in_float);
  if (!context.body) {
    check_keep_float(network, first, context.where);
    bits.check_all_used(nodes_with_widths(network, plan, first, context.where), context.warn);
  }
  std::set<Calibrator> calibrators;
  for (const StaticQuantizeOptions& one : options) calibrators.merge(calibrators_of(one));
  constexpr int kMostRounds = 4;
  for (int round = 0; measured.has_ranges && round < kMostRounds; ++round) {
    measured.graph = measured_activations(network, plan, calibrators, first.num_samples, context);
    const size_t before = measured.masked.in_float.size();
    const auto keep = [&](const NodeNames& found, NodeNames& kept) {
      for (const std::string& name : found)
        if (bits.find(name) == nullptr) kept.insert(name);
      measured.masked.in_float.insert(kept.begin(), kept.end());
    };
    keep(infinite_nodes(measured.graph, plan), measured.infinite);
    if (measured.masked.in_float.size() == before) {
      VanishingValues found =
          vanishing_values(measured.graph, plan, widest_activations(first), context.where);
      keep(found.nodes, measured.vanishing.nodes);
      measured.vanishing.unrounded.merge(found.unrounded);
    }
    if (measured.masked.in_float.size() == before) break;
    plan = plan_nodes(network, first, bits, context.where, measured.masked.in_float,
                      measured.vanishing.unrounded);
  }
  measured.bodies = measured_bodies(network, options, context);
  return measured;
}

namespace {

constexpr const char* kNoLayers = "no layers to quantize";

/// "outer.inner"
std::string loop_of(const BodyPlace& body) { return body.prefix.substr(0, body.prefix.size() - 1); }

std::string body_in_float_text(const std::string& loop, const std::string& reason) {
  return fmt::format("static_quantize: {}: its body stays in float: {}\n", loop, reason);
}

/// Quantizes the bodies of the loops of `quantized.graph`.
void quantize_bodies(const MeasuredNetwork& measured, const StaticQuantizeOptions& options,
                     const PassContext& context, IntegerNetwork& quantized) {
  for (Node& node : quantized.graph.nodes()) {
    if (node.body == nullptr) continue;
    const auto found = measured.bodies.find(node.name);
    if (found == measured.bodies.end()) {
      quantized.bodies += body_in_float_text(context.prefix() + node.name, kNoLayers);
      continue;
    }
    PassContext inside = context;
    inside.body = {&context.sampled(quantized.graph), context.prefix() + node.name + "."};
    IntegerNetwork body = quantized_for_integers(*node.body, *found->second, options, inside);
    node.body = std::make_shared<const Graph>(std::move(body.graph));
    quantized.raised_scales += body.raised_scales;
    quantized.accumulators += body.accumulators;
    quantized.bodies += body.bodies;
    for (const std::string& name : body.exact) quantized.exact.push_back(node.name + "." + name);
  }
}

/// Why the graph, a body, is not quantized; "" where it is.
std::string why_body_in_float(const MeasuredNetwork& measured, const CodePlan& plan) {
  if (!plan.has_weights()) return kNoLayers;
  return measured.is_reached() ? "" : "no sample makes the loop run";
}

}  // namespace

IntegerNetwork quantized_for_integers(const Graph& network, const MeasuredNetwork& measured,
                                      const StaticQuantizeOptions& options, const PassContext& context) {
  const NodeBitsMatcher bits(options.formats, options.bits, context.where, context.prefix());
  const CodePlan plan = plan_nodes(network, options, bits, context.where, measured.masked.in_float,
                                   measured.vanishing.unrounded);
  IntegerNetwork result{.graph = network, .raised_scales = {}, .accumulators = {}};
  const std::string reason = context.body ? why_body_in_float(measured, plan) : "";
  if (reason.empty()) {
    result.raised_scales = quantize_nodes(result.graph, plan, measured, options, bits, context);
    result.graph.set_requantization(options.requantization);
    result.exact = plan.exact;
    if (!context.body) {
      result.accumulators = set_accumulators(result.graph, options.accumulator, context.where);
    } else if (!options.accumulator.empty()) {
      result.accumulators =
          fmt::format("accumulators: not of the layers in the body of {}\n", loop_of(*context.body));
    }
  } else {
    result.bodies = body_in_float_text(loop_of(*context.body), reason);
  }
  quantize_bodies(measured, options, context, result);
  verify(result.graph);
  integer_plan(result.graph);  // refuses overflows
  return result;
}

namespace {

void report_in_float(const PassContext& context, const char* reason, const auto& names) {
  if (names.empty()) return;
  context.report(fmt::format("static_quantize: in float, as {}: {}\n", reason, fmt::join(names, ", ")));
}

/// Nodes that stay in float though they have an integer form.
void report_in_float(const PassContext& context, const MeasuredNetwork& measured,
                     const IntegerNetwork& quantized) {
  report_in_float(context, "they read or give infinities", measured.infinite);
  report_in_float(context, "they compute divisors or take logarithms of what codes would round to 0",
                  measured.vanishing.nodes);
  report_in_float(context, "integers, comparisons, quotients or roots follow from their exact values",
                  quantized.exact);
  std::vector<std::string> masks;
  for (const std::string& name : measured.masked.in_float)
    if (!measured.infinite.contains(name) && !measured.vanishing.nodes.contains(name)) masks.push_back(name);
  report_in_float(context, "they mask the scores of a softmax (bits = \"NODE=/16\" quantizes one)", masks);
}

void run_static_quantize(Graph& graph, const StaticQuantizeOptions& options, PassContext& context) {
  check_unquantized(graph, context.where);
  const MeasuredNetwork measured = measured_for(graph, options, context);
  IntegerNetwork quantized = quantized_for_integers(graph, measured, options, context);
  graph = std::move(quantized.graph);
  report_in_float(context, measured, quantized);
  const std::vector<PlannedNode> integers = integer_plan_with_bodies(graph);
  context.report(quantized.raised_scales + quantized.accumulators + quantized.bodies +
                 "static_quantize: integer plan\n" + plan_summary(integers) + float_weights_text(graph));
  const std::filesystem::path folder = context.output_dir / "static_quantize";
  if (context.group->is_first())
    write_file(context.to_write(folder / "integer_plan.csv"), plan_table(integers).to_csv());
  write_quantization_summary(graph, folder, options.report, context);
}

}  // namespace

PassInfo static_quantize_pass() {
  PassInfo pass = make_pass("static_quantize", PassKind::kTransform,
                            "quantizes weights and activations for execution in integers",
                            run_static_quantize, PassStage::kQuantizing);
  pass.reaches_bodies = true;
  return pass;
}

}  // namespace detent
