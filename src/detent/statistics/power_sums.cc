#include "detent/statistics/power_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "detent/statistics/window_sums.h"

namespace detent {
namespace {

constexpr size_t kBins = 512;  // one for each sign and exponent field

/// A finite float32 is m * 2^(shift - 149) with m < 2^24; the sign and exponent field number its bin.
struct Parts {
  explicit Parts(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    bin = bits >> 23;
    mantissa = (bits & 0x7FFFFFU) | ((bin & 0xFFU) != 0 ? 0x800000U : 0U);
  }
  uint64_t mantissa;
  uint32_t bin;
};

unsigned shift_of(size_t bin) { return std::max<unsigned>(bin & 0xFFU, 1) - 1; }
bool is_negative(size_t bin) { return bin >= kBins / 2; }

template <size_t kWords>
Float128 difference(const WideInteger<kWords>& positive, const WideInteger<kWords>& negative, int power) {
  return positive < negative ? -negative.minus(positive).scaled(power)
                             : positive.minus(negative).scaled(power);
}

/// Of a chunk of 2^12: below 2^36 and 2^60.
struct TwoSums {
  uint64_t first = 0;
  uint64_t second = 0;
};

/// With m^2 = a 2^24 + b: m^3 = am 2^24 + bm and m^4 = aa 2^48 + 2 ab 2^24 + bb, all terms below 2^48.
struct FourSums {
  uint64_t first = 0;
  uint64_t second = 0;
  uint64_t am = 0, bm = 0, aa = 0, ab = 0, bb = 0;
};

}  // namespace

void ExactSum::add(float value) {
  const Parts parts(value);
  add(parts.mantissa, shift_of(parts.bin), is_negative(parts.bin));
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

struct PowerAdder::Bins {
  // Neighbours take turns, so that an addition need not wait for the one before it.
  std::array<std::array<TwoSums, kBins>, 2> two;
  std::array<FourSums, kBins> four;
  ChunkBuffer rest;
};

PowerAdder::PowerAdder() : bins_(std::make_unique<Bins>()) {}
PowerAdder::~PowerAdder() = default;

namespace {

void add_two(TwoSums* bins, float value) {
  const Parts parts(value);
  bins[parts.bin].first += parts.mantissa;
  bins[parts.bin].second += parts.mantissa * parts.mantissa;
}

void add_four(FourSums* bins, float value) {
  const Parts parts(value);
  const uint64_t m = parts.mantissa;
  const uint64_t square = m * m;
  const uint64_t a = square >> 24;
  const uint64_t b = square & 0xFFFFFFU;
  FourSums& bin = bins[parts.bin];
  bin.first += m;
  bin.second += square;
  bin.am += a * m;
  bin.bm += b * m;
  bin.aa += a * a;
  bin.ab += a * b;
  bin.bb += b * b;
}

/// Calls `action(bin)` for the bins that the chunk may have used.
template <class Action>
void for_bins(const FiniteChunk& chunk, Action action) {
  for (size_t sign = 0; sign < kBins; sign += kBins / 2) {
    for (size_t bin = chunk.min_magnitude >> 23; bin <= chunk.max_magnitude >> 23; ++bin) action(sign + bin);
  }
}

}  // namespace

FiniteChunk PowerAdder::add_window(const FiniteChunk& chunk, PowerSums& sums) {
  const uint32_t top = chunk.max_magnitude >> 23;
  const uint32_t bottom = top > kWindowExponents ? top - (kWindowExponents - 1) : 1;
  const uint32_t lowest = bottom << 23;
  float* rest = bins_->rest.data();
  const WindowSums window = sum_window(chunk.values, std::bit_cast<float>(lowest), rest);
  // The units of the window's sums, 2^unit, and how far they are above those of `sums`: 2^-149 and 2^-298.
  const auto b = static_cast<int>(bottom) - 127;
  const auto integer = [](double sum, int unit) { return static_cast<uint64_t>(std::ldexp(sum, -unit)); };
  const auto add_squares = [&](double sum, int unit, int factor_bits) {
    sums.squares.add(integer(sum, unit), static_cast<unsigned>(unit + factor_bits + 298));
  };
  for (const bool negative : {false, true}) {
    const double twice = negative ? window.magnitudes - window.values : window.magnitudes + window.values;
    sums.values.add(integer(twice / 2, b - 23), static_cast<unsigned>(b - 23 + 149), negative);
  }
  add_squares(window.high_squares, 2 * b - 22, 0);
  add_squares(window.products, 2 * b - 34, 1);
  add_squares(window.low_squares, 2 * b - 46, 0);
  return {{rest, window.rest}, chunk.min_magnitude, std::min(chunk.max_magnitude, lowest - 1)};
}

void PowerAdder::add(const FiniteChunk& all, PowerSums& sums) {
  // A handful of values is not worth a window.
  const FiniteChunk chunk = all.values.size() < 32 ? all : add_window(all, sums);
  auto& bins = bins_->two;
  size_t i = 0;
  for (; i + 2 <= chunk.values.size(); i += 2) {
    add_two(bins[0].data(), chunk.values[i]);
    add_two(bins[1].data(), chunk.values[i + 1]);
  }
  if (i < chunk.values.size()) add_two(bins[0].data(), chunk.values[i]);
  if (chunk.values.empty()) return;
  for_bins(chunk, [&](size_t bin) {
    const uint64_t first = bins[0][bin].first + bins[1][bin].first;
    if (first == 0) return;
    sums.values.add(first, shift_of(bin), is_negative(bin));
    sums.squares.add(bins[0][bin].second + bins[1][bin].second, 2 * shift_of(bin));
    bins[0][bin] = bins[1][bin] = {};
  });
}

void PowerAdder::add(const FiniteChunk& chunk, PowerSums& sums, HigherPowerSums& higher) {
  for (const float value : chunk.values) add_four(bins_->four.data(), value);
  if (chunk.values.empty()) return;
  for_bins(chunk, [&](size_t bin) {
    FourSums& of = bins_->four[bin];
    if (of.first == 0) return;
    const unsigned shift = shift_of(bin);
    sums.values.add(of.first, shift, is_negative(bin));
    sums.squares.add(of.second, 2 * shift);
    auto& cubes = is_negative(bin) ? higher.negative_cubes : higher.positive_cubes;
    cubes.add(of.am, 3 * shift + 24);
    cubes.add(of.bm, 3 * shift);
    higher.fourths.add(of.aa, 4 * shift + 48);
    higher.fourths.add(of.ab, 4 * shift + 25);
    higher.fourths.add(of.bb, 4 * shift);
    of = {};
  });
}

}  // namespace detent
