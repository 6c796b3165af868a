#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "detent/formats/format.h"

namespace detent {

// Verbs: questions to any format, and formats derived from it.

/// Integers between two codes, times scales: value = (code - zero point) * scale.
struct IntegerCodes {
  int width = 8;
  bool is_signed = true;
  bool is_symmetric = false;  // zero points that follow from data are 0
  bool is_narrow = false;     // without the lowest code

  int low() const;
  int high() const;
};
/// nullopt of formats that are none.
std::optional<IntegerCodes> integer_codes(const Format& format);

/// One, or one per channel or group. Zero points: as many, or none.
struct GivenScales {
  std::vector<float> scales = {};
  std::vector<int> zero_points = {};
};
/// Given scales of a format of codes times scales; empty if they follow from the data.
GivenScales given_scales(const Format& format);
/// Replaces the scales of a format that has them. Only integers have zero points.
Format with_scales(const Format& format, GivenScales given);
Format integer_format(const IntegerCodes& codes, GivenScales given = {});
/// The same integers with another width.
Format with_width(const Format& format, int width);

/// Whether rounding is idempotent since no range follows from the data: integers with given scales.
bool repeats_exactly(const Format& format);

/// Whether channels and groups may have parameters of their own.
bool may_have_channels(const Format& format);

/// Integers times one power of two.
struct FixedPoint {
  int width;
  bool is_signed;
  double low;  // codes
  double high;
  float scale;
  bool floors;  // or rounds to the nearest
};
std::optional<FixedPoint> fixed_point(const Format& format);

/// Signs, +1 or another code, times a factor unless unscaled.
struct SignCodes {
  bool is_bipolar;  // -1 and +1; else 0 and +1
  bool is_stochastic;
  BinaryScaling scaling;
};
std::optional<SignCodes> sign_codes(const Format& format);
/// Whether values are sums of signs, each times a level.
bool is_sum_of_signs(const Format& format);
/// Levels; empty if they follow from the data, or for other formats.
std::vector<float> sign_levels(const Format& format);

Format sum_of_signs(std::vector<float> levels);

/// The standard that floats with scales follow ("fp8_e4m3fn"); "" of others.
std::string_view scaled_standard(const Format& format);
/// Elements of blocks that share a power of two.
std::optional<MxElement> mx_element(const Format& format);
/// Whether block scales are relative to a tensor scale.
bool has_tensor_scale(const Format& format);

/// Fields that training may own: the threshold of -1, 0, +1.
bool has_threshold(const Format& format);
Format with_threshold(const Format& format, float threshold);
/// The values of a list; empty of other formats.
std::vector<float> listed_values(const Format& format);
Format format_of_values(std::vector<float> ascending);
/// The exponent bias of a minifloat with a key for it.
std::optional<int> exponent_bias(const Format& format);
/// Replaces the bias, rounded and clamped to what float32 can hold. Throws Error if not finite.
Format with_exponent_bias(const Format& format, float bias);

/// A trained value rounded and clamped to the valid integers. Throws Error, with this name, if not finite.
int nearest_whole(const char* name, float value, int low, int high);

}  // namespace detent
