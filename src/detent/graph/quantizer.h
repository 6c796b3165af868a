#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/rounding.h"
#include "detent/formats/threshold.h"
#include "detent/graph/parameter.h"

namespace detent {

/// How training folds the following batch norm into a layer's weights, so that it rounds the weights of
/// inference: weight * gamma / sigma, per channel. Up to rounding, the result is that of batch norm with the
/// batch's statistics.
enum class NormFolding {
  kNo,
  kBatch,      // sigma of the batch (Jacob et al. 2018, arXiv:1712.05877, section 3.2)
  kCorrected,  // the running sigma, and sums are multiplied by running / batch sigma: weights do not change
               // their codes with every batch (Krishnamoorthi 2018, arXiv:1806.08342, section 3.2.2)
};
constexpr std::array<const char*, 3> enum_names(NormFolding) { return {"no", "batch", "corrected"}; }

/// In its first `steps` steps training rounds with a statistic of each step's values; scale and zero point
/// become their averages.
struct ScaleObserver {
  Threshold statistic = Threshold::kMax;
  float argument = 0;  // percentile or sigma, of some statistics
  float momentum = 0;  // share of a new step in the average; 0: all steps alike
  int64_t steps = 0;
  int64_t done = 0;  // of these steps, in a network that was saved in between

  bool is_observing() const { return done < steps; }
  bool operator==(const ScaleObserver&) const = default;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("statistic", self.statistic, "of a step's values: what the largest code stands for");
    visit("argument", self.argument, "percentile or sigma, of some statistics");
    visit("momentum", self.momentum, "share of a step in the average; 0: all steps alike");
    visit("steps", self.steps, "of training that observe");
    visit("done", self.done, "of these");
  }
};

/// Rounding of operands: format, granularity, gradient, and parameters. Each of these (scale, zero point,
/// threshold, ...) is one of three things:
///   given    a field of the format says what it is;
///   derived  the field is empty: it follows from the data, at every run anew;
///   owned    a tensor of the network, trained or fixed, which stands in for the field of its name.
/// Copies share owned parameters; those of a Graph have their own.
struct Quantizer {
  QuantSpec spec;
  Rounding rounding = Rounding::kNearest;       // of integers with a learned scale
  NormFolding norm_folding = NormFolding::kNo;  // of the weights of a layer
  std::optional<ScaleObserver> observer;        // of a learned scale
  /// Owned parameters by field: "scale".
  std::vector<std::pair<std::string, ParameterRef>> parameters;

  Quantizer() = default;
  Quantizer(QuantSpec of) : spec(std::move(of)) {}

  const Parameter* find_parameter(std::string_view name) const;
  Parameter* find_parameter(std::string_view name);

  /// Whether `spec` is complete.
  bool is_spec_alone() const {
    return parameters.empty() && rounding == Rounding::kNearest && norm_folding == NormFolding::kNo;
  }
  /// The complete spec, with the values of owned parameters, for execution, packing, export and checks.
  /// nullopt where no format has the values (fixed point that rounds down, or of 1 bit, or more than 24, with
  /// a scale that is no power of two). Throws Error if an owned parameter has no legal value.
  std::optional<QuantSpec> effective_spec() const;

  /// Compares values, not identity of parameters.
  bool operator==(const Quantizer& other) const;
};

/// Quantizer of an operand, shared by producer and consumers of a value.
using QuantizerRef = SharedRef<Quantizer>;

/// Names of the owned parameters of this spec.
std::vector<std::string> owned_parameters(const QuantSpec& spec);

/// "weight_scale": what an owned parameter is called beside the parameters of the node whose operand this is.
std::string owned_parameter_name(std::string_view operand, std::string_view parameter);

/// Rounds `input` as in formats/quant_spec.h.
Tensor fake_quantize(const Quantizer& quantizer, const Tensor& input, uint64_t seed = 0);

}  // namespace detent
