#include "detent/hardware/circuit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace detent {
namespace {

constexpr int kMostProductShift = 40;

/// The sums at which the function steps, and the code that it steps to.
struct Step {
  int64_t sum;
  int64_t code;
};

std::vector<Step> steps_of(const std::function<int64_t(int64_t)>& function, const WireRange& sums) {
  std::vector<Step> steps;
  const int64_t last = function(sums.high);
  int64_t at = sums.low;
  for (int64_t code = function(at); code < last;) {
    int64_t below = at;  // function(below) == code < function(above)
    int64_t above = sums.high;
    while (above - below > 1) {
      const int64_t middle = below + (above - below) / 2;
      (function(middle) > code ? above : below) = middle;
    }
    at = above;
    code = function(at);
    steps.push_back({at, code});
  }
  return steps;
}

/// Whether the requantizer agrees next to every step and at the ends.
bool agrees(const Requantizer& found, const std::vector<Step>& steps, int64_t first, const WireRange& sums) {
  if (found.code(sums.low) != first) return false;
  int64_t before = first;
  for (const Step& step : steps) {
    if (found.code(step.sum - 1) != before || found.code(step.sum) != step.code) return false;
    before = step.code;
  }
  return found.code(sums.high) == before;
}

/// The offsets with which floor((sum * multiplier + offset) / 2^shift) steps where it should:
/// offset >= code * 2^shift - sum * multiplier at a step, and less one before it.
std::optional<int64_t> offset_of(const std::vector<Step>& steps, int64_t multiplier, int shift, int64_t first,
                                 const WireRange& sums, const WireRange& codes) {
  const int64_t unit = int64_t{1} << shift;
  int64_t least = std::numeric_limits<int64_t>::min() / 4;
  int64_t most = std::numeric_limits<int64_t>::max() / 4;
  if (first > codes.low) least = first * unit - sums.low * multiplier;
  int64_t before = first;
  for (const Step& step : steps) {
    least = std::max(least, step.code * unit - step.sum * multiplier);
    most = std::min(most, (before + 1) * unit - 1 - (step.sum - 1) * multiplier);
    before = step.code;
  }
  if (before < codes.high) most = std::min(most, (before + 1) * unit - 1 - sums.high * multiplier);
  if (least > most) return std::nullopt;
  const int64_t half = unit / 2;
  return std::clamp(half, least, most);
}

/// Whether sum * multiplier and codes << shift stay far within 64 bits.
bool fits(int64_t multiplier, int shift, const WireRange& sums, const WireRange& codes) {
  constexpr double kMostProduct = 0x1p60;
  const double sum = std::max(std::fabs(static_cast<double>(sums.low)), static_cast<double>(sums.high)) + 1;
  const double code =
      std::max(std::fabs(static_cast<double>(codes.low)), static_cast<double>(codes.high)) + 1;
  return sum * static_cast<double>(multiplier) < kMostProduct && std::ldexp(code, shift) < kMostProduct;
}

}  // namespace

int64_t Requantizer::code(int64_t sum) const {
  switch (kind) {
    case Kind::kThresholds:
      return codes.low + (std::ranges::upper_bound(thresholds, sum) - thresholds.begin());
    case Kind::kFloor:
      return std::clamp((sum * multiplier + offset) >> shift, codes.low, codes.high);
    case Kind::kToEven: {
      const int64_t product = sum * multiplier;
      const int64_t half = shift == 0 ? 0 : (int64_t{1} << (shift - 1)) - 1 + (product >> shift & 1);
      return std::clamp(((product + half) >> shift) + offset, codes.low, codes.high);
    }
  }
  return codes.low;
}

Requantizer find_requantizer(const std::function<int64_t(int64_t sum)>& function, const WireRange& sums,
                             double slope) {
  constexpr size_t kFewSteps = 3;
  const int64_t first = function(sums.low);
  const std::vector<Step> steps = steps_of(function, sums);
  const WireRange codes{first, steps.empty() ? first : steps.back().code};
  Requantizer found{.codes = codes};
  for (int shift = 0; steps.size() > kFewSteps && shift <= kMostProductShift; ++shift) {
    const double exact = std::ldexp(slope, shift);
    for (const double multiplier : {std::floor(exact), std::ceil(exact)}) {
      if (multiplier < 1 || multiplier > 0x1p40) continue;
      found.multiplier = static_cast<int64_t>(multiplier);
      found.shift = shift;
      if (!fits(found.multiplier, shift, sums, codes)) continue;
      found.kind = Requantizer::Kind::kToEven;
      found.offset = 0;
      found.codes = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
      found.offset = steps.front().code - found.code(steps.front().sum);
      found.codes = codes;
      if (multiplier == exact && agrees(found, steps, first, sums)) return found;
      found.kind = Requantizer::Kind::kFloor;
      const std::optional<int64_t> offset = offset_of(steps, found.multiplier, shift, first, sums, codes);
      if (!offset) continue;
      found.offset = *offset;
      if (agrees(found, steps, first, sums)) return found;
    }
  }
  Requantizer compared{.codes = codes};
  int64_t before = first;
  for (const Step& step : steps) {
    for (; before < step.code; ++before) compared.thresholds.push_back(step.sum);
  }
  return compared;
}

}  // namespace detent
