#pragma once

#include "detent/formats/block_format.h"

namespace detent {

/// What the kernel needs. Shared are: the largest and the smallest magnitude, the value of 0, the largest
/// input that does not saturate.
struct BlockLogParameters {
  static constexpr bool kByBlocks = true;
  BlockTable table;
  PlainBits plain_bits;

  [[gnu::always_inline]] const BlockEntry& entry(float max) const { return table.of(max); }
  /// Whether the magnitudes of a block with these values are all powers of two that are normal in float32.
  [[gnu::always_inline]] static bool is_plain(const BlockShared& shared) {
    return shared[1] >= power_of_two(-126) && shared[0] <= power_of_two(127);
  }
};

/// Powers of two +-2^e with a shared bias = clamp(2^(width-1) - 1 - ceil(log2 max), 0, 2^exponent_bias_width
/// - 1): -bias <= e <= 2^(width-1) - 1 - bias, rounded in the log domain: 2^k * m with 1 <= m < 2 goes up
/// when m > sqrt(2). No zero: it becomes +2^-bias; a block without a finite non-zero
/// element has the bias of max = 1. A
/// power that float32 cannot hold is the next float32 toward zero.
struct BlockLog : BlockFormatBase {
  static constexpr const char* kName = "block_log";
  static constexpr const char* kHelp = "powers of two that share an exponent bias";
  using Parameters = BlockLogParameters;

  int width = 8;
  int exponent_bias_width = 8;
  BlockSize block_size = {{16}};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits an element: sign and exponent", Between{2, 9});
    visit("exponent_bias_width", self.exponent_bias_width, "bits of the shared exponent bias", Between{1, 8});
    visit("block_size", self.block_size, kBlockSizeHelp);
  }

  double bits() const { return width; }
  int shared_bits() const { return exponent_bias_width; }
  BlockSize blocks() const { return block_size; }
  void validate(const std::string&) const {}

  /// Of a block with ceil(log2 max) = max_exponent.
  int bias(int max_exponent) const {
    return std::clamp(top_code() - max_exponent, 0, (1 << exponent_bias_width) - 1);
  }
  int top_code() const { return (1 << (width - 1)) - 1; }

  Parameters parameters(const Group&, uint64_t /*seed*/) const {
    constexpr double kSqrt2 = 1.41421356237309504880;
    const auto entry = [&](int max_exponent) -> BlockEntry {
      const int bias = this->bias(max_exponent);
      const float smallest = hold(double_power_of_two(-bias));
      const double largest = double_power_of_two(top_code() - bias);
      return {{hold(largest), smallest, hold(kSqrt2 * largest)}, static_cast<uint8_t>(bias)};
    };
    BlockTable table(true, entry);
    table.set_empty(entry(0));
    table.set_plain([](const BlockShared& shared) { return Parameters::is_plain(shared); });
    const int lowest_exponent = top_code() - ((1 << exponent_bias_width) - 1);
    return {table,
            {.lowest = PlainBits::held(lowest_exponent),
             .highest = PlainBits::held(top_code()),
             .first = 0,
             .second = PlainBits::exponent(-top_code())}};
  }

  bool operator==(const BlockLog&) const = default;
};

}  // namespace detent
