#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace detent {

__extension__ using Int128 = __int128;
__extension__ using Float128 = __float128;

/// A finite float32 as m * 2^(exponent - 150), exactly: |m| < 2^24, 1 <= exponent <= 254.
struct FloatParts {
  explicit FloatParts(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t field = (bits >> 23) & 0xFFU;
    const auto fraction = static_cast<int32_t>(bits & 0x7FFFFFU);
    const int32_t magnitude = field == 0 ? fraction : fraction | 0x800000;
    mantissa = bits >> 31 != 0U ? -magnitude : magnitude;
    exponent = field == 0 ? 1 : static_cast<int32_t>(field);
  }
  int32_t mantissa;
  int32_t exponent;
};

/// Sum of x^kPower over finite float32 values: an integer for each exponent of x, so that adding and merging
/// are integer additions and the sum does not depend on their order, to the last bit. Only the exponents
/// between the smallest and the largest one seen are stored.
///
/// Up to x^3 the sum is exact. Of m^4 the lowest 16 bits are dropped (rounded down, value by value: a
/// relative error below 2^-76, and the same in any order). The integers hold 2^39 values of one exponent.
template <int kPower>
class ExactSum {
 public:
  using Integer = std::conditional_t<kPower == 1, int64_t, Int128>;

  void add(float value) {
    const FloatParts parts(value);
    Integer term = parts.mantissa;
    for (int i = 1; i < kPower; ++i) term *= parts.mantissa;
    bin(parts.exponent) += term >> kDroppedBits;
  }

  void merge(const ExactSum& other) {
    for (std::size_t i = 0; i < other.bins_.size(); ++i)
      bin(other.first_ + static_cast<int32_t>(i)) += other.bins_[i];
  }

  /// In 113 bits; the bins are added in the order of their exponents.
  Float128 value() const {
    Float128 sum = 0;
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      const int exponent = kPower * (first_ + static_cast<int>(i) - 150) + kDroppedBits;
      sum += static_cast<Float128>(bins_[i]) * power_of_two(exponent);
    }
    return sum;
  }

 private:
  static constexpr int kDroppedBits = kPower <= 3 ? 0 : 16;

  /// Beyond the range of double for the fourth power of the smallest values.
  static Float128 power_of_two(int exponent) {
    Float128 result = 1;
    const Float128 factor = exponent < 0 ? Float128{0.5} : Float128{2};
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; --i) result *= factor;
    return result;
  }

  Integer& bin(int32_t exponent) {
    if (bins_.empty()) {
      first_ = exponent;
      bins_.resize(1);
    } else if (exponent < first_) {
      bins_.insert(bins_.begin(), static_cast<std::size_t>(first_ - exponent), Integer{0});
      first_ = exponent;
    } else if (exponent >= first_ + static_cast<int32_t>(bins_.size())) {
      bins_.resize(static_cast<std::size_t>(exponent - first_) + 1);
    }
    return bins_[static_cast<std::size_t>(exponent - first_)];
  }

  int32_t first_ = 0;
  std::vector<Integer> bins_;
};

}  // namespace detent
