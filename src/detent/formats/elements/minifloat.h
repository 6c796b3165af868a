#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// The values of a binary floating-point format with one sign bit: k * 2^(e - M) for e >= min_exponent and 0
/// <= k < 2^(M+1), up to `largest`. k < 2^M only for e = min_exponent: the subnormals.
/// Ties go to the even k: with M >= 1 that is the even code, with M = 0 the larger magnitude.
/// float32 must hold all of them: 0 <= M <= 22, min_exponent - M >= -149.
///
/// Magnitudes are numbered from 0 up: n < 2^M is the subnormal n * 2^(min_exponent - M); from 2^M on, n =
/// (e - min_exponent + 1) * 2^M + m is (1 + m / 2^M) * 2^e. That number stands after the sign of a code.
struct MinifloatGrid {
  int mantissa_bits;  // M
  int min_exponent;   // of the smallest normal value
  float largest;
  /// Whether what rounds beyond `largest` becomes an infinity.
  bool to_infinity = false;
  /// Whether there is +0 only; else what rounds to 0 keeps its sign.
  bool one_zero = false;

  bool operator==(const MinifloatGrid&) const = default;
};

/// Codes of a minifloat that are not numbers.
enum class ReservedCodes {
  kNone,
  kNan,             // what is above the largest value
  kInfinityAndNan,  // next to the largest value, and above
  kNegativeZero,    // NaN; there is one zero
};

/// Parameters of the kernel.
struct MinifloatParameters {
  MinifloatGrid grid;
  float overflow_from;     // from this magnitude on, the result is:
  float overflow_value;    // `largest` or an infinity
  int32_t largest_number;  // of `largest`
  int width;               // of a code
  ReservedCodes reserved = ReservedCodes::kNone;
  /// Whether codes are e + bias and m of minifloat_denorm, else the number of the magnitude.
  bool is_denorm = false;

  static ElementKernels<MinifloatParameters> kernels();
};

MinifloatParameters minifloat_parameters(const MinifloatGrid& grid, int width,
                                         ReservedCodes reserved = ReservedCodes::kNone);
/// The number of a magnitude of the grid.
int32_t minifloat_number(const MinifloatGrid& grid, float magnitude);
/// All finite magnitudes by their numbers.
std::vector<float> minifloat_magnitudes(const MinifloatGrid& grid);
/// The inputs that do not saturate, nor become infinities.
Interval unsaturated_by(const MinifloatGrid& grid);

inline constexpr const char* kMinifloatDerivesNothing = "minifloats derive nothing from the data";

/// Small floating point with every code in use: sign, E exponent bits, M = width - 1 - E mantissa bits.
/// Exponent code c > 0: (1 + m / 2^M) * 2^(c - bias); c = 0: subnormals m / 2^M * 2^(1 - bias). The all-ones
/// exponent is an ordinary binade. No infinity, no NaN code, zeros of both signs.
/// Range: +-(2 - 2^-M) * 2^(2^E - 1 - bias), smallest step 2^(1 - bias - M); saturates, ties to the even
/// code. float32 must hold every value, if as a subnormal: M <= 22 and 2^E - 128 <= bias <= 150 - M.
struct MinifloatIeee {
  static constexpr const char* kName = "minifloat_ieee";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "small floating point: an implicit leading bit, no reserved codes";
  using Parameters = MinifloatParameters;
  static constexpr bool kRangePerChannel = false;
  static constexpr bool kHasNan = false;

  int width = 8;
  int exponent_width = 4;
  std::optional<int> exponent_bias = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value: sign, exponent, mantissa", Between{2, 31});
    visit("exponent_width", self.exponent_width, "bits of the exponent", Between{1, 8});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(exponent_width - 1) - 1",
          Between{-128, 150});
  }

  int mantissa_bits() const { return width - 1 - exponent_width; }
  int bias() const { return exponent_bias.value_or((1 << (exponent_width - 1)) - 1); }
  /// The grid of a valid format.
  MinifloatGrid grid() const;
  /// With the largest exponent bias, that is the finest step, whose largest value holds all of `ranges`;
  /// unchanged when there is nothing but 0 to hold.
  MinifloatIeee qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters() const;
  Interval unsaturated(const Parameters& of_format) const { return unsaturated_by(of_format.grid); }

  bool operator==(const MinifloatIeee&) const = default;
};

