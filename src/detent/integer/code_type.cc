#include "detent/integer/code_type.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/affine.h"
#include "detent/integer/requantize.h"

namespace detent {

std::optional<CodeType> code_type(const QuantSpec& spec) {
  constexpr int kMostBits = 16;
  const auto* affine = std::get_if<Affine>(&spec.format);
  if (affine == nullptr || affine->width > kMostBits || affine->scale.size() != 1) return std::nullopt;
  if (spec.scale_rule != ScaleRule::kGiven) return std::nullopt;
  CodeType type{.scale = affine->scale.front(),
                .zero_point = affine->zero_point.empty() ? 0 : affine->zero_point.front(),
                .low = affine->low_code(),
                .high = affine->high_code()};
  if (!std::isfinite(type.value(type.low)) || !std::isfinite(type.value(type.high))) return std::nullopt;
  return type;
}

FixedMultiplier FixedMultiplier::of(double real) {
  DETENT_CHECK(real >= 0, "multiplier {}", real);
  int exponent = 0;
  const double fraction = std::frexp(real, &exponent);
  auto fixed = static_cast<int64_t>(std::round(fraction * 0x1p31));
  if (fixed == int64_t{1} << 31) {
    fixed /= 2;
    ++exponent;
  }
  if (exponent < -31) return {0, 0};
  if (exponent > 30) fail("a multiplier of {} does not fit into 31 bits and a shift", real);
  return {static_cast<int32_t>(fixed), exponent};
}

}  // namespace detent
