// Shared by tests of formats: formats, hard values and random ones, comparison.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "detent/formats/float_bits.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// Sixteen values as of NF4 (Dettmers et al. 2023, arXiv:2305.14314).
inline constexpr const char* kNf4Levels =
    "codebook:values=-1x-0.6961928x-0.52507305x-0.3949175x-0.28444138x-0.18477343x-0.09105004x0x0.0795803x0."
    "1609302x0.2461123x0.33791524x0.44070983x0.562617x0.72295684x1";

inline const char* const kElementFormats[] = {
    "fixed",
    "fixed:rounding=floor",
    "fixed:width=8,signed=false",
    "fixed:width=8,signed=false,rounding=floor",
    "fixed:width=1,frac_width=0",
    "fixed:width=3,frac_width=-2",
    "fixed:width=32,frac_width=0",
    "fixed:width=32,frac_width=16,signed=false,rounding=floor",
    "fixed:width=32,frac_width=-96,signed=false",
    "fixed:width=32,frac_width=96,rounding=floor",
    "fixed:width=2,frac_width=96",
    "fixed:width=2,frac_width=-96,rounding=floor",
    "minifloat_ieee",
    "minifloat_ieee:exponent_width=5",
    "minifloat_ieee:width=4,exponent_width=3,exponent_bias=1",
    "minifloat_ieee:width=3,exponent_width=2",
    "minifloat_ieee:width=2,exponent_width=1",
    "minifloat_ieee:width=5,exponent_width=1,exponent_bias=0",
    "minifloat_ieee:width=16,exponent_width=8,exponent_bias=128",
    "minifloat_ieee:width=31,exponent_width=8,exponent_bias=128",
    "minifloat_ieee:width=9,exponent_width=8,exponent_bias=150",
    "minifloat_ieee:width=9,exponent_width=8,exponent_bias=149",
    "minifloat_ieee:width=4,exponent_width=1,exponent_bias=-126",
    "minifloat_ieee:width=24,exponent_width=1,exponent_bias=128",
    "minifloat_ieee:width=3,exponent_width=1,exponent_bias=-70",
    "minifloat_denorm",
    "minifloat_denorm:width=4,exponent_width=2",
    "minifloat_denorm:width=16,exponent_width=8,exponent_bias=128",
    "minifloat_denorm:width=31,exponent_width=8",
    "minifloat_denorm:width=9,exponent_width=7,exponent_bias=-1",
    "log",
    "log:width=2,exponent_bias=0",
    "log:width=8,exponent_bias=128",
    "log:width=9,exponent_bias=149",
    "log:width=9,exponent_bias=128",
    "affine",
    "affine:width=4,symmetric=true",
    "affine:signed=false,narrow_range=true",
    "affine:scale=0.1,zero_point=-3",
    "affine:width=24,signed=false,scale=1e-3",
    "affine:scale=1.5e-45,zero_point=127",
    "affine:scale=3e38",
    "affine:scale=3e36,zero_point=2,width=4,narrow_range=true",
    "binary_residual",
    "binary_residual:levels=5",
    "binary_residual:levels=3,gamma=1x0.5x0.25",
    "codebook:values=0.5x",
    "codebook:values=-1x0x1",
    "codebook:values=-3e38x-1e-45x0x1e-45x0.1x0.2x0.5x3e38",
    kNf4Levels,
    "fp8_e4m3fn",
    "fp8_e5m2",
    "fp8_e5m2:saturate=false",
    "fp8_e4m3fnuz",
    "fp8_e5m2fnuz",
    "fp6_e3m2",
    "fp6_e2m3",
    "fp4_e2m1",
    "fp16",
    "fp16:saturate=false",
    "bf16",
    "bf16:saturate=false",
    "tf32:saturate=false",
    "scaled",
    "scaled:element=fp8_e5m2",
    "scaled:element=fp8_e4m3fnuz,scale=0.3",
    "scaled:element=fp8_e5m2fnuz",
    "scaled:element=fp6_e3m2,scale=1e-45",
    "scaled:element=fp6_e2m3",
    "scaled:element=fp4_e2m1,scale=5e37",
    "ternary:threshold=0.5",
    "ternary:threshold=1e-45,scaling_factor=true",
    "ternary:scaling_factor=true",
    "binary",
    "binary:bipolar=false,scaling=per_tensor",
    "binary:stochastic=true",
};

inline void add_with_neighbours(std::vector<float>& values, float value) {
  constexpr float kEndless = std::numeric_limits<float>::infinity();
  for (const float x : {value, std::nextafter(value, kEndless), std::nextafter(value, -kEndless)}) {
    values.push_back(x);
    values.push_back(-x);
  }
}

