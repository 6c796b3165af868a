#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Parameters of the kernel: value = clamp(round(x / scale), low, high) * scale.
struct AffineParameters {
  float scale;
  float low;  // codes minus zero point
  float high;
  int zero_point;
  int width;  // of a code
  bool is_signed;

  std::array<float, 4> lanes() const { return {scale, low, high, static_cast<float>(zero_point)}; }
  static ElementKernels<AffineParameters> kernels();
};

/// Integers q of `width` bits with a scale and a zero point per group: q = clamp(round(x / scale) +
/// zero_point, lo, hi), a float32 division, ties to even; value (q - zero_point) * scale in float32. As ONNX
/// QuantizeLinear. One zero, no infinity, no NaN; saturates. A narrow range leaves out the lowest code.
/// Without `scale`, both come from the range of the group's finite elements, widened to include 0:
/// (max - min) / (hi - lo) and clamp(round(lo - min / scale), lo, hi); symmetric: max|x| / hi and 0.
/// A range of width 0 gives scale 1. Codes whose value is beyond float32 are not used.
struct Affine {
  static constexpr const char* kName = "affine";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "an integer minus a zero point, times a scale";
  using Parameters = AffineParameters;
  static constexpr bool kRangePerChannel = true;
  static constexpr bool kHasNan = false;

  int width = 8;
  bool is_signed = true;
  bool symmetric = false;
  bool narrow_range = false;
  std::vector<float> scale = {};
  std::vector<int> zero_point = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value", Between{2, 24});
    visit("signed", self.is_signed, "codes of both signs");
    visit("symmetric", self.symmetric, "derive a zero point of 0");
    visit("narrow_range", self.narrow_range, "do without the lowest code");
    visit("scale", self.scale, "step between values, one, or one a channel or group; empty: from the data",
          Between{1e-45, std::numeric_limits<float>::max()});
    visit("zero_point", self.zero_point, "code of 0, as many; empty: 0, or from the data");
  }

  int low_code() const { return (is_signed ? -(1 << (width - 1)) : 0) + (narrow_range ? 1 : 0); }
  int high_code() const { return (1 << (is_signed ? width - 1 : width)) - 1; }

  /// The scale that a learned one replaces. A zero point that is not given is 0 then.
  std::vector<float> given_scale() const { return scale; }
  Affine with_unit_scale() const {
    Affine codes = *this;
    codes.scale.assign(std::max<size_t>(zero_point.size(), 1), 1.0F);
    return codes;
  }
  double largest_code() const {
    const int least_zero = zero_point.empty() ? 0 : *std::ranges::min_element(zero_point);
    return std::max(high_code() - least_zero, 1);
  }

  /// With a scale and, unless symmetric, a zero point for each of `ranges`, as derived from data of that
  /// range.
  Affine qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  /// Whether no group's zero point is anything but 0, whatever the data.
  bool zero_points_are_zero() const { return zero_point.empty() && (symmetric || !scale.empty()); }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const {
    return scale.size() == 1 ? "key \"scale\" gives one for the whole tensor" : nullptr;
  }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;
  std::vector<ParameterStream> streams() const;
  void store(const Parameters& group, double* numbers) const;
  Parameters stored_parameters(const double* numbers) const;
  Interval unsaturated(const Parameters& group) const;

  bool operator==(const Affine&) const = default;

 private:
  Parameters of_range(Interval range, ScaleForm form = ScaleForm::kFloat) const;
  Parameters of(float group_scale, int group_zero_point) const;
};

}  // namespace detent
