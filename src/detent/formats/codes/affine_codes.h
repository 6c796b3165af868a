#pragma once

#include <algorithm>
#include <cmath>

#include "detent/formats/affine.h"
#include "detent/formats/codes/coding.h"

namespace detent {

/// The integer, zero point included: two's complement when signed, else plain binary.
template <>
struct Coding<Affine> {
  static std::vector<ParameterStream> streams(const Affine& format) {
    const ParameterStream scales{"scales", DType::kFloat32, 1, kAboveZero};
    if (format.zero_points_are_zero()) return {scales};
    const Between codes{static_cast<double>(format.low_code()), static_cast<double>(format.high_code())};
    return {scales, {"zero_points", DType::kInt32, 1, codes}};
  }
  static void store(const Affine& format, const AffineParameters& group, double* numbers) {
    numbers[0] = static_cast<double>(group.scale);
    if (!format.zero_points_are_zero()) numbers[1] = group.zero_point;
  }

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const Affine& format, const double* numbers)
        : scale_(static_cast<float>(numbers[0])),
          zero_point_(format.zero_points_are_zero() ? 0 : static_cast<int32_t>(numbers[1])),
          mask_(code_mask(format.width)),
          sign_(format.is_signed ? 1U << (format.width - 1) : 0U),
          low_(format.is_signed ? -std::ldexp(1.0, format.width - 1) : 0.0),
          high_(format.high_code()) {}

    // value = n * scale * (1 + d) with |n| < 2^24 and |d| <= 2^-24: the quotient is at most 1 off, which
    // comparing products shows.
    uint32_t code_of(float value) const {
      const double quotient = static_cast<double>(value) / static_cast<double>(scale_);
      const double held = std::clamp(quotient, low_ - zero_point_, high_ - zero_point_);
      const auto near = static_cast<int32_t>(held + (held < 0 ? -0.5 : 0.5));
      const float product = static_cast<float>(near) * scale_;
      const int32_t exact = near + (product < value ? 1 : 0) - (product > value ? 1 : 0);
      return static_cast<uint32_t>(exact + zero_point_) & mask_;
    }

    float value_of(uint32_t code) const {
      const auto integer = static_cast<int32_t>((code ^ sign_) - sign_);
      return static_cast<float>(integer - zero_point_) * scale_;
    }

   private:
    float scale_;
    int32_t zero_point_;
    uint32_t mask_;
    uint32_t sign_;
    double low_;
    double high_;
  };
};

}  // namespace detent
