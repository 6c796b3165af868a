#include "detent/engine/pair_table.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/place.h"

namespace detent {

bool pairs_bytes(const PairForm& form) {
  return fits_bytes(form.a) && fits_bytes(form.b) && fits_bytes(form.output);
}

bool has_pair_kernel(const PairForm& form) {
  if (form.fixed_point || form.output.is_sign) return false;
  const auto is_usual = [](const CodeType& type) { return type.scale > 1e-9F && type.scale < 1e9F; };
  switch (form.operation) {
    case PairOperation::kAdd:
    case PairOperation::kSub:
      return form.output.scale > 1e-30F;
    case PairOperation::kMul:
      return is_usual(form.a) && is_usual(form.b) && is_usual(form.output);
    case PairOperation::kDiv:
    case PairOperation::kPrelu:
      return false;
  }
  return false;
}

ByteAddition byte_addition(const PairForm& form) {
  const SumFinish finish = finish_for(form.output);
  return {.scale_a = form.a.scale,
          .scale_b = form.operation == PairOperation::kSub ? -form.b.scale : form.b.scale,
          .scale = form.output.scale,
          .zero_a = form.a.zero_point - form.a.low,
          .zero_b = form.b.zero_point - form.b.low,
          .least = finish.least,
          .most = finish.most,
          .zero = finish.zero};
}

/// With factors f = scale / result's scale and u = 2^-24 the steps below 256 that both ways give differ by
/// less than
///
///     u (255 (2 |f_a| + 3 |f_b|) + 2 (|f_a| zero_a + |f_b| zero_b) + 3 * 256)
///
/// the roundings of factors, start and the two sums here, and of products, sum and quotient there.
QuickAddition quick_addition(const ByteAddition& s) {
  const float factor_a = s.scale_a / s.scale;
  const float factor_b = s.scale_b / s.scale;
  const double start = double{factor_a} * s.zero_a + double{factor_b} * s.zero_b;
  const double a = std::fabs(double{factor_a});
  const double b = std::fabs(double{factor_b});
  const double apart = 255 * (2 * a + 3 * b) + 2 * (a * s.zero_a + b * s.zero_b) + 768;
  const bool is_near = apart < 0x1p20;
  return {.factor_a = factor_a,
          .factor_b = factor_b,
          .start = static_cast<float>(-start),
          .most_away = is_near ? static_cast<float>(0.5 - 0x1.2p-24 * apart) : 0.0F};
}

ByteProduct byte_product(const PairForm& form) {
  const ByteAddition same = byte_addition(form);
  return {same.scale_a, same.scale_b, same.scale, same.zero_a, same.zero_b, same.least, same.most, same.zero};
}

std::vector<uint8_t> pair_table(const PairForm& form) {
  constexpr size_t kBytes = 256;
  std::vector<uint8_t> table(kBytes * kBytes);
  for (int32_t a = form.a.low; a <= form.a.high; ++a) {
    for (int32_t b = form.b.low; b <= form.b.high; ++b) {
      const auto at = static_cast<size_t>(a - form.a.low) * kBytes + static_cast<size_t>(b - form.b.low);
      table[at] = static_cast<uint8_t>(form.code(a, b) - form.output.low);
    }
  }
  return table;
}

}  // namespace detent
