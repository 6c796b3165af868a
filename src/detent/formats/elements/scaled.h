#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/minifloat.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Rows of kMinifloatStandards whose range requires a scale.
enum class ScaledElement { kFp8E4M3Fn, kFp8E5M2, kFp8E4M3Fnuz, kFp8E5M2Fnuz, kFp6E3M2, kFp6E2M3, kFp4E2M1 };
inline constexpr size_t kScaledElements = 7;
constexpr std::array<const char*, kScaledElements> enum_names(ScaledElement) {
  std::array<const char*, kScaledElements> names{};
  for (size_t row = 0; row < kScaledElements; ++row) names[row] = kMinifloatStandards[row].name;
  return names;
}
static_assert(minifloat_row("fp4_e2m1") == kScaledElements - 1);

/// Parameters of the kernel: value = element nearest to x / scale, times scale.
struct ScaledParameters {
  MinifloatParameters element;
  float scale;

  static ElementKernels<ScaledParameters> kernels();
};

/// A standard minifloat of 4 to 8 bits with a scale per group: e is the element nearest to x / scale, a
/// float32 division, ties to the even code; value e * scale in float32. As ONNX QuantizeLinear to float8 and
/// DequantizeLinear. Zeros, NaN codes as the element's; saturates, infinities too.
/// Without `scale` it is max|x| / largest element over the group's finite elements; 1 where that is 0. Scales
/// are held to those whose largest value is a float32.
struct Scaled {
  static constexpr const char* kName = "scaled";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "a small standard float, times a scale";
  using Parameters = ScaledParameters;
  static constexpr bool kRangePerChannel = true;
  static constexpr bool kHasNan = true;

  ScaledElement element = ScaledElement::kFp8E4M3Fn;
  std::vector<float> scale = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("element", self.element, "format of the elements");
    visit("scale", self.scale,
          "what elements are multiplied with, one, or one a channel or group; empty: from the data",
          kAboveZero);
  }

  const MinifloatStandard& standard() const { return kMinifloatStandards[static_cast<size_t>(element)]; }

  /// With a scale for each of `ranges`, as derived from data of that range.
  Scaled qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return standard().width(); }
  bool groups_are_channels() const { return false; }
  bool has_nan() const { return standard().reserved != ReservedCodes::kNone; }
  const char* channel_conflict() const {
    return scale.size() == 1 ? "key \"scale\" gives one for the whole tensor" : nullptr;
  }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;
  std::vector<ParameterStream> streams() const;
  void store(const Parameters& group, double* numbers) const { *numbers = static_cast<double>(group.scale); }
  Parameters stored_parameters(const double* numbers) const { return of(static_cast<float>(*numbers)); }
  Interval unsaturated(const Parameters& group) const;

  bool operator==(const Scaled&) const = default;

 private:
  Parameters of(float group_scale) const;
  /// The largest scale whose largest value is a float32.
  float largest_scale() const;
  float scale_for(double magnitude, ScaleForm form) const;
};

}  // namespace detent
