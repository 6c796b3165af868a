#include "detent/formats/groups/learned_scale.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "detent/core/convert.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

/// Result of `ask` for a format that has a scale.
template <class Function>
auto ask_scaled(const QuantSpec& spec, Function ask) {
  using Result = decltype(ask(Fixed()));
  return std::visit(
      [&]<class F>(const F& format) -> Result {
        if constexpr (ScaledFormat<F>) return ask(format);
        DETENT_CHECK(false, "a learned scale of {}", F::kName);
        return Result();
      },
      spec.format);
}

/// Whether the codes are sums of signs, 1 the largest.
bool has_signs(const Format& format) {
  return std::holds_alternative<Ternary>(format) || std::holds_alternative<Binary>(format) ||
         std::holds_alternative<BinaryResidual>(format);
}

/// The format's own scale for each of `groups`; empty when it has none.
std::vector<float> own_scales(const QuantSpec& spec, int64_t groups, const std::string& where) {
  if (has_signs(spec.format)) return {};
  std::vector<float> scales = ask_scaled(spec, [](const auto& format) { return format.given_scale(); });
  if (scales.size() == 1) scales.resize(static_cast<size_t>(groups), scales.front());
  if (!scales.empty() && static_cast<int64_t>(scales.size()) != groups) {
    fail("{}: key \"scale\": got {} values, expected 1 or {}", where, scales.size(), groups);
  }
  return scales;
}

/// The one of these that element i has, of one in all or one a group.
template <class Numbers>
auto of_group(const Numbers& numbers, const Grouping& grouping, size_t i) {
  return numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(grouping.group_of(static_cast<int64_t>(i)))];
}

Format with_unit_scale(const QuantSpec& spec) {
  constexpr float kHalf = 0.5F;
  if (const auto* ternary = std::get_if<Ternary>(&spec.format))
    return Ternary{.threshold = ternary->threshold.value_or(kHalf)};
  if (const auto* binary = std::get_if<Binary>(&spec.format))
    return Binary{.bipolar = binary->bipolar, .stochastic = binary->stochastic};
  return ask_scaled(spec, [](const auto& format) -> Format { return format.with_unit_scale(); });
}

/// Where only the mean magnitude is known, each level begins with half of what the one before has.
Tensor halving_gammas(const QuantSpec& spec, double mean_magnitude) {
  std::vector<float> gammas;
  float next = mean_magnitude > 0 ? static_cast<float>(mean_magnitude) : 1.0F;
  while (gammas.size() < static_cast<size_t>(std::get<BinaryResidual>(spec.format).levels)) {
    gammas.push_back(next);
    next /= 2;
  }
  return Tensor::from<float>({static_cast<int64_t>(gammas.size())}, gammas);
}

/// Scales that keep most of what such a format loses: of binary_residual the mean magnitude that each level
/// finds, of ternary that of the elements above 3/4 of the mean (Li et al. 2016), of binary of all.
std::vector<float> scales_of_signs(const QuantSpec& spec, const Tensor& values, const Grouping& grouping) {
  constexpr float kTernaryShare = 0.75F;
  std::vector<float> scales;
  for (int64_t g = 0; g < grouping.groups(); ++g) {
    const Group group(values.values<float>(), grouping, g);
    if (const auto* residual = std::get_if<BinaryResidual>(&spec.format))
      return residual->parameters(group, 0).gammas;
    const auto mean = static_cast<float>(group.magnitudes().mean());
    const bool is_ternary = std::holds_alternative<Ternary>(spec.format);
    const float above =
        is_ternary ? static_cast<float>(group.magnitudes_above(kTernaryShare * mean).mean()) : mean;
    scales.push_back(above > 0 ? above : 1.0F);
  }
  return scales;
}

/// Rounds x / scale, in place, to what codes less their zero points are, not to the nearest.
void round_to_codes(const QuantSpec& spec, Rounding rounding, const Tensor* round_up,
                    const Grouping& grouping, std::span<float> values) {
  const std::optional<IntegerCodes> integers = integer_codes(spec.format);
  DETENT_CHECK(integers.has_value(), "{} has no integers", quant_spec_text(spec));
  const std::vector<int> zeros = given_scales(spec.format).zero_points;
  round_to_whole(rounding, values, values, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (round_up != nullptr) values[i] += round_up->values<float>()[i] >= 0 ? 1.0F : 0.0F;
    const int zero = zeros.empty() ? 0 : of_group(zeros, grouping, i);
    if (!std::isnan(values[i])) {
      values[i] = std::clamp(values[i], static_cast<float>(integers->low() - zero),
                             static_cast<float>(integers->high() - zero));
    }
  }
}

}  // namespace

