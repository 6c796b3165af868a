#pragma once

#include <algorithm>
#include <cmath>

#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/minifloat_index.h"
#include "detent/formats/log.h"

namespace detent {

/// Sign, then the exponent plus bias: MinifloatIndex without mantissa and without its 0, which gets the code
/// of the smallest power.
class LogCoder {
 public:
  static constexpr bool kHasNan = false;

  LogCoder(int width, int min_exponent)
      : index_({.mantissa_bits = 0, .min_exponent = min_exponent, .largest = 0.0F}),
        width_(width),
        sign_(1U << (width - 1)) {}

  uint32_t code_of(float value) const {
    const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 31) << (width_ - 1);
    return sign | (std::max(index_.index_of(std::fabs(value)), 1U) - 1);
  }
  float value_of(uint32_t code) const {
    const float magnitude = index_.magnitude_of((code & (sign_ - 1)) + 1);
    return (code & sign_) != 0 ? -magnitude : magnitude;
  }

 private:
  MinifloatIndex index_;
  int width_;
  uint32_t sign_;
};

template <>
struct Coding<Log> {
  static std::vector<ParameterStream> streams(const Log&) { return {}; }
  static void store(const Log&, const LogParameters&, double*) {}

  struct Coder : LogCoder {
    Coder(const Log& format, const double*) : LogCoder(format.width, -format.bias()) {}
  };
};

}  // namespace detent
