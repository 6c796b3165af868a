#pragma once

#include <cstdint>
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

// What calibration asks of formats beside `qparams_from_range`. A format of which one of these does not hold
// as for most says so in calibrating.cc.

/// Whether there are parameters that calibration can give: by `qparams_from_range` or by `fitted`.
bool is_calibratable(const Format& format);

/// How far beyond the largest magnitude of the data a search for the range should begin: 1 but where the
/// threshold is a small part of the range, which then may have to be wider than the data.
double widest_range_factor(const Format& format);

/// Whether values are codes times a scale that the data give, the mean |x| of those whose code is not 0.
bool is_scaled_by_data(const Format& format);
/// The format without such a scale, so that its values are the codes.
Format without_data_scale(const Format& format);

/// Whether the parameters are fitted to values, not derived from a range.
bool is_fitted(const Format& format);
/// With the parameters of least squared error for these values (at least one). Only where is_fitted.
Format fitted(const Format& format, const CountedValues& data);

}  // namespace detent