/// Small floating point without implicit bit: sign, E exponent bits, M = width - 1 - E mantissa bits (at
/// least one), value m * 2^(e - M) with 0 <= m < 2^M and -bias <= e <= 2^E - 1 - bias. No infinity, no NaN
/// code; a value may have several codes, that with the largest m is the canonical one. Range: +-(1 - 2^-M) *
/// 2^(2^E - 1 - bias), smallest step 2^(-bias - M); saturates, ties to the even m. float32 must hold every
/// value, if as a subnormal: M <= 22 and 2^E - 129 <= bias <= 149 - M.
struct MinifloatDenorm {
  static constexpr const char* kName = "minifloat_denorm";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "small floating point without an implicit bit";
  using Parameters = MinifloatParameters;
  static constexpr bool kRangePerChannel = false;
  static constexpr bool kHasNan = false;

  int width = 8;
  int exponent_width = 4;
  std::optional<int> exponent_bias = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value: sign, exponent, mantissa", Between{3, 31});
    visit("exponent_width", self.exponent_width, "bits of the exponent", Between{1, 8});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(exponent_width - 1) - 1",
          Between{-127, 148});
  }

  int mantissa_bits() const { return width - 1 - exponent_width; }
  int bias() const { return exponent_bias.value_or((1 << (exponent_width - 1)) - 1); }
  /// The grid of a valid format: 1/2 <= m / 2^M < 1 makes the first mantissa bit the leading one, an exponent
  /// lower.
  MinifloatGrid grid() const;
  /// As of minifloat_ieee.
  MinifloatDenorm qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters() const;
  Interval unsaturated(const Parameters& of_format) const { return unsaturated_by(of_format.grid); }

  bool operator==(const MinifloatDenorm&) const = default;
};

/// A minifloat by name, as its standard says.
struct MinifloatStandard {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  ReservedCodes reserved;
  const char* help;

  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr MinifloatGrid grid() const {
    const bool top_is_reserved = reserved == ReservedCodes::kInfinityAndNan;
    const int top_exponent = (1 << exponent_bits) - 1 - bias - (top_is_reserved ? 1 : 0);
    const int missing = reserved == ReservedCodes::kNan ? 2 : 1;  // of the top binade
    const double mantissa = 2 - missing * double_power_of_two(-mantissa_bits);
    return {.mantissa_bits = mantissa_bits,
            .min_exponent = 1 - bias,
            .largest = static_cast<float>(mantissa * double_power_of_two(top_exponent)),
            .one_zero = reserved == ReservedCodes::kNegativeZero};
  }
};

/// To add one: a line here. fp8_e4m3fn and fp8_e5m2 are those of OCP 8-bit Floating Point (OFP8) v1.0, the
/// smaller ones those of OCP Microscaling (MX) v1.0, fnuz those of Noune et al. 2022 (arXiv:2206.02915); fp16
/// is IEEE 754 binary16, bf16 and tf32 are the upper 16 and 19 bits of a float32.
inline constexpr MinifloatStandard kMinifloatStandards[] = {
    {"fp8_e4m3fn", 4, 3, 7, ReservedCodes::kNan, "OCP 8-bit float, 3 mantissa bits, up to 448"},
    {"fp8_e5m2", 5, 2, 15, ReservedCodes::kInfinityAndNan, "OCP 8-bit float, 2 mantissa bits, up to 57344"},
    {"fp8_e4m3fnuz", 4, 3, 8, ReservedCodes::kNegativeZero,
     "8-bit float with one zero, 3 mantissa bits, up to 240"},
    {"fp8_e5m2fnuz", 5, 2, 16, ReservedCodes::kNegativeZero,
     "8-bit float with one zero, 2 mantissa bits, up to 57344"},
    {"fp6_e3m2", 3, 2, 3, ReservedCodes::kNone, "OCP 6-bit float, 2 mantissa bits, up to 28"},
    {"fp6_e2m3", 2, 3, 1, ReservedCodes::kNone, "OCP 6-bit float, 3 mantissa bits, up to 7.5"},
    {"fp4_e2m1", 2, 1, 1, ReservedCodes::kNone, "OCP 4-bit float, 1 mantissa bit, up to 6"},
    {"fp16", 5, 10, 15, ReservedCodes::kInfinityAndNan, "IEEE 754 binary16, up to 65504"},
    {"bf16", 8, 7, 127, ReservedCodes::kInfinityAndNan, "bfloat16: float32 with 7 mantissa bits"},
    {"tf32", 8, 10, 127, ReservedCodes::kInfinityAndNan,
     "TensorFloat-32, 19 bits: float32 with 10 mantissa bits"},
};

