#include "detent/formats/elements/minifloat.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/minifloat.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"
#include "detent/formats/elements/minifloat_rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

ElementKernels<MinifloatParameters> MinifloatKernels() {
  return KernelsOf<MinifloatParameters, MinifloatKernel>();
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(MinifloatKernels);

ElementKernels<MinifloatParameters> MinifloatParameters::kernels() {
  return HWY_DYNAMIC_DISPATCH(MinifloatKernels)();
}

// The largest float32 whose rounding on an unbounded grid stays at `largest`. The exact edge is half a step
// above; as a tie it belongs to the even one of the two neighbours.
Interval unsaturated_by(const MinifloatGrid& grid) {
  const int exponent = std::max(std::ilogb(grid.largest), grid.min_exponent);
  const double step = std::ldexp(1.0, exponent - grid.mantissa_bits);
  const double edge = static_cast<double>(grid.largest) + step / 2;
  const float below = round_down(edge);
  const bool tie_leaves =
      static_cast<double>(below) == edge && std::fmod(static_cast<double>(grid.largest) / step, 2.0) != 0.0;
  const float last = tie_leaves ? std::nextafter(below, 0.0F) : below;
  return {-last, last};
}

MinifloatParameters minifloat_parameters(const MinifloatGrid& grid, int width, ReservedCodes reserved) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float edge = unsaturated_by(grid).high;
  return {.grid = grid,
          .overflow_from = grid.to_infinity ? std::nextafter(edge, kInfinity) : kInfinity,
          .overflow_value = grid.to_infinity ? kInfinity : grid.largest,
          .largest_number = minifloat_number(grid, grid.largest),
          .width = width,
          .reserved = reserved};
}

int32_t minifloat_number(const MinifloatGrid& grid, float magnitude) {
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), grid.min_exponent);
  const double steps = std::ldexp(static_cast<double>(magnitude), grid.mantissa_bits - exponent);
  return static_cast<int32_t>(steps) + (exponent - grid.min_exponent) * (1 << grid.mantissa_bits);
}

std::vector<float> minifloat_magnitudes(const MinifloatGrid& grid) {
  std::vector<float> magnitudes;
  const int first_normal = 1 << grid.mantissa_bits;
  for (int exponent = grid.min_exponent; exponent <= std::ilogb(grid.largest); ++exponent) {
    for (int k = exponent == grid.min_exponent ? 0 : first_normal; k < 2 * first_normal; ++k) {
      const float value = std::ldexp(static_cast<float>(k), exponent - grid.mantissa_bits);
      if (value <= grid.largest) magnitudes.push_back(value);
    }
  }
  return magnitudes;
}

std::vector<float> minifloat_values(const MinifloatGrid& grid) {
  const std::vector<float> magnitudes = minifloat_magnitudes(grid);
  std::vector<float> values;
  for (size_t i = magnitudes.size(); i > 1; --i) values.push_back(-magnitudes[i - 1]);
  values.insert(values.end(), magnitudes.begin(), magnitudes.end());
  return values;
}

void check_mantissa_bits(int width, int exponent_width, int fewest, int most, const std::string& where) {
  const int mantissa_bits = width - 1 - exponent_width;
  if (mantissa_bits >= fewest && mantissa_bits <= most) return;
  fail(
      "{}: key \"exponent_width\": got {}, which leaves {} mantissa bits of width {}, expected at least {} "
      "and at most {}",
      where, exponent_width, mantissa_bits, width, fewest, most);
}

void check_exponent_bias(const std::optional<int>& given, int bias, int low, int high,
                         const std::string& where) {
  if (bias >= low && bias <= high) return;
  fail(
      "{}: key \"exponent_bias\": got {}{}, expected at least {} and at most {}, so that float32 holds all "
      "values",
      where, given ? "" : "NA, which stands for ", bias, low, high);
}

MinifloatGrid MinifloatIeee::grid() const {
  const int top_exponent = (1 << exponent_width) - 1 - bias();
  const float top_code = static_cast<float>((2 << mantissa_bits()) - 1);
  return {.mantissa_bits = mantissa_bits(),
          .min_exponent = 1 - bias(),
          .largest = std::ldexp(top_code, top_exponent - mantissa_bits())};
}

MinifloatIeee MinifloatIeee::qparams_from_range(std::span<const Interval> ranges, ScaleForm /*form*/) const {
  return format_detail::with_bias_for_range(*this, static_cast<double>(grid().largest),
                                            (1 << exponent_width) - 128, 150 - mantissa_bits(), ranges);
}

void MinifloatIeee::validate(const std::string& where) const {
  check_mantissa_bits(width, exponent_width, 0, 22, where);
  check_exponent_bias(exponent_bias, bias(), (1 << exponent_width) - 128, 150 - mantissa_bits(), where);
}

std::vector<float> MinifloatIeee::values(const std::string& /*where*/) const {
  return minifloat_values(grid());
}

MinifloatParameters MinifloatIeee::parameters() const { return minifloat_parameters(grid(), width); }

MinifloatGrid MinifloatDenorm::grid() const {
  const int top_exponent = (1 << exponent_width) - 1 - bias();
  const auto top_code = static_cast<float>((1 << mantissa_bits()) - 1);
  return {.mantissa_bits = mantissa_bits() - 1,
          .min_exponent = -bias() - 1,
          .largest = std::ldexp(top_code, top_exponent - mantissa_bits())};
}

MinifloatDenorm MinifloatDenorm::qparams_from_range(std::span<const Interval> ranges,
                                                    ScaleForm /*form*/) const {
  return format_detail::with_bias_for_range(*this, static_cast<double>(grid().largest),
                                            (1 << exponent_width) - 129, 149 - mantissa_bits(), ranges);
}

void MinifloatDenorm::validate(const std::string& where) const {
  check_mantissa_bits(width, exponent_width, 1, 22, where);
  check_exponent_bias(exponent_bias, bias(), (1 << exponent_width) - 129, 149 - mantissa_bits(), where);
}

std::vector<float> MinifloatDenorm::values(const std::string& /*where*/) const {
  return minifloat_values(grid());
}

MinifloatParameters MinifloatDenorm::parameters() const {
  MinifloatParameters result = minifloat_parameters(grid(), width);
  result.is_denorm = true;
  return result;
}

}  // namespace detent
#endif  // HWY_ONCE
