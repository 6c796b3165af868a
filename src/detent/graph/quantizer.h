#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/parameter.h"

namespace detent {

/// What operands are rounded to: a format, what shares its parameters, the gradient, and the parameters. Each
/// of these (scale, zero point, threshold, ...) is one of three things:
///   given    a field of the format says what it is;
///   derived  the field is empty: it follows from the data, at every run anew;
///   owned    a tensor of the network, trained or fixed, which stands in for the field of its name.
/// Copies refer to the same owned parameters; those of a Graph have their own.
struct Quantizer {
  QuantSpec spec;
  /// Those that are owned, by the name of the field: "scale".
  std::vector<std::pair<std::string, ParameterRef>> parameters;

  Quantizer() = default;
  Quantizer(QuantSpec of) : spec(std::move(of)) {}

  const Parameter* find_parameter(std::string_view name) const;
  Parameter* find_parameter(std::string_view name);

  /// With what it rounds: a spec that gives the values of the owned parameters, the rest as `spec` says.
  /// Whoever executes, packs, exports or checks a quantizer asks here. nullopt where no format has the values
  /// (fixed point that rounds down, or of 1 bit, or more than 24, with a scale that is no power of two).
  /// Throws Error where an owned parameter has no legal value.
  std::optional<QuantSpec> rounding() const;

  /// Equal values: whether parameters are shared does not matter.
  bool operator==(const Quantizer& other) const;
};

/// What an operand is rounded to. A value that is rounded where it is computed and where it is read has one
/// quantizer, to which all these operands refer.
using QuantizerRef = SharedRef<Quantizer>;

/// Names of the parameters that quantizers with this spec own.
std::vector<std::string> owned_parameters(const QuantSpec& spec);

/// "weight_scale": what an owned parameter is called beside the parameters of the node whose operand this is.
std::string owned_parameter_name(std::string_view operand, std::string_view parameter);

/// The values that the quantizer makes of `input`, as formats/quant_spec.h says.
Tensor fake_quantize(const Quantizer& quantizer, const Tensor& input, uint64_t seed = 0);

}  // namespace detent
