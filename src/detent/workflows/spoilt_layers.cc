#include "detent/workflows/quantize_network.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/evaluation/nonfinite_nodes.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// dB, below which an output is of no use.
constexpr double kLeastOutput = 10;

/// Adds those that compute what the nodes read.
void add_computed_inputs(const Graph& graph, std::vector<std::string>& names) {
  for (size_t i = 0, count = names.size(); i < count; ++i) {
    for (const NodeInput& input : graph.node(names[i]).inputs) {
      const bool computes =
          !input.is_constant() && role_of(graph.node(input.node)) == OperatorRole::kComputes;
      if (computes && std::ranges::find(names, input.node) == names.end()) names.push_back(input.node);
    }
  }
}

}  // namespace

bool is_useless(const LayerwiseErrors& errors) {
  return !errors.measured_output.empty() && !(errors.output_sqnr_db >= kLeastOutput);
}

std::vector<std::string> spoilt_nodes(const LayerwiseErrors& errors) {
  constexpr double kLeastAlone = 8;
  constexpr double kLargeGain = 10;
  std::vector<std::string> names;
  if (!is_useless(errors)) return names;
  for (const NodeError& node : errors.nodes)
    if (node.alone.sqnr_db() < kLeastAlone || node.output_gain.value_or(0) > kLargeGain)
      names.push_back(node.node);
  return names;
}

std::string noise_warning(const QuantizationAnalysis& analysis) {
  constexpr size_t kMost = 3;
  const auto& [errors, advice] = analysis;
  if (!is_useless(errors)) return "";
  std::vector<std::string> names;
  std::vector<std::string> texts;
  for (const NodeError& node : errors.nodes) {
    if (texts.size() == kMost) break;
    names.push_back(node.node);
    texts.push_back(fmt::format("{} ({}: {:.1f} dB alone)", node.node, node.op, node.alone.sqnr_db()));
  }
  const std::string remedy =
      advice.tried.empty()
          ? fmt::format("`detent quantize --keep-float '{}'` leaves these in float", fmt::join(names, ","))
          : fmt::format("`detent quantize {}` gives {:.1f} dB", advice.tried.back().options,
                        advice.tried.back().output_sqnr_db);
  return fmt::format("{}, too little to be of use; what costs most: {}; {}", output_sqnr_text(errors),
                     fmt::join(texts, ", "), remedy);
}

std::vector<std::string> first_nonfinite(const Graph& reference, const Graph& quantized,
                                         PassContext& context) {
  const auto data = context.open_calibration();
  constexpr int64_t kSamples = 8;
  const SampleRange first = calibration_batches(*data, reference, kSamples, kSamples).front();
  const std::vector<Tensor> inputs = data->inputs(first.begin, first.end);
  const Executor& executor = context.executor();
  const std::vector<std::string> usual = nonfinite_nodes(*executor.compile(reference), inputs);
  std::vector<std::string> names = nonfinite_nodes(*executor.compile(quantized), inputs);
  std::erase_if(names, [&](const std::string& name) { return std::ranges::count(usual, name) > 0; });
  if (names.empty()) return {};
  names.resize(1);
  const auto has_codes = [&](const std::string& name) { return !quantized.node(name).quantization.empty(); };
  constexpr int kMostSteps = 4;
  for (int step = 0; step < kMostSteps; ++step) {
    add_computed_inputs(quantized, names);
    if (std::ranges::any_of(names, has_codes)) break;
  }
  return names;
}

}  // namespace detent
