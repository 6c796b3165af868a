#include <bit>

#include "detent/statistics/scan.h"

namespace detent {
namespace {

constexpr uint32_t kSignBit = 0x80000000U;
constexpr uint32_t kInfinityBits = 0x7F800000U;

}  // namespace

void scan_values_reference(std::span<const float> values, ValueScan& scan) {
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & ~kSignBit;
    if (magnitude == 0) {
      ++scan.zeros;
    } else if (bits == magnitude) {
      ++scan.positive_count;
      scan.positive.merge({magnitude, magnitude});
    } else {
      scan.negative.merge({magnitude, magnitude});
    }
  }
}

void split_values_reference(std::span<const float> values, float* positive, float* negative,
                            SplitValues& split) {
  ValueKinds& kinds = split.kinds;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & ~kSignBit;
    if (magnitude == 0) {
      ++kinds.zeros;
    } else if (magnitude > kInfinityBits) {
      ++kinds.nan;
    } else if (magnitude == kInfinityBits) {
      ++(bits == magnitude ? kinds.positive_infinities : kinds.negative_infinities);
    } else if (bits == magnitude) {
      positive[kinds.positive++] = value;
      split.positive.merge({magnitude, magnitude});
    } else {
      negative[kinds.negative++] = value;
      split.negative.merge({magnitude, magnitude});
    }
  }
}

}  // namespace detent
