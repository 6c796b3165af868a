#include <algorithm>
#include <bit>

#include "detent/statistics/scan.h"

namespace detent {
namespace {

constexpr uint32_t kSignBit = 0x80000000U;
constexpr uint32_t kInfinityBits = 0x7F800000U;

}  // namespace

void scan_values_reference(std::span<const float> values, ValueScan& scan) {
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & ~kSignBit;
    scan.min_magnitude = std::min(scan.min_magnitude, magnitude);
    scan.max_magnitude = std::max(scan.max_magnitude, magnitude);
    scan.min = std::min(scan.min, value);
    scan.max = std::max(scan.max, value);
  }
}

void copy_finite_reference(std::span<const float> values, float* target, FiniteCopy& copy) {
  ValueKinds& kinds = copy.kinds;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & ~kSignBit;
    if (magnitude == 0) {
      ++kinds.zeros;
    } else if (magnitude > kInfinityBits) {
      ++kinds.nan;
    } else if (magnitude == kInfinityBits) {
      ++(bits == magnitude ? kinds.positive_infinities : kinds.negative_infinities);
    } else {
      target[kinds.finite++] = value;
      scan_values_reference({&value, 1}, copy.scan);
    }
  }
}

}  // namespace detent
