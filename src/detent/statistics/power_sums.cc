#include "detent/statistics/power_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "detent/statistics/window_sums.h"

namespace detent {
namespace {

/// A finite float32 is m * 2^(shift - 149) with m < 2^24.
struct Parts {
  explicit Parts(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t exponent = bits >> 23 & 0xFFU;
    mantissa = (bits & 0x7FFFFFU) | (exponent != 0 ? 0x800000U : 0U);
    shift = std::max(exponent, 1U) - 1;
    negative = bits >> 31 != 0;
  }
  uint64_t mantissa;
  unsigned shift;
  bool negative;
};

template <size_t kWords>
Float128 difference(const WideInteger<kWords>& positive, const WideInteger<kWords>& negative, int power) {
  return positive < negative ? -negative.minus(positive).scaled(power)
                             : positive.minus(negative).scaled(power);
}

void add_power(const Parts& parts, PowerSums& sums) {
  sums.values.add(parts.mantissa, parts.shift, parts.negative);
  sums.squares.add(parts.mantissa * parts.mantissa, 2 * parts.shift);
}

void add_higher_powers(const Parts& parts, HigherPowerSums& sums) {
  const UInt128 square = static_cast<UInt128>(parts.mantissa) * parts.mantissa;
  (parts.negative ? sums.negative_cubes : sums.positive_cubes)
      .add_sum(square * parts.mantissa, 3 * parts.shift);
  sums.fourths.add_sum(square * square, 4 * parts.shift);
}

void add_window(const WindowSums& window, unsigned shift, bool negative, PowerSums& sums) {
  sums.values.add(window.n, shift, negative);
  sums.squares.add_sum(window.squares, 2 * shift);
}

void add_window(const WindowSums& window, unsigned shift, bool negative, HigherPowerSums& sums) {
  auto& cubes = negative ? sums.negative_cubes : sums.positive_cubes;
  cubes.add_sum(window.an, 3 * shift + 28);
  cubes.add_sum(window.bn, 3 * shift);
  sums.fourths.add_sum(window.aa, 4 * shift + 56);
  sums.fourths.add_sum(window.ab, 4 * shift + 29);
  sums.fourths.add_sum(window.bb, 4 * shift);
}

}  // namespace

void ExactSum::add(float value) {
  const Parts parts(value);
  add(parts.mantissa, parts.shift, parts.negative);
}

void ExactSum::merge(const ExactSum& other) {
  positive_.merge(other.positive_);
  negative_.merge(other.negative_);
}

Float128 ExactSum::value() const { return difference(positive_, negative_, 1); }

Float128 ExactSum::magnitudes() const {
  auto sum = positive_;
  sum.merge(negative_);
  return sum.scaled(1);
}

void ExactSum::write(StateWriter& writer) const {
  positive_.write(writer);
  negative_.write(writer);
}

void ExactSum::read(StateReader& reader) {
  positive_.read(reader);
  negative_.read(reader);
}

void PowerSums::merge(const PowerSums& other) {
  values.merge(other.values);
  squares.merge(other.squares);
}

void PowerSums::write(StateWriter& writer) const {
  values.write(writer);
  squares.write(writer);
}

void PowerSums::read(StateReader& reader) {
  values.read(reader);
  squares.read(reader);
}

Float128 HigherPowerSums::cube_sum() const { return difference(positive_cubes, negative_cubes, 3); }

void HigherPowerSums::merge(const HigherPowerSums& other) {
  positive_cubes.merge(other.positive_cubes);
  negative_cubes.merge(other.negative_cubes);
  fourths.merge(other.fourths);
}

void HigherPowerSums::write(StateWriter& writer) const {
  positive_cubes.write(writer);
  negative_cubes.write(writer);
  fourths.write(writer);
}

void HigherPowerSums::read(StateReader& reader) {
  positive_cubes.read(reader);
  negative_cubes.read(reader);
  fourths.read(reader);
}

void PowerAdder::add(const FiniteChunk& chunk, std::span<const PowerTarget> targets, KeyCounter* counter,
                     std::span<const float> next) {
  // A handful of values is not worth a window.
  constexpr size_t kHandful = 8;
  if (chunk.values.empty()) return;
  const bool negative = std::signbit(chunk.values.front());
  const bool higher = targets.front().higher != nullptr;
  std::span<const float> left = chunk.values;
  uint32_t largest = chunk.magnitudes.most >> 23;
  while (left.size() > kHandful && largest > 0) {
    const uint32_t exponent = std::max(largest, kWindowExponents) - (kWindowExponents - 1);
    SideWork side_work{.next = std::exchange(next, {})};
    if (counter != nullptr) std::exchange(counter, nullptr)->expect(chunk, side_work);
    const WindowSums window = sum_window(left, exponent, higher, rest_.data(), side_work);
    for (const PowerTarget& target : targets) {
      add_window(window, exponent - 1, negative, *target.sums);
      if (higher) add_window(window, exponent - 1, negative, *target.higher);
    }
    left = std::span<const float>(rest_).first(window.rest);
    largest = window.rest_bits >> 23;
  }
  if (counter != nullptr) counter->add(chunk);  // there was no window
  for (const float value : left) {
    const Parts parts(value);
    for (const PowerTarget& target : targets) {
      add_power(parts, *target.sums);
      if (higher) add_higher_powers(parts, *target.higher);
    }
  }
}

}  // namespace detent