/// Special values, every exponent, ties and bounds of the fixed formats above, with their neighbours; zeros
/// and values rounded to zero of both signs; NaN payloads.
inline std::vector<float> hard_values() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {Limits::quiet_NaN(), std::bit_cast<float>(0xFFC12345U),
                               std::bit_cast<float>(0x7F812345U)};
  for (const float x :
       {0.0F, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 1.0F, 0.5F}) {
    add_with_neighbours(values, x);
  }
  for (int exponent = -149; exponent <= 127; ++exponent) {
    for (const float fraction : {1.0F, 1.5F}) {
      values.push_back(std::ldexp(fraction, exponent));
      values.push_back(-values.back());
    }
  }
  for (const int exponent : {-96, -16, -4, 0, 2, 96}) {
    const float step = power_of_two(exponent);
    for (const float code : {0.5F, 1.0F, 1.5F, 2.5F, 3.5F, 126.5F, 127.5F, 128.0F, 254.5F, 255.5F, 8388607.5F,
                             0x1p24F, 0x1p31F, 0x1p32F}) {
      add_with_neighbours(values, code * step);
    }
  }
  return values;
}

/// Empty when bit-identical, else the first difference.
inline std::string bit_difference(const Tensor& input, const Tensor& got, const Tensor& expected) {
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float y = got.values<float>()[i];
    const float z = expected.values<float>()[i];
    if (std::bit_cast<uint32_t>(y) == std::bit_cast<uint32_t>(z)) continue;
    return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, input.values<float>()[i], y, z);
  }
  return "";
}

inline const char* const kBlockFormats[] = {
    "block_fp",
    "block_fp:width=2,exponent_width=3",
    "block_fp:width=24",
    "block_fp:width=5,exponent_bias=-128",
    "block_fp:width=12,exponent_bias=255",
    "block_minifloat",
    "block_minifloat:width=6,exponent_width=2,exponent_bias_width=4",
    "block_minifloat:width=31,exponent_width=8",
    "block_minifloat:width=12,exponent_width=8,exponent_bias_width=1",
    "block_minifloat:width=9,exponent_width=8",
    "block_minifloat:width=24,exponent_width=1",
    "block_log",
    "block_log:width=3,exponent_bias_width=2",
    "block_log:width=9,exponent_bias_width=1",
    "mx:element=e4m3",
    "mx:element=e5m2",
    "mx:element=e3m2",
    "mx:element=e2m3",
    "mx:element=e2m1",
    "mx:element=int8",
    "nvfp4",
};

inline QuantSpec spec_of(const std::string& text, const std::string& more = "") {
  const bool sized = text.find("nvfp4") == std::string::npos;
  const bool keyed = text.find(':') != std::string::npos;
  if (more.empty() || !sized) return parse_quant_spec_text(text);
  return parse_quant_spec_text(text + (keyed ? "," : ":") + more);
}

/// Random bits concentrated in a range of 2^spread around 2^centre, with zeros, infinities and NaN.
inline Tensor random_tensor(const Shape& shape, uint32_t seed, int centre, int spread) {
  Tensor tensor(DType::kFloat32, shape);
  uint32_t state = seed * 2654435761U + 1;
  const auto draw = [&] {
    state = state * 1664525U + 1013904223U;
    return (state ^ (state >> 15)) * 0x9E3779B1U >> 4;
  };
  for (float& x : tensor.values<float>()) {
    const uint32_t kind = draw() % 64;
    const double fraction = 1.0 + static_cast<double>(draw() % 4096) / 4096;
    const int exponent = centre + static_cast<int>(draw() % static_cast<uint32_t>(spread)) - spread / 2;
    x = static_cast<float>(std::ldexp(fraction, std::clamp(exponent, -150, 127)));
    if (draw() % 2 == 0) x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ (draw() % 4096));
    if (kind == 0) x = 0;
    if (kind == 1) x = std::numeric_limits<float>::infinity();
    if (kind == 2) x = std::numeric_limits<float>::quiet_NaN();
    if (draw() % 2 == 0) x = -x;
  }
  return tensor;
}

/// Empty when bit-identical up to NaN payloads, else the first difference.
inline std::string difference(const Tensor& input, const Tensor& got, const Tensor& expected) {
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float y = got.values<float>()[i];
    const float z = expected.values<float>()[i];
    if (std::bit_cast<uint32_t>(y) == std::bit_cast<uint32_t>(z) || (std::isnan(y) && std::isnan(z)))
      continue;
    return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, input.values<float>()[i], y, z);
  }
  return "";
}

}  // namespace detent
