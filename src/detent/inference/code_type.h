#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Meaning of a tensor's codes: value = (code - zero_point) * scale, low <= code <= high. An affine format
/// (formats/elements/affine.h) of at most 16 bits with one scale, or signs.
struct CodeType {
  float scale = 1;
  int32_t zero_point = 0;
  int32_t low = 0;
  int32_t high = 0;
  bool is_sign = false;  // `low` is the code of all below 0, `high` that of all others

  bool operator==(const CodeType&) const = default;

  /// Number of codes.
  int32_t size() const { return high - low + 1; }
  float value(int32_t code) const { return static_cast<float>(code - zero_point) * scale; }
  /// The code `steps` scales from the zero point: ties to even, clamped. NaN has none and gives the zero
  /// point.
  int32_t at(float steps) const {
    const auto least = static_cast<float>(low - zero_point);
    const auto most = static_cast<float>(high - zero_point);
    const float number = steps == steps ? steps : 0;
    if (is_sign) return number < 0 ? low : high;
    const float below = number < most ? number : most;
    const float held = below > least ? below : least;
    // These 24 bits leave none for a fraction.
    constexpr float kWhole = 0x1.8p23F;
    return static_cast<int32_t>((held + kWhole) - kWhole) + zero_point;
  }
  /// The nearest code, the one that encode() of the format finds.
  int32_t code(float x) const { return at(x / scale); }
  /// Clamps a number of steps computed in integers.
  int32_t at(int64_t steps) const {
    if (is_sign) return steps < 0 ? low : high;
    return static_cast<int32_t>(std::clamp<int64_t>(steps + zero_point, low, high));
  }
  /// The type extended by 0, which signs lack.
  CodeType with_zero() const {
    CodeType type = *this;
    type.is_sign = false;
    return type;
  }
};

/// For each scale of what a quantizer rounds with (`Node::rounding`) what its codes mean; empty unless that
/// is an affine format of at most 16 bits whose scales do not depend on the data, with finite values.
std::vector<CodeType> code_types(const QuantSpec& rounding);

/// The type of an operand; nullopt if it is not quantized, has no such codes, or several scales.
std::optional<CodeType> operand_code_type(const Node& node, std::string_view operand);

/// Types of integer execution: the same, and signs of `binary` without a scale.
std::vector<CodeType> executed_types(const QuantSpec& rounding);
std::optional<CodeType> executed_type(const Node& node, std::string_view operand);

}  // namespace detent
