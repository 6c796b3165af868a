#include "detent/formats/blocks/nvfp4.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "detent/formats/elements/minifloat-inl.h"

namespace detent {

// The kernel gives the elements themselves, to be kept as they are, unless the scale rounded to 0.
BlockScales Nvfp4::scales(const double* numbers) const {
  const auto stored = static_cast<float>(*numbers);
  BlockScales scales;
  for (const float block_scale : minifloat_magnitudes(Nvfp4Parameters::kScaleGrid)) {
    const float scale = block_scale * stored;
    if (!std::isfinite(scale)) break;
    scales.push_back({.factor = static_cast<double>(scale),
                      .plain_element = true,
                      .plain_value = std::isfinite(scale * Fp4E2M1::kGrid.largest),
                      .to_element = scale > 0 ? 1.0F : 0.0F,
                      .to_value = scale,
                      .toward_zero = false});
  }
  return scales;
}

Nvfp4Parameters Nvfp4::parameters(const Group& group, uint64_t /*seed*/) const {
  if (tensor_scale) return {.tensor_scale = *tensor_scale};
  const float scale = group.largest_magnitude() / kLargestInScales;
  return {.tensor_scale = scale > 0 ? scale : 1.0F};
}

Nvfp4 Nvfp4::qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const {
  const auto largest = static_cast<float>(format_detail::largest_magnitude(ranges));
  const float exact = largest / kLargestInScales;
  Nvfp4 result = *this;
  result.tensor_scale = 1.0F;
  if (exact > 0) {
    result.tensor_scale = form == ScaleForm::kPowerOfTwo
                              ? format_detail::power_of_two_not_below(static_cast<double>(exact))
                              : exact;
  }
  return result;
}

SharedScale Nvfp4Parameters::shared_scale(float max) const {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 1> d;
  const HWY_NAMESPACE::MinifloatArithmetic<decltype(d)> scales(kScaleGrid.mantissa_bits);
  const auto least = hn::Set(d, kLeastScaleAddend);
  const float quotient = max > 0 ? max / 6.0F / tensor_scale : kScaleGrid.largest;
  const auto held = hn::Set(d, std::min(quotient, kScaleGrid.largest));
  const float scale = hn::GetLane(scales.Round(d, held, least)) * tensor_scale;
  const float divisor = scale > 0 ? scale : 1.0F;
  return {.shared = {scale, divisor, 1 / divisor},
          .code = static_cast<uint8_t>(hn::GetLane(scales.Number(d, held, least))),
          .plain = scale >= kSmallestPlain && scale <= kLargestPlain};
}

}  // namespace detent
