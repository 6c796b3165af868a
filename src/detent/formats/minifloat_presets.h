#pragma once

#include <array>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/group.h"
#include "detent/formats/minifloat.h"

namespace detent {

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

/// A minifloat by name. `Preset` has kName, kHelp, kWidth and kGrid.
template <class Preset, class Overflow>
struct MinifloatPreset : Overflow {
  static constexpr std::array<const char*, 0> kAliases = {};
  using Parameters = MinifloatParameters;

  MinifloatGrid grid() const {
    MinifloatGrid result = Preset::kGrid;
    result.to_infinity = this->to_infinity();
    return result;
  }
  double bits() const { return Preset::kWidth; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string&) const {}
  std::vector<float> values(const std::string&) const { return minifloat_values(grid()); }
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return minifloat_parameters(grid()); }

  bool operator==(const MinifloatPreset&) const = default;
};

}  // namespace format_detail

/// OCP 8-bit Floating Point (OFP8) v1.0: sign, 4 exponent bits (bias 7), 3 mantissa bits. Subnormals, both
/// zeros, no infinity; S.1111.111 is NaN. Largest 448, smallest 2^-9.
struct Fp8E4M3Fn : format_detail::MinifloatPreset<Fp8E4M3Fn, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp8_e4m3fn";
  static constexpr const char* kHelp = "OCP 8-bit float, 3 mantissa bits, up to 448";
  static constexpr int kWidth = 8;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 3, .min_exponent = -6, .largest = 448};
};

/// OFP8 v1.0: sign, 5 exponent bits (bias 15), 2 mantissa bits. As IEEE 754: S.11111.00 is an infinity, the
/// rest of that binade NaN. Largest 57344, smallest 2^-16.
struct Fp8E5M2 : format_detail::MinifloatPreset<Fp8E5M2, format_detail::WithInfinity> {
  static constexpr const char* kName = "fp8_e5m2";
  static constexpr const char* kHelp = "OCP 8-bit float, 2 mantissa bits, up to 57344";
  static constexpr int kWidth = 8;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 2, .min_exponent = -14, .largest = 57344};
};

/// Sign, 4 exponent bits (bias 8), 3 mantissa bits; one zero, no infinity; 0x80, the negative zero of others,
/// is the only NaN (Noune et al. 2022, arXiv:2206.02915). Largest 240, smallest 2^-10.
struct Fp8E4M3Fnuz : format_detail::MinifloatPreset<Fp8E4M3Fnuz, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp8_e4m3fnuz";
  static constexpr const char* kHelp = "8-bit float with one zero, 3 mantissa bits, up to 240";
  static constexpr int kWidth = 8;
  static constexpr MinifloatGrid kGrid = {
      .mantissa_bits = 3, .min_exponent = -7, .largest = 240, .one_zero = true};
};

/// As fp8_e4m3fnuz with 5 exponent bits (bias 16), 2 mantissa bits. Largest 57344, smallest 2^-17.
struct Fp8E5M2Fnuz : format_detail::MinifloatPreset<Fp8E5M2Fnuz, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp8_e5m2fnuz";
  static constexpr const char* kHelp = "8-bit float with one zero, 2 mantissa bits, up to 57344";
  static constexpr int kWidth = 8;
  static constexpr MinifloatGrid kGrid = {
      .mantissa_bits = 2, .min_exponent = -15, .largest = 57344, .one_zero = true};
};

/// OCP Microscaling (MX) v1.0: sign, 3 exponent bits (bias 3), 2 mantissa bits, every code a number, both
/// zeros, subnormals. Largest 28, smallest 2^-4.
struct Fp6E3M2 : format_detail::MinifloatPreset<Fp6E3M2, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp6_e3m2";
  static constexpr const char* kHelp = "OCP 6-bit float, 2 mantissa bits, up to 28";
  static constexpr int kWidth = 6;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 2, .min_exponent = -2, .largest = 28};
};

/// As fp6_e3m2 with 2 exponent bits (bias 1), 3 mantissa bits. Largest 7.5, smallest 2^-3.
struct Fp6E2M3 : format_detail::MinifloatPreset<Fp6E2M3, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp6_e2m3";
  static constexpr const char* kHelp = "OCP 6-bit float, 3 mantissa bits, up to 7.5";
  static constexpr int kWidth = 6;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 3, .min_exponent = 0, .largest = 7.5F};
};

/// As fp6_e3m2 with 2 exponent bits (bias 1), 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
struct Fp4E2M1 : format_detail::MinifloatPreset<Fp4E2M1, format_detail::WithoutInfinity> {
  static constexpr const char* kName = "fp4_e2m1";
  static constexpr const char* kHelp = "OCP 4-bit float, 1 mantissa bit, up to 6";
  static constexpr int kWidth = 4;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 1, .min_exponent = 0, .largest = 6};
};

/// IEEE 754 binary16: 5 exponent bits (bias 15), 10 mantissa bits; subnormals, infinities, NaN. Largest
/// 65504.
struct Fp16 : format_detail::MinifloatPreset<Fp16, format_detail::WithInfinity> {
  static constexpr const char* kName = "fp16";
  static constexpr const char* kHelp = "IEEE 754 binary16, up to 65504";
  static constexpr int kWidth = 16;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 10, .min_exponent = -14, .largest = 65504};
};

/// The upper half of a float32: 8 exponent bits (bias 127), 7 mantissa bits; subnormals, infinities, NaN.
struct Bf16 : format_detail::MinifloatPreset<Bf16, format_detail::WithInfinity> {
  static constexpr const char* kName = "bf16";
  static constexpr const char* kHelp = "bfloat16: float32 with 7 mantissa bits";
  static constexpr int kWidth = 16;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 7, .min_exponent = -126, .largest = 0x1.FEp127F};
};

/// The upper 19 bits of a float32: 8 exponent bits (bias 127), 10 mantissa bits; else as bf16.
struct Tf32 : format_detail::MinifloatPreset<Tf32, format_detail::WithInfinity> {
  static constexpr const char* kName = "tf32";
  static constexpr const char* kHelp = "TensorFloat-32, 19 bits: float32 with 10 mantissa bits";
  static constexpr int kWidth = 19;
  static constexpr MinifloatGrid kGrid = {.mantissa_bits = 10, .min_exponent = -126, .largest = 0x1.FFCp127F};
};

}  // namespace detent
