#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace detent {

/// The smallest and the largest of some magnitudes: bits without the sign, which order as the magnitudes do,
/// with NaN above infinity.
struct Magnitudes {
  uint32_t least = std::numeric_limits<uint32_t>::max();
  uint32_t most = 0;

  bool empty() const { return least > most; }
  void merge(const Magnitudes& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  bool operator==(const Magnitudes&) const = default;
};

/// Results of one pass over values. The sign bit decides the sign; zeros are neither positive nor negative.
struct ValueScan {
  size_t positive_count = 0;
  size_t zeros = 0;
  Magnitudes positive;
  Magnitudes negative;

  bool operator==(const ValueScan&) const = default;
};

/// Number of values of each kind.
struct ValueKinds {
  size_t positive = 0;  // and finite
  size_t negative = 0;
  size_t zeros = 0;  // of either sign
  size_t positive_infinities = 0;
  size_t negative_infinities = 0;
  size_t nan = 0;

  bool operator==(const ValueKinds&) const = default;
};

/// Vectorized. Not with subnormals flushed (DefaultFloatEnvironment).
ValueScan scan_values(std::span<const float> values);

struct SplitValues {
  ValueKinds kinds;
  Magnitudes positive;  // of the copied values
  Magnitudes negative;

  bool operator==(const SplitValues&) const = default;
};
/// Copies the positive and the negative finite values, in their order. Each target has room for all.
SplitValues split_values(std::span<const float> values, float* positive, float* negative);

/// The same in plain loops, added to the state of `scan` and `split`: for tests and tails.
void scan_values_reference(std::span<const float> values, ValueScan& scan);
void split_values_reference(std::span<const float> values, float* positive, float* negative,
                            SplitValues& split);

}  // namespace detent
