#pragma once

#include <algorithm>
#include <cmath>

#include "detent/formats/blocks/block_format.h"

namespace detent {

/// minifloat_ieee elements (E = exponent_width) whose exponent bias is the block's: clamp(2^E - 1 -
/// floor(log2 max), 0, 2^exponent_bias_width - 1), so that the largest element lies in the top binade (Fox et
/// al. 2021, "A Block Minifloat Representation for Training Deep Neural Networks"). No infinity, no NaN;
/// saturates, ties to even. A largest value that float32 cannot hold is the next toward zero.
struct BlockMinifloat : BlockFormatBase {
  static constexpr const char* kName = "block_minifloat";
  static constexpr const char* kHelp = "minifloats that share an exponent bias";
  using Parameters = BlockGridParameters;
  static constexpr const char* kScaleStream = "biases";

  int width = 8;
  int exponent_width = 4;
  int exponent_bias_width = 8;
  BlockSize block_size = {{16}};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits an element: sign, exponent, mantissa", Between{2, 31});
    visit("exponent_width", self.exponent_width, "bits of an element's exponent", Between{1, 8});
    visit("exponent_bias_width", self.exponent_bias_width, "bits of the shared exponent bias", Between{1, 8});
    visit("block_size", self.block_size, kBlockSizeHelp);
  }

  int mantissa_bits() const { return width - 1 - exponent_width; }
  double bits() const { return width; }
  int shared_bits() const { return exponent_bias_width; }
  BlockSize blocks() const { return block_size; }
  void validate(const std::string& where) const { check_mantissa_bits(width, exponent_width, 0, 22, where); }

  /// As in minifloat_ieee.
  BlockElement elements() const {
    return MinifloatIeee{.width = width, .exponent_width = exponent_width, .exponent_bias = element_bias()};
  }
  /// Biases as they are.
  BlockScales scales(const double* /*numbers*/) const {
    return grid_scales(grid(), top_code() - element_bias());
  }

  /// 2^k is the top binade, k = 2^E - 1 - bias.
  BlockGrid grid() const {
    return {.mantissa_bits = mantissa_bits(),
            .min_exponent = 1 - top_code(),
            .largest = 2 - std::ldexp(1.0, -mantissa_bits()),
            .offset = 0,
            .lowest = top_code() - ((1 << exponent_bias_width) - 1),
            .highest = top_code(),
            .round_up = false,
            .codes_descend = true};
  }
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return Parameters(grid()); }

  bool operator==(const BlockMinifloat&) const = default;

 private:
  int top_code() const { return (1 << exponent_width) - 1; }
  /// The top binade is 1, or the last that float32 has, so that float32 has the lowest one too.
  int element_bias() const { return std::min(top_code(), 128); }
};

}  // namespace detent
