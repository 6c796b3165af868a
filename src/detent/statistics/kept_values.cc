#include "detent/statistics/kept_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "detent/core/error.h"
#include "detent/statistics/scan.h"

namespace detent {
namespace {

KeyHistogram histogram_of(std::span<const float> values, int key_bits) {
  KeyHistogram histogram(key_bits);
  const ValueScan scan = scan_values(values);
  Magnitudes magnitudes = scan.positive;
  magnitudes.merge(scan.negative);
  histogram.add({values, magnitudes});
  return histogram;
}

/// Ascending, of finite values that are not zero. By digits of 11 bits, the last ones first, as comparisons
/// of many values are foreseen badly.
std::vector<float> sorted(std::vector<float> values) {
  constexpr size_t kFew = 512;
  constexpr uint32_t kSignBit = 0x80000000U;
  constexpr int kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  if (values.size() < kFew) {
    std::ranges::sort(values);
    return values;
  }
  std::vector<uint32_t> keys;  // which order as the values do
  keys.reserve(values.size());
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    keys.push_back(bits ^ ((bits & kSignBit) != 0 ? 0xFFFFFFFFU : kSignBit));
  }
  std::vector<uint32_t> by_digit(keys.size());
  for (int shift = 0; shift < 32; shift += kDigitBits) {
    std::array<size_t, kDigits + 1> begins{};
    for (const uint32_t key : keys) ++begins[(key >> shift) % kDigits + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (const uint32_t key : keys) by_digit[begins[(key >> shift) % kDigits]++] = key;
    keys.swap(by_digit);
  }
  for (size_t i = 0; i < keys.size(); ++i)
    values[i] = std::bit_cast<float>(keys[i] ^ ((keys[i] & kSignBit) != 0 ? kSignBit : 0xFFFFFFFFU));
  return values;
}

}  // namespace

void KeptValues::resize(size_t slots) {
  if (exact_) {
    values_.resize(slots);
  } else {
    while (histograms_.size() < slots) histograms_.emplace_back(resolution_.key_bits);
  }
}

void KeptValues::become_histograms() {
  if (!exact_) return;
  exact_ = false;
  for (std::vector<float>& values : values_) {
    histograms_.push_back(histogram_of(values, resolution_.key_bits));
    values = {};
  }
  values_.clear();
}

void KeptValues::add(size_t slot, const FiniteChunk& chunk) {
  if (exact_) {
    values_[slot].insert(values_[slot].end(), chunk.values.begin(), chunk.values.end());
  } else {
    histograms_[slot].add(chunk);
  }
}

void KeptValues::merge(const KeptValues& other) {
  DETENT_CHECK(other.exact_ || !exact_, "values are merged into counts, not counts into values");
  for (size_t slot = 0; slot < other.values_.size(); ++slot) {
    const std::vector<float>& values = other.values_[slot];
    if (exact_) {
      values_[slot].insert(values_[slot].end(), values.begin(), values.end());
    } else {
      histograms_[slot].merge(histogram_of(values, resolution_.key_bits));
    }
  }
  for (size_t slot = 0; slot < other.histograms_.size(); ++slot)
    histograms_[slot].merge(other.histograms_[slot]);
}

std::vector<ValueBin> KeptValues::exact_bins(size_t slot) const {
  DETENT_CHECK(exact_, "the values were counted in bins");
  std::vector<ValueBin> bins;
  for (const float value : sorted(values_[slot])) {
    if (bins.empty() || bins.back().upper != value) bins.push_back({value, value, 0});
    ++bins.back().count;
  }
  return bins;
}

std::vector<ValueBin> KeptValues::histogram_bins(size_t slot, int key_bits) const {
  if (exact_) return histogram_of(values_[slot], key_bits).cells();
  const KeyHistogram& histogram = histograms_[slot];
  return key_bits == resolution_.key_bits ? histogram.cells() : histogram.coarsened(key_bits).cells();
}

// Sorted, so that equal values give equal bytes.
void KeptValues::write(size_t slot, StateWriter& writer) const {
  if (!exact_) return histograms_[slot].write(writer);
  writer.reals(sorted(values_[slot]));
}

void KeptValues::read(size_t slot, StateReader& reader, int64_t expected) {
  int64_t total = 0;
  if (exact_) {
    values_[slot] = reader.reals();
    for (const float value : values_[slot]) {
      if (value == 0 || !std::isfinite(value)) bad_state(fmt::format("got the value {}", value));
    }
    total = static_cast<int64_t>(values_[slot].size());
  } else {
    histograms_[slot].read(reader);
    total = histograms_[slot].total();
  }
  if (total != expected) bad_state(fmt::format("got {} kept values, expected {}", total, expected));
}

std::vector<ValueBin> magnitude_bins(const std::vector<ValueBin>& bins) {
  std::vector<ValueBin> all;
  for (const ValueBin& bin : bins) {
    const bool negative = bin.upper < 0 || bin.lower < 0;
    all.push_back(negative ? ValueBin{-bin.upper + 0.0F, -bin.lower, bin.count} : bin);
  }
  std::ranges::stable_sort(all, {}, &ValueBin::lower);
  std::vector<ValueBin> joined;
  for (const ValueBin& bin : all) {
    if (!joined.empty() && joined.back().lower == bin.lower && joined.back().upper == bin.upper) {
      joined.back().count += bin.count;
    } else {
      joined.push_back(bin);
    }
  }
  return joined;
}

}  // namespace detent
