#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Parameters of the kernel: both tables have a power of two of entries, at least 32. Entry i is chosen where
/// bounds[i - 1] < x <= bounds[i]; after the last value, bounds are infinite.
struct CodebookParameters {
  std::vector<float> bounds;
  std::vector<float> values;
  int levels;  // of the binary search: 2^levels entries matter

  static ElementKernels<CodebookParameters> kernels();
};

/// Any set of up to 65,536 finite float32, ascending; the code is the index. Nearest value, ties to the lower
/// index; infinities give the ends, NaN stays. A zero only where it is listed.
struct Codebook {
  static constexpr const char* kName = "codebook";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "the nearest of listed values";
  using Parameters = CodebookParameters;
  static constexpr bool kRangePerChannel = false;
  static constexpr bool kHasNan = false;

  // A field cannot be called `values`, as its key is.
  std::vector<float> entries = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    constexpr double kMax = std::numeric_limits<float>::max();
    visit("values", self.entries, "the values, ascending, at most 65536", Between{-kMax, kMax});
  }

  /// With all values times one factor, so that the largest magnitude is that of `ranges`.
  Codebook qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return levels(); }
  /// Levels of the binary search, and bits of an index.
  int levels() const;
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "a codebook derives nothing from the data"; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string&) const { return entries; }
  Parameters parameters() const;
  Interval unsaturated(const Parameters& parameters) const;

  bool operator==(const Codebook&) const = default;
};

/// Makes rounded values strictly ascending, by the smallest steps.
void separate_entries(std::vector<float>& ascending);

}  // namespace detent
