#include "detent/formats/reference/reference_for_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/formats/elements/counter_random.h"
#include "detent/formats/groups/group_parameters.h"

namespace detent {
namespace {

double round_half_even(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2.0) == 0.0 ? below : below + 1;
}

float reference_value(const Fixed& format, const FixedParameters&, float x, uint64_t) {
  return reference_fixed(format, x);
}

float reference_value(const Ternary&, const TernaryParameters& group, float x, uint64_t) {
  if (std::isnan(x)) return x;
  if (x > group.delta) return group.alpha;
  return x < -group.delta ? 0 - group.alpha : 0.0F;
}

template <class Format>
float reference_value(const Format&, const MinifloatParameters& group, float x, uint64_t) {
  return reference_minifloat(group.grid, x);
}

float reference_value(const Scaled&, const ScaledParameters& group, float x, uint64_t) {
  if (std::isnan(x)) return x;
  return reference_minifloat(group.element.grid, x / group.scale) * group.scale;
}

float reference_value(const Affine& format, const AffineParameters& group, float x, uint64_t) {
  if (std::isnan(x)) return x;
  const double quotient = static_cast<double>(x / group.scale);
  const double code =
      std::clamp<double>(round_half_even(quotient) + group.zero_point, format.low_code(), format.high_code());
  const float value = static_cast<float>(code - group.zero_point) * group.scale;
  if (std::isfinite(value)) return value;
  return (value < 0 ? group.low : group.high) * group.scale;
}

float reference_value(const Log& format, const LogParameters&, float x, uint64_t) {
  if (std::isnan(x)) return x;
  const double magnitude = std::fabs(static_cast<double>(x));
  int exponent = -format.bias();
  if (std::isinf(x)) {
    exponent = format.max_exponent();
  } else if (magnitude > 0) {
    const int below = std::ilogb(magnitude);
    const double mantissa = std::ldexp(magnitude, -below);
    exponent = std::clamp(mantissa * mantissa > 2 ? below + 1 : below, -format.bias(), format.max_exponent());
  }
  return static_cast<float>(std::ldexp(x < 0 ? -1.0 : 1.0, exponent));
}

float reference_value(const Codebook& format, const CodebookParameters&, float x, uint64_t) {
  if (std::isnan(x)) return x;
  const auto& values = format.entries;
  const auto above = std::ranges::lower_bound(values, x);
  if (above == values.begin()) return values.front();
  if (above == values.end()) return values.back();
  const long double to_low = static_cast<long double>(x) - static_cast<long double>(*(above - 1));
  const long double to_high = static_cast<long double>(*above) - static_cast<long double>(x);
  return to_low <= to_high ? *(above - 1) : *above;
}

float reference_value(const BinaryResidual&, const BinaryResidualParameters& group, float x, uint64_t) {
  if (std::isnan(x)) return x;
  float sum = 0;
  for (const float gamma : group.gammas) {
    const float term = x >= 0 ? gamma : -gamma;
    x -= term;
    sum += term;
  }
  return sum;
}

float reference_value(const Binary& format, const BinaryParameters& group, float x, uint64_t index) {
  if (std::isnan(x)) return x;
  if (!format.stochastic) return x >= 0 ? group.high : group.low;
  const uint32_t draw = counter_draw(counter_key(group.seed, index >> 32), static_cast<uint32_t>(index));
  const double uniform = std::ldexp(static_cast<double>(draw >> 8), -24);
  const double probability = std::clamp((static_cast<double>(x) + 1) / 2, 0.0, 1.0);
  return uniform < probability ? group.high : group.low;
}

}  // namespace

// A product of a float32 and a power of two within 2^+-96 is exact in double, and so is adding 1/2 or
// comparing.
float reference_fixed(const Fixed& format, float x) {
  if (std::isnan(x)) return x;
  const double scaled = std::ldexp(static_cast<double>(x), format.fraction_bits());
  const double code = format.rounding == Rounding::kFloor ? std::floor(scaled) : round_half_even(scaled);
  const double held = std::clamp(code, format.low_code(), format.high_code());
  return round_toward_zero(std::ldexp(held, -format.fraction_bits())) + 0.0F;  // there is no -0
}

// |x| / step is exact in double: both have few bits and exponents within 2^+-300.
float reference_minifloat(const MinifloatGrid& grid, float x) {
  if (std::isnan(x)) return x;
  const double magnitude = std::fabs(static_cast<double>(x));
  const double largest = static_cast<double>(grid.largest);
  if (std::isinf(x)) return grid.to_infinity ? x : std::copysign(grid.largest, x);
  if (magnitude == 0) return grid.one_zero ? 0.0F : x;
  const int exponent = std::max(std::ilogb(magnitude), grid.min_exponent);
  const double rounded = round_half_even(std::ldexp(magnitude, grid.mantissa_bits - exponent));
  const double value = std::ldexp(rounded, exponent - grid.mantissa_bits);
  if (value == 0 && grid.one_zero) return 0.0F;
  if (value <= largest) return std::copysign(static_cast<float>(value), x);
  return std::copysign(grid.to_infinity ? std::numeric_limits<float>::infinity() : grid.largest, x);
}

Tensor reference_fake_quantize(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor output = input.clone();
  if (input.numel() == 0) return output;
  if (block_size(spec.format)) return reference_blocks(spec, input);
  const Grouping grouping = make_grouping(spec, input.shape());
  const GroupParameters parameters = derive_parameters(spec, input, grouping, seed);
  const std::span<float> values = output.values<float>();
  std::visit(
      [&]<class F>(const F& format) {
        if constexpr (ElementFormat<F>) {
          const auto& groups = std::get<std::vector<typename F::Parameters>>(parameters);
          for (size_t i = 0; i < values.size(); ++i) {
            const auto group = static_cast<size_t>(grouping.group_of(static_cast<int64_t>(i)));
            values[i] = reference_value(format, groups[group], values[i], i);
          }
        }
      },
      spec.format);
  return output;
}

}  // namespace detent
