#pragma once

#include <cmath>
#include <cstddef>

namespace detent {

/// The polynomial of the terms from the highest power on, with one rounding a step, as Polynomial() of
/// elementary-inl.h.
template <size_t N>
double polynomial_reference(double x, const double (&terms)[N]) {
  double sum = terms[0];
  for (size_t i = 1; i < N; ++i) sum = std::fma(sum, x, terms[i]);
  return sum;
}

}  // namespace detent
