#include "detent/formats/elements/scaled.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/scaled.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"
#include "detent/formats/elements/minifloat_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// The element's kernel between a division and a multiplication.
template <class D, class Element>
class ScaledRounding {
  using V = hn::Vec<D>;
  using VI = hn::Vec<hn::RebindToSigned<D>>;

 public:
  ScaledRounding(D d, const Element& element, float scale) : element_(element), scale_(hn::Set(d, scale)) {}

  /// A NaN keeps its bits.
  HWY_INLINE V Round(D d, V x, uint64_t index) const {
    const V value = hn::Mul(element_.Round(d, hn::Div(x, scale_), index), scale_);
    return hn::IfThenElse(hn::IsNaN(x), x, value);
  }
  HWY_INLINE VI Encode(D d, V x, uint64_t index) const {
    return element_.Encode(d, hn::Div(x, scale_), index);
  }
  HWY_INLINE V Decode(D d, VI code) const { return hn::Mul(element_.Decode(d, code), scale_); }

 private:
  Element element_;
  V scale_;
};

template <class D>
struct ScaledKernel {
  template <class Visit>
  static HWY_INLINE void With(D d, const ScaledParameters& p, uint64_t first_index, const Visit& visit) {
    MinifloatKernel<D>::With(d, p.element, first_index, [&](const auto& element) HWY_ATTR {
      using Element = std::remove_cvref_t<decltype(element)>;
      visit(ScaledRounding<D, Element>(d, element, p.scale));
    });
  }
};

ElementKernels<ScaledParameters> ScaledKernels() { return KernelsOf<ScaledParameters, ScaledKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(ScaledKernels);

ElementKernels<ScaledParameters> ScaledParameters::kernels() { return HWY_DYNAMIC_DISPATCH(ScaledKernels)(); }

void Scaled::validate(const std::string& where) const {
  for (const float each : scale) {
    if (each <= largest_scale()) continue;
    fail("{}: key \"scale\": got {}, expected at most {}, so that float32 holds {} times it", where,
         float_text(static_cast<double>(each)), float_text(static_cast<double>(largest_scale())),
         standard().grid().largest);
  }
}

std::vector<float> Scaled::values(const std::string& where) const {
  if (scale.size() != 1) fail("{}: the values depend on the data: expected one \"scale\"", where);
  std::vector<float> values = minifloat_values(standard().grid());
  for (float& value : values) value *= scale.front();
  // A scale near the smallest float32 rounds neighbours to one value.
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Scaled Scaled::qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const {
  Scaled result = *this;
  result.scale.clear();
  for (const Interval& range : ranges)
    result.scale.push_back(scale_for(format_detail::largest_magnitude({&range, 1}), form));
  return result;
}

Scaled::Parameters Scaled::parameters(const Group& group, uint64_t /*seed*/) const {
  if (scale.empty()) return of(scale_for(static_cast<double>(group.largest_magnitude()), ScaleForm::kFloat));
  if (scale.size() > 1 && static_cast<int64_t>(scale.size()) != group.group_count()) {
    fail("scaled: key \"scale\": got {} values, expected one, or one for each channel or group, {}",
         scale.size(), group.group_count());
  }
  return of(scale[scale.size() == 1 ? 0 : static_cast<size_t>(group.index())]);
}

std::vector<ParameterStream> Scaled::streams() const {
  return {{"scales", DType::kFloat32, 1, {kAboveZero.low, static_cast<double>(largest_scale())}}};
}

Scaled::Parameters Scaled::of(float group_scale) const {
  return {.element = minifloat_parameters(standard().grid(), standard().width(), standard().reserved),
          .scale = group_scale};
}

float Scaled::largest_scale() const {
  constexpr auto kMax = static_cast<double>(std::numeric_limits<float>::max());
  return round_down(kMax / static_cast<double>(standard().grid().largest));
}

// In double, rounded to float32 once. A scale that underflows becomes the smallest one.
float Scaled::scale_for(double magnitude, ScaleForm form) const {
  const double exact = magnitude / static_cast<double>(standard().grid().largest);
  if (exact == 0) return 1.0F;
  const float rounded = form == ScaleForm::kPowerOfTwo ? format_detail::power_of_two_not_below(exact)
                                                       : static_cast<float>(exact);
  return std::clamp(rounded, std::numeric_limits<float>::denorm_min(), largest_scale());
}

// The quotient of the last float32 that does not saturate rounds to the edge of the element or below: from
// the product, that is a few steps off.
Interval Scaled::unsaturated(const Parameters& group) const {
  constexpr float kMax = std::numeric_limits<float>::max();
  const float edge = unsaturated_by(group.element.grid).high;
  float x = std::min(round_down(static_cast<double>(edge) * static_cast<double>(group.scale)), kMax);
  while (x < kMax && std::nextafter(x, kMax) / group.scale <= edge) x = std::nextafter(x, kMax);
  while (x / group.scale > edge) x = std::nextafter(x, 0.0F);
  return {-x, x};
}

}  // namespace detent
#endif  // HWY_ONCE
