#include "detent/formats/blocks/block_scale.h"

#include <algorithm>
#include <limits>

namespace detent {

int MaxExponent::of(float max) const {
  const auto bits = std::bit_cast<uint32_t>(max);
  const bool normal = bits > static_cast<uint32_t>(kFraction);
  const int floor =
      normal ? static_cast<int>(bits >> 23) - 127 : static_cast<int>(std::bit_width(bits)) - 150;
  const bool power = normal ? (bits & kFraction) == 0 : std::has_single_bit(bits);
  return floor + (round_up && !power ? 1 : 0);
}

int BlockGrid::highest_plain() const {
  const int top = std::max(std::ilogb(largest), min_exponent);
  return std::min(103 - top, 79 - min_exponent + mantissa_bits);
}

float hold(double value) {
  return round_down(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
}

SaturationEdge::SaturationEdge(const BlockGrid& grid) {
  const int exponent = std::max(std::ilogb(grid.largest), grid.min_exponent);
  const double step = std::ldexp(1.0, exponent - grid.mantissa_bits);
  edge_ = grid.largest + step / 2;
  tie_leaves_ = std::fmod(grid.largest / step, 2.0) != 0.0;
}

float SaturationEdge::last_held(double scale) const {
  const double edge = edge_ * scale;
  const float below = hold(edge);
  const bool leaves = tie_leaves_ && below > 0 && static_cast<double>(below) == edge;
  return leaves ? std::bit_cast<float>(std::bit_cast<uint32_t>(below) - 1) : below;
}

BlockGridParameters::BlockGridParameters(const BlockGrid& grid)
    : grid_(grid), edge_(grid), lowest_plain_(grid.lowest_plain()), highest_plain_(grid.highest_plain()) {
  const auto& [mantissa_bits, min_exponent, largest, offset, lowest, highest, round_up, descends, one_zero] =
      grid;
  plain_blocks_ = {
      .exponent = {round_up},
      .lowest = PlainBlocks::held(lowest - offset),
      .highest = PlainBlocks::held(highest - offset),
      .first = std::bit_cast<int32_t>(static_cast<float>(largest)) + PlainBlocks::bits_of(offset - 127),
      .second = PlainBlocks::bits_of(offset + min_exponent - mantissa_bits + 23),
      .code = descends ? highest + 127 - offset : offset - 127 - lowest,
      .descends = descends};
  if (lowest > highest_plain_ || highest < lowest_plain_) return;
  plain_blocks_.set_exponents(lowest < lowest_plain_ ? lowest_plain_ - offset : MaxExponent::kLowest,
                              highest > highest_plain_ ? highest_plain_ - offset : MaxExponent::kHighest);
}

SharedScale BlockGridParameters::shared_scale(float max) const {
  const float counted = max > 0 ? max : std::numeric_limits<float>::max();
  const int k = grid_.scale_exponent(plain_blocks_.exponent.of(counted));
  const int step = k + grid_.min_exponent - grid_.mantissa_bits;
  const auto addend = [&](int shift) { return power_of_two(std::clamp(step + shift + 23, -126, 126)); };
  const double scale = double_power_of_two(k);
  return {.shared = {hold(grid_.largest * scale), addend(0), addend(23), addend(-41), edge_.last_held(scale)},
          .code = grid_.scale_code(k),
          .plain = lowest_plain_ <= k && k <= highest_plain_};
}

float BlockScale::element_of(float value) const {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float magnitude = std::fabs(value);
  const double exact = magnitude >= kLargest ? 0x1p128 : static_cast<double>(magnitude);
  return std::copysign(static_cast<float>(exact / factor), value);
}

float BlockScale::value_of(float element) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!std::isfinite(element)) return element;
  const double held = std::clamp(static_cast<double>(element) * factor, -kLargest, kLargest);
  return toward_zero ? round_toward_zero(held) : static_cast<float>(held);
}

BlockScale power_of_two_scale(int exponent, double step, double largest) {
  constexpr int kFloatExponents = 127;  // in both directions, if as a subnormal
  const double factor = double_power_of_two(exponent);
  const bool in_float = std::abs(exponent) <= kFloatExponents &&
                        largest * factor <= static_cast<double>(std::numeric_limits<float>::max());
  BlockScale scale{
      .factor = factor, .plain_element = in_float, .plain_value = in_float && step * factor >= 0x1p-149};
  if (in_float) {
    scale.to_element = static_cast<float>(1 / factor);
    scale.to_value = static_cast<float>(factor);
  }
  return scale;
}

BlockScales grid_scales(const BlockGrid& grid, int shift) {
  const double step = double_power_of_two(grid.min_exponent - grid.mantissa_bits + shift);
  const double largest = grid.largest * double_power_of_two(shift);
  BlockScales scales;
  for (int code = 0; code <= grid.highest - grid.lowest; ++code) {
    scales.push_back(power_of_two_scale(grid.exponent_of_code(code) - shift, step, largest));
  }
  return scales;
}

}  // namespace detent
