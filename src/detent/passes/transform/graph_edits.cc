#include "detent/passes/transform/graph_edits.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/loop.h"
#include "detent/graph/node_names.h"
#include "detent/graph/traits.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {

std::map<std::string, size_t> reader_counts(const Graph& graph) {
  std::map<std::string, size_t> counts;
  for (const Node& node : graph.nodes()) {
    counts[node.name];
    for (const NodeInput& input : node.inputs) {
      if (!input.is_constant()) ++counts[input.node];
    }
  }
  return counts;
}

void redirect_readers(Graph& graph, const std::map<std::string, std::string>& replaced) {
  for (Node& reader : graph.nodes()) {
    for (NodeInput& input : reader.inputs) {
      for (auto other = replaced.find(input.node); other != replaced.end();
           other = replaced.find(input.node)) {
        input.node = other->second;
      }
    }
  }
}

size_t remove_unreachable_nodes(Graph& graph) {
  const auto nodes = graph.nodes();
  std::set<std::string, std::less<>> needed{nodes.back().name};
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!needed.contains(node->name)) continue;
    for (const NodeInput& input : node->inputs) needed.insert(input.node);
  }
  return graph.erase_if([&](const Node& node) {
    const bool is_kept = role_of(node) == OperatorRole::kConstant && node.name == kContextNode;
    return !needed.contains(node.name) && !is_kept && node.mase_type != MaseType::kPlaceholder;
  });
}

namespace {

/// Relative to the largest magnitude; infinite where one is finite and the other is not.
double relative_difference(const Tensor& expected, const Tensor& actual) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    const auto value = static_cast<double>(expected.values<float>()[i]);
    const auto other = static_cast<double>(actual.values<float>()[i]);
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    if (value == other || (std::isnan(value) && std::isnan(other))) continue;
    difference = std::max(difference, std::isfinite(other) ? std::fabs(value - other) : HUGE_VAL);
  }
  return difference == 0 ? 0 : difference / largest;
}

/// Whether the node gives an integer beside each number.
bool gives_integers(const Node& node) {
  const auto* const unary = trait<Unary>(node);
  if (unary == nullptr) return false;
  const Unary::Function function = unary->function(node);
  constexpr double kNumbers[] = {-20.3, 0.4, 7.75};
  return std::ranges::all_of(kNumbers, [&](double x) {
    const double y = function(x);
    return std::fabs(y - x) < 1 && y == std::nearbyint(y);
  });
}

/// Why small differences may have become large ones; nothing where no node rounds.
std::string rounding_text(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes())
    if (gives_integers(node)) names.push_back(node.name);
  if (names.empty()) return "";
  return fmt::format(
      "; it rounds its own values (nodes {}), which makes whole steps of the least difference: begin with "
      "the network before it was quantized, or leave this pass out (`detent quantize --prepare`)",
      listed_names(names));
}

}  // namespace

OutputDifference check_same_outputs(const Graph& before, const Graph& after, double tolerance,
                                    const PassContext& context) {
  constexpr int64_t kSamples = 16;
  constexpr double kMostProducts = 7.5e9;  // some 0.2 seconds of a core
  verify(after);
  const std::unique_ptr<CalibrationSet> data = context.open_calibration();
  const int64_t most =
      affordable_samples(std::min(kSamples, data->size()),
                         2 * multiply_adds(before, sample_sizes(*data, before)), kMostProducts);
  const SampleRange range = calibration_batches(*data, before, most, most).front();
  const int64_t samples = range.end - range.begin;
  const std::vector<Tensor> inputs = data->inputs(range.begin, range.end);
  const std::vector<Tensor> expected = context.executor().compile(before)->run(inputs);
  const std::vector<Tensor> actual = context.executor().compile(after)->run(inputs);
  double relative = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    // Others are indices and numbers of detections, which the least difference may change.
    if (expected[i].dtype() == DType::kFloat32 && expected[i].shape() == actual.at(i).shape())
      relative = std::max(relative, relative_difference(expected[i], actual[i]));
  }
  if (!(relative <= tolerance)) {
    fail(
        "{}: the outputs of {} samples differ by {:.3g} of their largest magnitude, expected at most "
        "{:.3g}{}",
        context.where, samples, relative, tolerance, rounding_text(before));
  }
  return {relative, samples};
}

Graph without_quantization(const Graph& graph) {
  Graph result = graph;
  for (Node& node : result.nodes()) {
    node.quantization.clear();
    node.attributes.erase(kAccumulatorAttribute);
    if (node.body != nullptr && holds_quantizers(*node.body))
      node.body = std::make_shared<const Graph>(without_quantization(*node.body));
  }
  result.set_requantization(std::nullopt);
  return result;
}

OutputBits compare_output_bits(const Graph& before, const Graph& after, int64_t samples,
                               const PassContext& context) {
  const auto calibration = context.open_calibration();
  const auto one = context.executor().compile(before);
  const auto other = context.executor().compile(after);
  const int64_t count = std::min(samples, calibration->size());
  OutputBits result;
  for (const auto& [begin, end] : calibration_batches(*calibration, before, count, context.batch_size)) {
    const auto inputs = calibration->inputs(begin, end);
    const std::vector<Tensor> expected = one->run(inputs);
    const std::vector<Tensor> actual = other->run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      result.compared += expected[i].numel();
      const auto left = expected[i].values<float>();
      const auto right = actual.at(i).values<float>();
      for (size_t k = 0; k < left.size(); ++k) result.differing += left[k] == right[k] ? 0 : 1;
    }
  }
  return result;
}

}  // namespace detent
