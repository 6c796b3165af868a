#pragma once

#include <cmath>
#include <limits>

#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/minifloat_index.h"
#include "detent/formats/minifloat.h"
#include "detent/formats/minifloat_presets.h"

namespace detent {

/// Codes of a minifloat that are not numbers.
enum class ReservedCodes {
  kNone,
  kNan,             // what is above the largest value
  kInfinityAndNan,  // next to the largest value, and above
  kNegativeZero,    // NaN; there is one zero
};

constexpr bool has_nan(ReservedCodes reserved) { return reserved != ReservedCodes::kNone; }

/// Sign, then MinifloatIndex.
template <ReservedCodes kReserved>
class MinifloatCoder {
 public:
  static constexpr bool kHasNan = has_nan(kReserved);

  MinifloatCoder(int width, const MinifloatGrid& grid)
      : index_(grid),
        width_(width),
        sign_(1U << (width - 1)),
        largest_(grid.largest),
        largest_index_(index_.index_of(grid.largest)) {}

  uint32_t code_of(float value) const {
    const float magnitude = std::fabs(value);
    const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 31) << (width_ - 1);
    const uint32_t index = index_.index_of(std::min(magnitude, largest_));
    if constexpr (kReserved == ReservedCodes::kNone) return sign | index;
    if constexpr (kReserved == ReservedCodes::kNegativeZero) {
      const uint32_t number = magnitude > 0 ? sign | index : 0U;
      return value == value ? number : sign_;
    }
    const uint32_t infinity = largest_index_ + 1;
    if constexpr (kReserved == ReservedCodes::kNan) return sign | (value == value ? index : infinity);
    const uint32_t not_nan = magnitude > largest_ ? infinity : index;
    return sign | (value == value ? not_nan : sign_ - 1);
  }

  float value_of(uint32_t code) const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const uint32_t index = code & (sign_ - 1);
    const float number = index_.magnitude_of(index);
    const float signed_number = (code & sign_) != 0 ? -number : number;
    if constexpr (kReserved == ReservedCodes::kNone) return signed_number;
    if constexpr (kReserved == ReservedCodes::kNegativeZero) return code == sign_ ? kNan : signed_number;
    if constexpr (kReserved == ReservedCodes::kNan) return index > largest_index_ ? kNan : signed_number;
    const float infinity = (code & sign_) != 0 ? -kInfinity : kInfinity;
    const float not_nan = index == largest_index_ + 1 ? infinity : signed_number;
    return index > largest_index_ + 1 ? kNan : not_nan;
  }

 private:
  MinifloatIndex index_;
  int width_;
  uint32_t sign_;
  float largest_;
  uint32_t largest_index_;
};

/// Of a minifloat that derives nothing from the data.
template <class F, ReservedCodes kReserved>
struct MinifloatCoding {
  static std::vector<ParameterStream> streams(const F&) { return {}; }
  static void store(const F&, const MinifloatParameters&, double*) {}

  struct Coder : MinifloatCoder<kReserved> {
    Coder(const F& format, const double*)
        : MinifloatCoder<kReserved>(static_cast<int>(format.bits()), format.grid()) {}
  };
};

template <>
struct Coding<MinifloatIeee> : MinifloatCoding<MinifloatIeee, ReservedCodes::kNone> {};
template <>
struct Coding<Fp8E4M3Fn> : MinifloatCoding<Fp8E4M3Fn, ReservedCodes::kNan> {};
template <>
struct Coding<Fp8E5M2> : MinifloatCoding<Fp8E5M2, ReservedCodes::kInfinityAndNan> {};
template <>
struct Coding<Fp8E4M3Fnuz> : MinifloatCoding<Fp8E4M3Fnuz, ReservedCodes::kNegativeZero> {};
template <>
struct Coding<Fp8E5M2Fnuz> : MinifloatCoding<Fp8E5M2Fnuz, ReservedCodes::kNegativeZero> {};
template <>
struct Coding<Fp6E3M2> : MinifloatCoding<Fp6E3M2, ReservedCodes::kNone> {};
template <>
struct Coding<Fp6E2M3> : MinifloatCoding<Fp6E2M3, ReservedCodes::kNone> {};
template <>
struct Coding<Fp4E2M1> : MinifloatCoding<Fp4E2M1, ReservedCodes::kNone> {};
template <>
struct Coding<Fp16> : MinifloatCoding<Fp16, ReservedCodes::kInfinityAndNan> {};
template <>
struct Coding<Bf16> : MinifloatCoding<Bf16, ReservedCodes::kInfinityAndNan> {};
template <>
struct Coding<Tf32> : MinifloatCoding<Tf32, ReservedCodes::kInfinityAndNan> {};

}  // namespace detent
