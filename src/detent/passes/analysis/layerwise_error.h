#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/formats/measure/distortion.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Quantization error of one node: of the clamp if only relu or relu6 reads its result, of the compared
/// values (compared_values) if it is an output.
struct NodeError {
  std::string node;
  std::string op;
  /// Gain of the logits' SQNR with the node in float, in dB; nullopt if not tried.
  std::optional<double> output_gain = {};
  std::string more_bits;  // an entry of static_quantize's `bits` that widens it; "": it has 8 bits and more
  Distortion alone;       // of its result, when only this node is quantized
  Distortion together;    // of its result, when everything is
  std::optional<Distortion> weight;
  std::optional<double> saturated_share;  // of the inputs that it quantizes
};

/// An output of the quantized network compared with float, by compared_values.
struct OutputError {
  std::string name;  // as the model that the network was read from calls it
  bool is_float = false;
  double signal = 0;  // sums of squares
  double noise = 0;
  Distortion error = Distortion(Distortion::Values::kIgnored);
  /// For other dtypes: elements that are equal, and all; none of the former where shapes differ.
  int64_t equal = 0;
  int64_t elements = 0;

  double sqnr_db() const { return detent::sqnr_db(signal, noise); }
};

struct LayerwiseErrors {
  /// SQNR of the measured output (output_gain.h), that of `outputs`; none in a network without such.
  double output_sqnr_db = 0;
  std::string measured_output = "logits";  // "": none
  int64_t samples = 0;                     // for the outputs
  int64_t node_samples = 0;                // for the nodes
  int64_t gain_samples = 0;                // for the gains
  std::vector<OutputError> outputs;
  std::vector<NodeError> nodes;
};

/// The errors of the outputs over the first `samples` calibration samples, or fewer where these would cost
/// more than some seconds, and of every quantized node over those of them whose values take 128 MiB, at least
/// 8; the one that the network's output suffers most from comes first. Gains are tried for the nodes with the
/// largest errors of their own, as many as are affordable (output_gain.h). `reference` is the network before
/// quantization, with the same nodes.
LayerwiseErrors analyze_layerwise_error(const Graph& reference, const Graph& quantized, int64_t samples,
                                        PassContext& context);

/// The errors of the outputs alone, over the same samples; without nodes.
LayerwiseErrors analyze_output_errors(const Graph& reference, const Graph& quantized, int64_t samples,
                                      PassContext& context);

/// SQNR and cosine of each output, a row an output.
TextTable outputs_table(const LayerwiseErrors& errors);
Value layerwise_errors_value(const LayerwiseErrors& errors);
/// "the logits have an SQNR of 26.1 dB"; "" where there is no output to compare.
std::string output_sqnr_text(const LayerwiseErrors& errors);

/// Reports tables, with `conclusion` after that of the nodes, and writes layerwise_error.json and .csv, and
/// quantization_outputs.csv, into `folder`.
void report_layerwise_errors(const LayerwiseErrors& errors, const std::filesystem::path& folder,
                             const PassContext& context, const std::string& conclusion);

}  // namespace detent
