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

void add_window(const ExponentWindowSums& window, unsigned shift, bool negative, PowerSums& sums) {
  sums.values.add(window.n, shift, negative);
  sums.squares.add_sum(window.squares, 2 * shift);
}

void add_window(const ExponentWindowSums& window, unsigned shift, bool negative, HigherPowerSums& sums) {
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

Float128 ExactSum::magnitudes() const { return units(true).scaled(1); }

WideInteger<6> ExactSum::units(bool abs) const {
  if (!abs) return is_negative() ? negative_.minus(positive_) : positive_.minus(negative_);
  auto sum = positive_;
  sum.merge(negative_);
  return sum;
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

WideInteger<12> PowerSums::spread(int64_t n, bool abs) const {
  const WideInteger<6> sum = values.units(abs);
  const WideInteger<1> count(static_cast<uint64_t>(n));
  return count.times<12>(squares).minus(sum.times<12>(sum));  // >= 0 by Cauchy and Schwarz
}

double PowerSums::variance(int64_t n, bool abs) const {
  if (n == 0) return 0;
  const auto count = static_cast<Float128>(n);
  return static_cast<double>(spread(n, abs).scaled(2) / (count * count));
}

Float128 HigherPowerSums::cube_sum() const { return difference(positive_cubes, negative_cubes, 3); }

// With S_k the sums of powers, n^3 sum (x - mean)^4 = n^3 S4 - 4 n^2 S1 S3 + 6 n S1^2 S2 - 3 S1^4, and
// kurtosis = that / (n S2 - S1^2)^2. All terms are below 2^1400.
double HigherPowerSums::kurtosis(const PowerSums& lower, int64_t n) const {
  constexpr size_t kTerm = 24;
  const WideInteger<12> spread = lower.spread(n, false);
  if (!(WideInteger<12>() < spread)) return 0;
  const WideInteger<1> count(static_cast<uint64_t>(n));
  const auto scaled = [&](const auto& sum, uint64_t factor, int counts) {
    auto term = WideInteger<1>(factor).times<kTerm>(sum);
    for (; counts > 0; --counts) term = count.times<kTerm>(term);
    return term;
  };
  const WideInteger<6> sum = lower.values.units(false);
  const auto square = sum.times<kTerm>(sum);
  const bool cubes_are_negative = positive_cubes < negative_cubes;
  const auto cubes =
      cubes_are_negative ? negative_cubes.minus(positive_cubes) : positive_cubes.minus(negative_cubes);
  auto above = scaled(fourths, 1, 3);
  above.merge(scaled(square.times<kTerm>(lower.squares), 6, 1));
  auto below = scaled(square.times<kTerm>(square), 3, 0);
  const bool product_is_negative = cubes_are_negative != lower.values.is_negative();
  (product_is_negative ? above : below).merge(scaled(cubes.times<kTerm>(sum), 4, 2));
  const Float128 squared = spread.scaled(0);
  return static_cast<double>(above.minus(below).scaled(0) / (squared * squared));
}

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
    const ExponentWindowSums window = sum_window(left, exponent, higher, rest_.data(), side_work);
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
