#pragma once

#include <cmath>
#include <optional>

#include "detent/formats/blocks/block_format.h"

namespace detent {

/// Block floating point: M = width - 1 bits and a sign an element, one exponent a block: e = clamp(ceil(log2
/// max), -bias, 2^exponent_width - 1 - bias). Value m * 2^(e - M), 0 <= m < 2^M, rounded to nearest even,
/// saturating at (2^M - 1) * 2^(e - M). A largest value that float32 cannot hold is the next toward zero.
struct BlockFp : BlockFormatBase {
  static constexpr const char* kName = "block_fp";
  static constexpr const char* kHelp = "block floating point: integers that share an exponent";
  using Parameters = BlockGridParameters;
  static constexpr const char* kScaleStream = "exponents";

  int width = 8;
  int exponent_width = 8;
  std::optional<int> exponent_bias = std::nullopt;
  BlockSize block_size = {{16}};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits an element, sign included", Between{2, 24});
    visit("exponent_width", self.exponent_width, "bits of the shared exponent", Between{1, 8});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(exponent_width - 1) - 1",
          Between{-128, 255});
    visit("block_size", self.block_size, kBlockSizeHelp);
  }

  int bias() const { return exponent_bias.value_or((1 << (exponent_width - 1)) - 1); }
  double bits() const { return width; }
  int shared_bits() const { return exponent_width; }
  BlockSize blocks() const { return block_size; }
  void validate(const std::string&) const {}

  BlockGrid grid() const {
    return {.mantissa_bits = width - 2,
            .min_exponent = -1,
            .largest = 1 - std::ldexp(1.0, 1 - width),
            .offset = 0,
            .lowest = -bias(),
            .highest = (1 << exponent_width) - 1 - bias(),
            .round_up = true};
  }
  /// Sign and magnitude, of m / 2^M. That is a minifloat with one exponent bit: its two binades have the same
  /// step.
  BlockElement elements() const {
    return MinifloatIeee{.width = width, .exponent_width = 1, .exponent_bias = 2};
  }
  /// e + bias.
  BlockScales scales(const double* /*numbers*/) const { return grid_scales(grid()); }
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return Parameters(grid()); }

  bool operator==(const BlockFp&) const = default;
};

}  // namespace detent
