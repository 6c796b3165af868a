#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "detent/hardware/code_range.h"

namespace detent {

/// A monotone function of accumulators, as hardware computes it:
///
///     kThresholds    low + number of thresholds that the sum reaches
///     kFloor         clamp(floor((sum * multiplier + offset) / 2^shift), low, high)
///     kToEven        clamp(offset + sum * multiplier / 2^shift to the nearest integer, ties to even, low,
///     high)
///
/// It is proved on both sides of each step of the function, and so, as both are monotone, everywhere.
struct Requantizer {
  enum class Kind { kThresholds, kFloor, kToEven };
  Kind kind = Kind::kThresholds;
  int64_t multiplier = 0;
  int64_t offset = 0;
  int shift = 0;
  std::vector<int64_t> thresholds = {};
  CodeRange codes = {};

  int64_t code(int64_t sum) const;
  bool operator==(const Requantizer&) const = default;
};

/// Computes `function` for the accumulators of a range; `slope` is its approximate increase per step.
Requantizer find_requantizer(const std::function<int64_t(int64_t sum)>& function, const CodeRange& sums,
                             double slope);

}  // namespace detent
