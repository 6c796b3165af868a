#include "detent/formats/reference.h"

#include <algorithm>
#include <cmath>

#include "detent/formats/counter_random.h"
#include "detent/formats/group_parameters.h"

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
  return x < -group.delta ? -group.alpha : 0.0F;
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
  return round_toward_zero(std::ldexp(held, -format.fraction_bits()));
}

Tensor reference_simulate(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor output = input.clone();
  if (input.numel() == 0) return output;
  const Grouping grouping = make_grouping(spec, input.shape());
  const GroupParameters parameters = derive_parameters(spec, input, grouping, seed);
  const std::span<float> values = output.values<float>();
  std::visit(
      [&]<class F>(const F& format) {
        const auto& groups = std::get<std::vector<typename F::Parameters>>(parameters);
        for (size_t i = 0; i < values.size(); ++i) {
          const size_t group = i / static_cast<size_t>(grouping.inner) % static_cast<size_t>(grouping.groups);
          values[i] = reference_value(format, groups[group], values[i], i);
        }
      },
      spec.format);
  return output;
}

}  // namespace detent
