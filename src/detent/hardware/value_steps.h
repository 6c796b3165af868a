#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/formats/quant_spec.h"

namespace detent {

/// `value` counted in steps, where it is a multiple.
std::optional<int64_t> steps_of(float value, float step);

/// The largest step that all of the values are multiples of: the least of their magnitudes, which formats of
/// a few values have.
std::optional<float> step_of(std::span<const float> values);

/// The values that a format has whatever the data; none where they depend on these or are too many.
std::vector<float> fixed_values(const QuantSpec& rounding);

}  // namespace detent
