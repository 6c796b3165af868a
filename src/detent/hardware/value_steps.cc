#include "detent/hardware/layer_circuits.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "detent/core/error.h"

namespace detent {

std::optional<int64_t> steps_of(float value, float step) {
  const double steps = std::nearbyint(static_cast<double>(value) / static_cast<double>(step));
  if (!(std::fabs(steps) < 0x1p15)) return std::nullopt;
  if (static_cast<float>(steps) * step != value) return std::nullopt;
  return static_cast<int64_t>(steps);
}

std::vector<float> fixed_values(const QuantSpec& rounding) {
  try {
    return std::visit(
        [](const auto& format) -> std::vector<float> {
          if constexpr (requires { format.values(std::string()); }) return format.values("");
          return {};
        },
        rounding.format);
  } catch (const Error&) {
    return {};
  }
}

std::optional<float> step_of(std::span<const float> values) {
  float step = 0;
  for (const float value : values) {
    if (value != 0 && (step == 0 || std::fabs(value) < step)) step = std::fabs(value);
  }
  if (step == 0) return 1.0F;
  const auto is_multiple = [&](float value) { return steps_of(value, step).has_value(); };
  return std::ranges::all_of(values, is_multiple) ? std::optional(step) : std::nullopt;
}

}  // namespace detent
