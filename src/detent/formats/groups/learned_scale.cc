#include "detent/formats/groups/learned_scale.h"

#include <cmath>

#include "detent/core/convert.h"
#include "detent/formats/float_environment.h"
#include "detent/formats/groups/group_parameters.h"

namespace detent {
namespace {

/// What `ask` says of a format that has a scale.
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

/// The format's own scale for each of `groups`; empty when it has none.
std::vector<float> own_scales(const QuantSpec& spec, int64_t groups, const std::string& where) {
  std::vector<float> scales = ask_scaled(spec, [](const auto& format) { return format.given_scale(); });
  if (scales.size() == 1) scales.resize(static_cast<size_t>(groups), scales.front());
  if (!scales.empty() && static_cast<int64_t>(scales.size()) != groups) {
    fail("{}: key \"scale\": got {} values, expected 1 or {}", where, scales.size(), groups);
  }
  return scales;
}

}  // namespace

QuantSpec code_spec(const QuantSpec& spec) {
  QuantSpec codes;
  codes.format = ask_scaled(spec, [](const auto& format) -> Format { return format.with_unit_scale(); });
  codes.gradient = Gradient::kClipped;
  const bool same_for_channels =
      std::visit([](const auto& format) { return format.channel_conflict() != nullptr; }, codes.format);
  if (!same_for_channels) {
    codes.granularity = spec.granularity;
    codes.axis = spec.axis;
    codes.group_size = spec.group_size;
  }
  return codes;
}

double largest_code(const QuantSpec& spec) {
  return ask_scaled(spec, [](const auto& format) { return format.largest_code(); });
}

Shape scale_shape(const QuantSpec& spec, const Shape& shape) {
  return spec.granularity == Granularity::kTensor ? Shape() : Shape{make_grouping(spec, shape).groups()};
}

void check_learned_scale(std::span<const float> scale) {
  for (const float value : scale) {
    if (value > 0 && std::isfinite(value)) continue;
    fail("the learned scale is {}, expected above 0: try a smaller learning rate", value);
  }
}

Tensor simulate_with_scale(const QuantSpec& spec, const Tensor& scale, const Tensor& input, uint64_t seed) {
  const DefaultFloatEnvironment environment;
  const auto scales = scale.values<float>();
  check_learned_scale(scales);
  const Shape expected = scale_shape(spec, input.shape());
  if (scale.shape() != expected) {
    fail("the learned scale has shape {}, expected {}", shape_text(scale.shape()), shape_text(expected));
  }
  const Grouping grouping = make_grouping(spec, input.shape());
  const auto of = [&](size_t i) {
    return scales[scales.size() == 1 ? 0 : static_cast<size_t>(grouping.group_of(static_cast<int64_t>(i)))];
  };
  Tensor result = to_float32(input).clone();
  const auto values = result.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] /= of(i);
  simulate(code_spec(spec), result, result, seed);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= of(i);
  return result;
}

Tensor initial_scale(const QuantSpec& spec, const Tensor& values, const std::string& where) {
  const DefaultFloatEnvironment environment;
  const Grouping grouping = make_grouping(spec, values.shape());
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
  std::vector<float> scales = own_scales(spec, static_cast<int64_t>(groups), where);
  if (scales.empty()) scales.resize(groups, 1.0F);
  const double factor = 2 / std::sqrt(largest_code(spec));
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
