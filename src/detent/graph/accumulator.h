#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace detent {

struct Node;

/// Accumulator in which hardware adds the products of a layer, one after the other, where it is neither
/// 32-bit integers that hold every sum nor float32 in whatever order is fast: integers of two's complement,
/// whose sums are cut off at the ends or wrap around, at each step; or floats, to which each sum is rounded,
/// to nearest with ties to even, and cut off at the largest one. Floats are those of IEEE 754: with subnormal
/// numbers, and the largest exponent left to infinities.
///
/// The sum begins at 0. Products are exact, and come in the order of the layer's inputs: channel after
/// channel of its group, in each the positions of the window with the last dimension fastest, which is the
/// order of the weights of an output. The bias is added to what is in the accumulator in the end, in 32 bits.
struct Accumulator {
  enum class Overflow { kSaturate, kWrap };

  int width = 32;         // with the sign
  int exponent_bits = 0;  // none: integers
  Overflow overflow = Overflow::kSaturate;

  bool operator==(const Accumulator&) const = default;

  bool is_float() const { return exponent_bits > 0; }
  /// Behind the leading one.
  int fraction_bits() const { return width - 1 - exponent_bits; }
  /// The largest float.
  double largest() const;
  /// The smallest float that is no subnormal number.
  double least_normal() const;
  /// Whether it holds every integer from -magnitude to magnitude.
  bool holds(int64_t magnitude) const;
  /// As `parse` reads it: "int16", "int16:wrap", "fp22", "fp_e5m6".
  std::string text() const;

  /// Throws Error that says what there is.
  static Accumulator parse(std::string_view text);
};

/// Which attribute of a node has it; absent where sums are exact. Any layer with weights may have it,
/// whatever attributes its operator declares.
inline constexpr std::string_view kAccumulatorAttribute = "accumulator";

/// That of the node, which `verify` has seen.
std::optional<Accumulator> accumulator_of(const Node& node);
void set_accumulator(Node& node, const Accumulator& accumulator);
/// Throws Error naming the node where its attribute is none.
void verify_accumulator(const Node& node);

}  // namespace detent
