#include "detent/formats/learned_scale.h"

#include <algorithm>
#include <cmath>

#include "detent/formats/float_environment.h"
#include "detent/formats/group_parameters.h"

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

float own_scale(const QuantSpec& spec, const std::string& where) {
  const std::optional<float> scale =
      ask_scaled(spec, [](const auto& format) { return format.given_scale(); });
  if (!scale)
    fail("{}: key \"scale_rule\": a learned scale begins from the format's own, which is not given", where);
  return *scale;
}

}  // namespace

QuantSpec code_spec(const QuantSpec& spec) {
  QuantSpec codes;
  codes.format = ask_scaled(spec, [](const auto& format) -> Format { return format.with_unit_scale(); });
  codes.gradient = Gradient::kClipped;
  return codes;
}

double largest_code(const QuantSpec& spec) {
  return ask_scaled(spec, [](const auto& format) { return format.high_code(); });
}

Shape scale_shape(const QuantSpec& spec, const Shape& shape) {
  return spec.granularity == Granularity::kTensor ? Shape() : Shape{make_grouping(spec, shape).groups};
}

Tensor initial_scale(const QuantSpec& spec, const Tensor& values, const std::string& where) {
  const DefaultFloatEnvironment environment;
  Tensor scales(DType::kFloat32, scale_shape(spec, values.shape()));
  const Grouping grouping = make_grouping(spec, values.shape());
  const double factor = 2 / std::sqrt(largest_code(spec));
  int64_t group = 0;
  for (float& scale : scales.values<float>()) {
    scale = static_cast<float>(factor * Group(values.values<float>(), grouping, group++).magnitudes().mean());
    if (scale == 0) scale = own_scale(spec, where);
  }
  return scales;
}

Tensor initial_scale(const QuantSpec& spec, const Shape& shape, const std::string& where) {
  Tensor scales(DType::kFloat32, scale_shape(spec, shape));
  std::ranges::fill(scales.values<float>(), own_scale(spec, where));
  return scales;
}

}  // namespace detent
