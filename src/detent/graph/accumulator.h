#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace detent {

struct Node;

/// Accumulator of a layer's products in hardware, if not exact 32-bit integers or float32 in any order: two's
/// complement integers that saturate or wrap at each step; or floats, to which each sum is rounded to nearest
/// even, saturating. Floats follow IEEE 754: with subnormal numbers, and the largest exponent reserved for
/// infinities.
///
/// The sum begins at 0. Products are exact and come in the order of the layer's inputs: channel by channel of
/// its group, in each the window with the last dimension fastest, which is the order of an output's weights.
/// The bias is added last, in 32 bits.
struct Accumulator {
  enum class Overflow { kSaturate, kWrap };

  int width = 32;         // with the sign
  int exponent_bits = 0;  // none: integers
  Overflow overflow = Overflow::kSaturate;

  bool operator==(const Accumulator&) const = default;

  bool is_float() const { return exponent_bits > 0; }
  /// After the leading one.
  int fraction_bits() const { return width - 1 - exponent_bits; }
  /// The largest finite value.
  double largest() const;
  /// The smallest normal value.
  double least_normal() const;
  /// Whether it holds every integer from -magnitude to magnitude.
  bool holds(int64_t magnitude) const;
  /// As `parse` reads it: "int16", "int16:wrap", "fp22", "fp_e5m6".
  std::string text() const;

  /// Throws Error that lists the choices.
  static Accumulator parse(std::string_view text);
};

/// Name of the attribute; absent if sums are exact. Any layer with weights may have it, whatever its operator
/// declares.
inline constexpr std::string_view kAccumulatorAttribute = "accumulator";

/// The accumulator of a verified node.
std::optional<Accumulator> accumulator_of(const Node& node);
void set_accumulator(Node& node, const Accumulator& accumulator);
/// Throws Error naming the node if its attribute is invalid.
void verify_accumulator(const Node& node);

}  // namespace detent
