#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "detent/kernels/coefficients.h"

// The arithmetic of single_exp-inl.h for one number. Only for sources of this layer, which are compiled
// without contractions.

namespace detent {

/// The polynomial of the terms from the highest power on, with one rounding a step, as Polynomial() of
/// elementary-inl.h.
template <size_t N>
double polynomial_reference(double x, const double (&terms)[N]) {
  double sum = terms[0];
  for (size_t i = 1; i < N; ++i) sum = std::fma(sum, x, terms[i]);
  return sum;
}

struct ReducedExpReference {
  float r;
  float power;
};

inline ReducedExpReference reduce_exp_reference(float x) {
  namespace c = coefficients;
  const float rounded = std::fma(x, c::kFloatLog2E, c::kFloatRounder);
  const float n = rounded - c::kFloatRounder;
  const float r = std::fma(n, -c::kFloatLn2Low, std::fma(n, -c::kFloatLn2High, x));
  return {r, std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) + 127) << 23)};
}

inline float exp_rest_reference(float r) {
  namespace c = coefficients;
  float sum = c::kFloatExp[0];
  for (size_t i = 1; i < std::size(c::kFloatExp); ++i) sum = std::fma(sum, r, c::kFloatExp[i]);
  return std::fma(r * r, sum, r);
}

// The arithmetic of trigonometric-inl.h for one number that float32 holds. The first three are the kernels
// too where |x| >= kHugeAngle.
double sine_reference(double x);
double cosine_reference(double x);
double tangent_reference(double x);
double arc_sine_reference(double x);
double arc_cosine_reference(double x);
double arc_tangent_reference(double x);

}  // namespace detent
