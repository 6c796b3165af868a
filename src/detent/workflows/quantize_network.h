#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/format.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/quantization_advice.h"
#include "detent/passes/pass.h"

namespace detent {

/// How many calibration samples the layer-wise errors are measured on.
constexpr int64_t kErrorAnalysisSamples = 64;

/// The most samples that one of the passes reads.
int64_t most_calibration_samples(const Table& passes);

/// The passes for a network that brings its quantizers: they stay, and finish_qat takes the place of
/// static_quantize. Throws Error on options that would change them.
Table finishing_passes(const Table& passes);

/// A network before static_quantize and after all passes.
struct QuantizedGraphs {
  Graph reference;
  Graph quantized;
  Table passes;  // as QuantizedNetwork's, without those of QuantizeWish().prepare

  /// The result refers to members of this.
  QuantizedNetwork network() const { return {reference, quantized, passes}; }
};

/// Runs the passes of quantize_passes or finishing_passes on a copy of the network. Keys and values that a
/// decoder keeps are rounded to `cache_format`, where the passes leave them to float (quantize_passes.h).
QuantizedGraphs quantize_network(const Graph& graph, const Table& passes, PassContext& context,
                                 const std::optional<Format>& cache_format = std::nullopt);

/// Quantization of a network that was not trained for it: what each layer loses, and what would help.
struct QuantizationAnalysis {
  LayerwiseErrors errors;
  QuantizationAdvice advice;
};
/// Where codes make results NaN or infinite that are finite in float, the nodes that do stay in float: the
/// network is quantized again, with a warning. Likewise where the outputs are of no use, as to the nodes that
/// spoil them (spoilt_nodes). Throws Error naming the first node whose result is not finite where that does
/// not help.
QuantizationAnalysis analyze_quantization(QuantizedGraphs& graphs, PassContext& context,
                                          const std::optional<Format>& cache_format = std::nullopt);

/// The same network without that analysis, which is made only where the outputs are not finite or of no use.
void settle_quantization(QuantizedGraphs& graphs, PassContext& context,
                         const std::optional<Format>& cache_format = std::nullopt);

/// Whether too little is left of the measured output.
bool is_useless(const LayerwiseErrors& errors);

/// Nodes whose own rounding leaves little of their results or costs most of the outputs, of a network whose
/// outputs are of no use: distances from products of [-2 x, |x|^2, 1], whose large columns take all codes.
/// None of other networks.
std::vector<std::string> spoilt_nodes(const LayerwiseErrors& errors);

/// A warning where little is left of the outputs, with the nodes that cost most and the options that help;
/// "" where there is no reason.
std::string noise_warning(const QuantizationAnalysis& analysis);

/// The first node of the quantized network that gives NaN or infinities for the first samples where the
/// reference does not, and the nodes before it, as far as those with codes; none where all is finite.
std::vector<std::string> first_nonfinite(const Graph& reference, const Graph& quantized,
                                         PassContext& context);

}  // namespace detent
