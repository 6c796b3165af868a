#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace detent {

/// What one look at some values tells. Magnitudes are bits without the sign, which order as the magnitudes
/// do, with NaN above infinity.
struct ValueScan {
  uint32_t min_magnitude = std::numeric_limits<uint32_t>::max();
  uint32_t max_magnitude = 0;
  float min = std::numeric_limits<float>::infinity();  // undefined where some value is NaN, as is max
  float max = -std::numeric_limits<float>::infinity();

  bool operator==(const ValueScan&) const = default;
};

/// How many values of each kind there were.
struct ValueKinds {
  size_t finite = 0;  // and not zero
  size_t zeros = 0;   // of either sign
  size_t positive_infinities = 0;
  size_t negative_infinities = 0;
  size_t nan = 0;

  bool operator==(const ValueKinds&) const = default;
};

/// With the processor's widest vectors. Not with subnormals flushed (DefaultFloatEnvironment).
ValueScan scan_values(std::span<const float> values);

struct FiniteCopy {
  ValueKinds kinds;
  ValueScan scan;  // of the copied values

  bool operator==(const FiniteCopy&) const = default;
};
/// Copies the values that are finite and not zero, in their order. `target` has room for all.
FiniteCopy copy_finite(std::span<const float> values, float* target);

/// Zeros of either sign.
size_t count_zeros(std::span<const float> values);

/// The same in plain loops, on top of what `scan` and `kinds` hold: for tests and for the last few values.
void scan_values_reference(std::span<const float> values, ValueScan& scan);
void copy_finite_reference(std::span<const float> values, float* target, FiniteCopy& copy);

}  // namespace detent
