// What the tests of block formats share: formats, data, comparison.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "detent/formats/quant_spec.h"

namespace detent {

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

/// Random bits that favour a range of 2^spread around 2^centre, with zeros, infinities and NaN among them.
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

/// Empty when equal in every bit, whichever the NaN, else the first difference.
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