QuantSpec code_spec(const QuantSpec& spec) {
  QuantSpec codes;
  codes.format = with_unit_scale(spec);
  codes.gradient = Gradient::kClipped;
  if (may_have_channels(codes.format)) {
    codes.granularity = spec.granularity;
    codes.axis = spec.axis;
    codes.group_size = spec.group_size;
  }
  return codes;
}

double largest_code(const QuantSpec& spec) {
  if (has_signs(spec.format)) return 1;
  return ask_scaled(spec, [](const auto& format) { return format.largest_code(); });
}

Shape scale_shape(const QuantSpec& spec, const Shape& shape) {
  if (const auto* residual = std::get_if<BinaryResidual>(&spec.format)) return {residual->levels};
  return spec.granularity == Granularity::kTensor ? Shape() : Shape{make_grouping(spec, shape).groups()};
}

void check_learned_scale(std::span<const float> scale) {
  for (const float value : scale) {
    if (value > 0 && std::isfinite(value)) continue;
    fail(
        "the learned scale is {}, expected above 0: try a smaller learning rate of scales, or a quantizer "
        "that learns their logarithms (int4_log instead of int4_lsq)",
        value);
  }
}

Tensor fake_quantize_scaled(const QuantSpec& spec, const Tensor& scale, Rounding rounding,
                            const Tensor* round_up, const Tensor& input, uint64_t seed) {
  const DefaultFloatEnvironment environment;
  const auto scales = scale.values<float>();
  check_learned_scale(scales);
  const auto check_shape = [](const char* parameter, const Shape& shape, const Shape& expected) {
    if (shape == expected) return;
    fail("{} has shape {}, expected {}", parameter, shape_text(shape), shape_text(expected));
  };
  check_shape("the learned scale", scale.shape(), scale_shape(spec, input.shape()));
  if (round_up != nullptr) check_shape("its learned rounding", round_up->shape(), input.shape());
  const Grouping grouping = make_grouping(spec, input.shape());
  Tensor result = rounding == Rounding::kDorefa ? tanh_normalized(input) : to_float32(input).clone();
  const auto values = result.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] /= of_group(scales, grouping, i);
  if (is_nearest_after_training(rounding)) {
    fake_quantize(code_spec(spec), result, result, seed);
  } else {
    round_to_codes(spec, rounding, round_up, grouping, values);
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] *= of_group(scales, grouping, i);
  return result;
}

Tensor initial_scale(const QuantSpec& spec, const Tensor& values, const std::string& where) {
  const DefaultFloatEnvironment environment;
  const Grouping grouping = make_grouping(spec, values.shape());
  if (has_signs(spec.format))
    return Tensor::from<float>(scale_shape(spec, values.shape()), scales_of_signs(spec, values, grouping));
  std::vector<double> means;
  for (int64_t g = 0; g < grouping.groups(); ++g)
    means.push_back(Group(values.values<float>(), grouping, g).magnitudes().mean());
  return initial_scale(spec, values.shape(), means, where);
}

Tensor initial_scale(const QuantSpec& spec, const Shape& shape, std::span<const double> mean_magnitudes,
                     const std::string& where) {
  const DefaultFloatEnvironment environment;
  const auto groups = static_cast<size_t>(make_grouping(spec, shape).groups());
  if (mean_magnitudes.size() != groups)
    fail("{}: got {} mean magnitudes, expected {}", where, mean_magnitudes.size(), groups);
  if (std::holds_alternative<BinaryResidual>(spec.format)) return halving_gammas(spec, mean_magnitudes[0]);
  std::vector<float> scales = own_scales(spec, static_cast<int64_t>(groups), where);
  if (scales.empty()) scales.resize(groups, 1.0F);
  const double factor = has_signs(spec.format) ? 1 : 2 / std::sqrt(largest_code(spec));
  for (size_t g = 0; g < groups; ++g) {
    if (mean_magnitudes[g] > 0) scales[g] = static_cast<float>(factor * mean_magnitudes[g]);
  }
  return Tensor::from<float>(scale_shape(spec, shape), scales);
}

Tensor initial_scale(const QuantSpec& spec, const Shape& shape, const std::string& where) {
  const std::vector<float> scales = own_scales(spec, make_grouping(spec, shape).groups(), where);
  if (scales.empty()) {
    fail(
        "{}: key \"scale\": a learned scale needs one to begin from: give it, or run profile_statistics with "
        "abs_mean of this operand before quantize, which gives 2 * mean |x| / sqrt(largest code)",
        where);
  }
  return Tensor::from<float>(scale_shape(spec, shape), scales);
}

}  // namespace detent
