#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/transform/node_bits.h"
#include "detent/passes/transform/operand_format.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// Accumulators of layers (graph/accumulator.h): "int16" for all, "layer1.*=int24:wrap" for layers whose
/// whole names match; the first match counts.
using AccumulatorChoice = std::vector<std::string>;

inline constexpr const char* kAccumulatorHelp =
    "accumulator of layers, simulated at each addition: int16, int24, ... with :saturate (default) or :wrap, "
    "fp16, bf16, fp22; of single layers by regular expressions, 'layer1.*=int16,int24'; none: exact sums";

/// Throws Error, beginning with `where`, on an invalid accumulator or regular expression.
void check_accumulators(const AccumulatorChoice& choice, const std::string& where);
/// The same on a pattern without a matching layer.
void check_accumulators(const AccumulatorChoice& choice, const Graph& graph, const std::string& where);

/// Sets the layers' accumulators. Layers that compute in float take no integers: a pattern that names only
/// such layers, or none, is an Error; others are left out and reported.
std::string set_accumulators(Graph& graph, const AccumulatorChoice& choice, const std::string& where);

/// Quantization of the first and last layer with weights.
enum class FirstLastLayers { kAsOthers, kEightBits, kFloat };
constexpr std::array<const char*, 3> enum_names(FirstLastLayers) {
  return {"as_others", "eight_bits", "float"};
}

struct StaticQuantizeOptions {
  OperandFormat weights;
  OperandFormat activations{{false, 8}};
  IntegerType elementwise{false, 8};
  NodeBits formats;
  NodeBits bits;
  bool symmetric_activations = false;
  Granularity weight_granularity = Granularity::kChannel;
  std::optional<int64_t> weight_group_size;
  Calibrator weight_calibrator = Calibrator::kMinMax;
  CalibrationOptions activation_calibration;
  int64_t num_samples = 1024;
  FirstLastLayers first_last_layers = FirstLastLayers::kAsOthers;
  std::vector<std::string> keep_float;
  Requantization requantization = Requantization::kFloat;
  AccumulatorChoice accumulator;
  bool report = true;

  /// The entries of `formats` and then of `bits`.
  NodeBits named() const;
  /// Whether a node may take quantized inputs, whose ranges samples have to show.
  bool quantizes_activations() const;
  /// Whether any weights or activations have fewer than 8 bits.
  bool is_below_eight_bits() const;

  static constexpr std::array kFormerNames = {FormerName{"edge_layers", "first_last_layers"}};
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("weights", self.weights,
          "format of weights; integers are symmetric; in block formats, layers that reduce over fewer than 8 "
          "channels take int8 unless named");
    visit("activations", self.activations,
          "format of inputs of layers with weights and of matrix products; unless integers, other nodes "
          "compute in float");
    visit("elementwise", self.elementwise,
          "format of inputs of additions, products, means, concatenations and functions, where wider than "
          "integer activations");
    visit("formats", self.formats,
          "formats of single nodes by regular expressions, weights/activations, "
          "'layer1.*=nvfp4/int8,fc=fp8_e4m3fn'; overrides bits");
    visit("bits", self.bits,
          "widths of single nodes by regular expressions, the first match counts: 'layer1.*=4' of weights, "
          "'fc=8/8' of weights and inputs, 'add=/12' of inputs; overrides first_last_layers");
    visit("symmetric_activations", self.symmetric_activations, "zero points of 0; for signed integers");
    visit("weight_granularity", self.weight_granularity,
          "weights that share a scale; grouped convolutions of more than one position compute in float, on "
          "quantized values");
    visit("weight_group_size", self.weight_group_size,
          "for weight_granularity = \"group\": weights of an output that share a scale", Between{1});
    visit("weight_calibrator", self.weight_calibrator, "how ranges of weights are chosen");
    CalibrationOptions::fields(self.activation_calibration, visit);
    visit("num_samples", self.num_samples, "calibration samples", Between{1, 1e12});
    visit("first_last_layers", self.first_last_layers,
          "first and last layer with weights, unless bits names them");
    visit("keep_float", self.keep_float, "regular expressions for nodes that stay in float");
    visit("requantization", self.requantization, "by a float32 multiplier, or by an integer and a shift");
    visit("accumulator", self.accumulator, kAccumulatorHelp);
    visit("report", self.report, "print the table of nodes and the histogram");
  }
  void check(const std::string& where) const;
  void check_graph(const Graph& graph, const EarlierPasses& earlier, const std::string& where) const;
};

}  // namespace detent
