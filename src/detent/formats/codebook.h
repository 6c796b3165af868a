#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// What the kernel needs: both tables have a power of two of entries, at least 32. Entry i is chosen where
/// bounds[i - 1] < x <= bounds[i]; behind the last value, bounds are infinite.
struct CodebookParameters {
  std::vector<float> bounds;
  std::vector<float> values;
  int levels;            // of the binary search: 2^levels entries matter
  Interval unsaturated;  // inputs
};

/// Any set of up to 65,536 finite float32, ascending; the code is the index. Nearest value, ties to the lower
/// index; infinities give the ends, NaN stays. A zero only where it is listed.
struct Codebook {
  static constexpr const char* kName = "codebook";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "the nearest of listed values";
  using Parameters = CodebookParameters;

  // A field cannot be called `values`, as its key is.
  std::vector<float> entries = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    constexpr double kMax = std::numeric_limits<float>::max();
    visit("values", self.entries, "the values, ascending, at most 65536", Between{-kMax, kMax});
  }

  double bits() const { return levels(); }
  /// Of the binary search, and bits of an index.
  int levels() const { return entries.empty() ? 0 : static_cast<int>(std::bit_width(entries.size() - 1)); }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "a codebook derives nothing from the data"; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string&) const { return entries; }
  Parameters parameters(const Group& group, uint64_t seed) const;

  bool operator==(const Codebook&) const = default;
};

inline void Codebook::validate(const std::string& where) const {
  if (entries.empty() || entries.size() > 65536) {
    fail("{}: key \"values\": got {} values, expected at least 1 and at most 65536", where, entries.size());
  }
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1] < entries[i]) continue;
    fail("{}: key \"values\": got {} at index {} behind {}, expected ascending values", where,
         float_text(static_cast<double>(entries[i])), i, float_text(static_cast<double>(entries[i - 1])));
  }
}

/// The largest float32 not above (low + high) / 2, as in exact arithmetic: the sum of two float32 may not fit
/// a double, and then what its rounding added or left out decides.
inline float last_at_or_below_middle(float low, float high) {
  const auto a = static_cast<double>(low);
  const auto b = static_cast<double>(high);
  const double sum = a + b;
  const double b_part = sum - a;
  const double left_out = (a - (sum - b_part)) + (b - b_part);  // Knuth's TwoSum
  const float below = round_down(sum / 2);
  const bool too_high = static_cast<double>(below) == sum / 2 && left_out < 0;
  return too_high ? std::nextafter(below, -std::numeric_limits<float>::infinity()) : below;
}

inline Codebook::Parameters Codebook::parameters(const Group&, uint64_t /*seed*/) const {
  constexpr size_t kFewest = 32;
  const size_t size = std::max(kFewest, std::bit_ceil(entries.size()));
  Parameters result{.bounds = std::vector<float>(size, std::numeric_limits<float>::infinity()),
                    .values = entries,
                    .levels = levels(),
                    .unsaturated = {entries.front(), entries.back()}};
  for (size_t i = 1; i < entries.size(); ++i) {
    result.bounds[i - 1] = last_at_or_below_middle(entries[i - 1], entries[i]);
  }
  result.values.resize(size, entries.back());
  return result;
}

}  // namespace detent
