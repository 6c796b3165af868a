#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "detent/formats/quant_spec.h"

namespace detent {

/// Values and how often each occurs.
struct CountedValues {
  std::span<const float> values;
  std::span<const int64_t> counts;  // above 0
};

/// The key of a parameter that `qparams_from_range` would take from the data, but that the format assumes
/// where it is not given, as here: frac_width of fixed, exponent_bias of minifloats and log. nullptr for
/// other formats.
const char* assumed_key(const Format& format);
/// `spec` with such a parameter taken from the finite elements of `tensor` (float32): it holds the largest
/// magnitude without saturating, as calibrator min_max does. As it is where nothing is assumed, and where
/// there is nothing but 0 to hold.
QuantSpec completed_from(const Tensor& tensor, const QuantSpec& spec);

// Verbs of calibration beside `qparams_from_range`. Exceptions are in calibrating.cc.

/// Whether calibration can give parameters: by `qparams_from_range` or by `fitted`.
bool is_calibratable(const Format& format);

/// Factor on the data's largest magnitude where the search for the range begins: above 1 only where the
/// threshold is a small part of the range.
double widest_range_factor(const Format& format);

/// Whether values are codes times a data-dependent scale, the mean |x| of nonzero codes.
bool is_scaled_by_data(const Format& format);
/// The format without such a scale, so that its values are the codes.
Format without_data_scale(const Format& format);

/// Whether the parameters can be derived from a range.
bool is_ranged(const Format& format);
/// The format times a scale that calibration gives, for formats whose few values rarely are where the data
/// are: fp8, fp6, fp4. As it is otherwise.
Format with_scale(const Format& format);
/// Granularity of weights: a scale for all of `spec` that can have one (formats of one or two bits the mean
/// |x| that they derive), and parameters for each channel or group at `axis` where the format has such;
/// `spec` wins where it names a granularity.
QuantSpec with_weight_scales(const QuantSpec& spec, Granularity granularity, int64_t axis,
                             std::optional<int64_t> group_size);

/// Whether the parameters can be fitted to values.
bool is_fitted(const Format& format);
/// With the parameters of least squared error for these values (not empty). Requires is_fitted.
Format fitted(const Format& format, const CountedValues& data);

}  // namespace detent
