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

/// One, or one a channel or group. Zero points: as many, or none.
struct GivenScales {
  std::vector<float> scales = {};
  std::vector<int> zero_points = {};
};
/// Scales that a format of codes times scales has been given; empty where they follow from the data.
GivenScales given_scales(const Format& format);
/// With others, of a format that can say them. Zero points are of integers alone.
Format with_scales(const Format& format, GivenScales given);
Format integer_format(const IntegerCodes& codes, GivenScales given = {});
/// The same integers with another width.
Format with_width(const Format& format, int width);

/// Whether rounding what was rounded changes nothing, since no range follows from it: integers with scales
/// that are given.
bool repeats_exactly(const Format& format);

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

/// A sign each, +1 or another code, times a factor unless that is not scaled.
struct SignCodes {
  bool is_bipolar;  // -1 and +1; else 0 and +1
  bool is_stochastic;
  BinaryScaling scaling;
};
std::optional<SignCodes> sign_codes(const Format& format);
/// Whether values are sums of signs, each times a level.
bool is_sum_of_signs(const Format& format);
/// Its levels; empty where they follow from the data, or it is none.
std::vector<float> sign_levels(const Format& format);

Format sum_of_signs(std::vector<float> levels);

/// The standard that floats with scales follow ("fp8_e4m3fn"); "" of others.
std::string_view scaled_standard(const Format& format);
/// Elements of blocks that share a power of two.
std::optional<MxElement> mx_element(const Format& format);
/// Whether the scales of blocks have a scale of the tensor above them.
bool has_tensor_scale(const Format& format);

/// Fields that a training may own: the threshold of -1, 0, +1.
bool has_threshold(const Format& format);
Format with_threshold(const Format& format, float threshold);
/// The values of a list; empty of other formats.
std::vector<float> listed_values(const Format& format);
Format format_of_values(std::vector<float> ascending);
/// The exponent bias of a minifloat that has a key for it.
std::optional<int> exponent_bias(const Format& format);
/// With another, rounded and held to what float32 can hold of the format's values. Throws Error where it is
/// not finite.
Format with_exponent_bias(const Format& format, float bias);

/// The whole number nearest to what training moves, held to what there is. Throws Error, with this name, on
/// what is not finite.
int nearest_whole(const char* name, float value, int low, int high);

}  // namespace detent
