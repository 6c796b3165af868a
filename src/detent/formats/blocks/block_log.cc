#include "detent/formats/blocks/block_log.h"

#include <algorithm>

namespace detent {

// The top element is 1, or the last that float32 has, so that float32 has the lowest one too.
int BlockLog::element_bias() const { return std::min(top_code(), 128); }

BlockElement BlockLog::elements() const { return Log{.width = width, .exponent_bias = element_bias()}; }

// Elements are powers of two, which float32 arithmetic rounds toward zero where it cannot hold them: half the
// smallest is a tie, and 0 is even.
BlockScales BlockLog::scales(const double* /*numbers*/) const {
  const double largest = double_power_of_two(top_code() - element_bias());
  BlockScales scales;
  for (int bias = 0; bias < 1 << exponent_bias_width; ++bias) {
    scales.push_back(power_of_two_scale(element_bias() - bias, largest, largest));
  }
  return scales;
}

int BlockLog::bias(int max_exponent) const {
  return std::clamp(top_code() - max_exponent, 0, (1 << exponent_bias_width) - 1);
}

BlockLogParameters BlockLog::parameters(const Group&, uint64_t /*seed*/) const {
  return BlockLogParameters(*this);
}

BlockLogParameters::BlockLogParameters(const BlockLog& format) : format_(format) {
  const int top = format.top_code();
  const int last_bias = (1 << format.exponent_bias_width) - 1;
  plain_blocks_ = {.exponent = {.round_up = true},
                   .lowest = PlainBlocks::held(top - last_bias),
                   .highest = PlainBlocks::held(top),
                   .first = PlainBlocks::bits_of(kShift),
                   .second = PlainBlocks::bits_of(kShift - top),
                   .code = top + 127,
                   .descends = true};
  const int last = std::min(last_bias, kLargestBias);
  const int first = std::max(0, top - kLargestExponent);
  if (first > last) return;
  plain_blocks_.set_exponents(last < last_bias ? top - last : MaxExponent::kLowest,
                              first > 0 ? top - first : MaxExponent::kHighest);
}

SharedScale BlockLogParameters::shared_scale(float max) const {
  constexpr double kSqrt2 = 1.41421356237309504880;
  const int bias = format_.bias(max > 0 ? plain_blocks_.exponent.of(max) : 0);
  const double smallest = double_power_of_two(-bias);
  const double largest = double_power_of_two(format_.top_code() - bias);
  constexpr double kShifted = 0x1p24;
  return {.shared = {hold(largest * kShifted), hold(smallest * kShifted), hold(largest), hold(smallest),
                     hold(kSqrt2 * largest)},
          .code = static_cast<uint8_t>(bias),
          .plain = is_plain(bias)};
}

}  // namespace detent