namespace format_detail {

/// No key: what is too large becomes the largest value.
struct WithoutInfinity {
  template <class Self, class Visitor>
  static void fields(Self&, Visitor&) {}
  static bool to_infinity() { return false; }
  bool operator==(const WithoutInfinity&) const = default;
};

struct WithInfinity {
  bool saturate = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("saturate", self.saturate, "what is too large becomes the largest value; otherwise an infinity");
  }
  bool to_infinity() const { return !saturate; }
  bool operator==(const WithInfinity&) const = default;
};

template <size_t kRow>
using OverflowOf = std::conditional_t<kMinifloatStandards[kRow].reserved == ReservedCodes::kInfinityAndNan,
                                      WithInfinity, WithoutInfinity>;

}  // namespace format_detail

/// A row of kMinifloatStandards as a format. Infinities, where there are any, are reached only with saturate
/// = false.
template <size_t kRow>
struct MinifloatPreset : format_detail::OverflowOf<kRow> {
  static constexpr const MinifloatStandard& kStandard = kMinifloatStandards[kRow];
  static constexpr const char* kName = kStandard.name;
  static constexpr const char* kHelp = kStandard.help;
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr MinifloatGrid kGrid = kStandard.grid();
  static constexpr bool kHasNan = kStandard.reserved != ReservedCodes::kNone;
  using Parameters = MinifloatParameters;

  MinifloatGrid grid() const {
    MinifloatGrid result = kGrid;
    result.to_infinity = this->to_infinity();
    return result;
  }
  double bits() const { return kStandard.width(); }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string&) const {}
  std::vector<float> values(const std::string&) const;
  Parameters parameters() const {
    return minifloat_parameters(grid(), kStandard.width(), kStandard.reserved);
  }
  Interval unsaturated(const Parameters& of_format) const { return unsaturated_by(of_format.grid); }

  bool operator==(const MinifloatPreset&) const = default;
};

/// All finite values, ascending.
std::vector<float> minifloat_values(const MinifloatGrid& grid);

template <size_t kRow>
std::vector<float> MinifloatPreset<kRow>::values(const std::string&) const {
  return minifloat_values(grid());
}

consteval size_t minifloat_row(std::string_view name) {
  size_t row = 0;
  while (kMinifloatStandards[row].name != name) ++row;  // beyond the last, this does not compile
  return row;
}
using Fp8E4M3Fn = MinifloatPreset<minifloat_row("fp8_e4m3fn")>;
using Fp8E5M2 = MinifloatPreset<minifloat_row("fp8_e5m2")>;
using Fp6E3M2 = MinifloatPreset<minifloat_row("fp6_e3m2")>;
using Fp6E2M3 = MinifloatPreset<minifloat_row("fp6_e2m3")>;
using Fp4E2M1 = MinifloatPreset<minifloat_row("fp4_e2m1")>;
using Fp16 = MinifloatPreset<minifloat_row("fp16")>;
using Bf16 = MinifloatPreset<minifloat_row("bf16")>;

/// Throws Error on exponent bits that leave a number of mantissa bits outside [fewest, most].
void check_mantissa_bits(int width, int exponent_width, int fewest, int most, const std::string& where);
/// Throws Error on a bias outside [low, high].
void check_exponent_bias(const std::optional<int>& given, int bias, int low, int high,
                         const std::string& where);

}  // namespace detent
