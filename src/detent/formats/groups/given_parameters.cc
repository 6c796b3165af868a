#include "detent/formats/groups/given_parameters.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

/// Formats without such keys; the others follow.
template <class F>
F given(const F& format, const std::vector<typename F::Parameters>& /*groups*/) {
  return format;
}

Affine given(const Affine& format, const std::vector<AffineParameters>& groups) {
  Affine result = format;
  result.scale.clear();
  result.zero_point.clear();
  for (const AffineParameters& group : groups) {
    result.scale.push_back(group.scale);
    if (!format.zero_points_are_zero()) result.zero_point.push_back(group.zero_point);
  }
  return result;
}

Scaled given(const Scaled& format, const std::vector<ScaledParameters>& groups) {
  Scaled result = format;
  result.scale.clear();
  for (const ScaledParameters& group : groups) result.scale.push_back(group.scale);
  return result;
}

/// One threshold serves all groups: the smallest.
Ternary given(const Ternary& format, const std::vector<TernaryParameters>& groups) {
  Ternary result = format;
  result.mean = result.median = result.max = std::nullopt;
  result.threshold = std::ranges::min_element(groups, {}, &TernaryParameters::delta)->delta;
  return result;
}

BinaryResidual given(const BinaryResidual& format, const std::vector<BinaryResidualParameters>& groups) {
  BinaryResidual result = format;
  if (groups.size() == 1) result.gamma = groups.front().gammas;
  return result;
}

Nvfp4 given(const Nvfp4& format, const std::vector<Nvfp4Parameters>& groups) {
  Nvfp4 result = format;
  result.tensor_scale = groups.front().tensor_scale;
  return result;
}

/// The spec that `encode` is to take, and the one that its streams need: formats whose streams hold nothing
/// that their keys give; the others follow.
template <class F>
std::pair<F, F> encoded_and_stored(const F& format) {
  return {format, format};
}

/// Where zero points are not given they are 0: only signed codes can say so without the scales.
std::pair<Affine, Affine> encoded_and_stored(const Affine& format) {
  Affine encoded = format;
  if (!format.scale.empty() && !format.is_signed && format.zero_point.empty())
    encoded.zero_point.resize(format.scale.size());
  Affine stored = encoded;
  if (encoded.zero_points_are_zero()) stored.symmetric = true;
  stored.scale.clear();
  stored.zero_point.clear();
  return {encoded, stored};
}

std::pair<Scaled, Scaled> encoded_and_stored(const Scaled& format) {
  return {format, Scaled{.element = format.element}};
}

std::pair<Nvfp4, Nvfp4> encoded_and_stored(const Nvfp4& format) { return {format, Nvfp4()}; }

/// For formats whose value with scale s is code * s, or not.
template <class F>
std::optional<Format> scaled(const F& /*format*/, const std::vector<float>& /*scale*/) {
  return std::nullopt;
}

std::optional<Format> scaled(const Affine& format, std::vector<float> scale) {
  Affine result = format;
  result.scale = std::move(scale);
  if (!result.zero_point.empty()) result.zero_point.resize(result.scale.size(), result.zero_point.front());
  return result;
}

std::optional<Format> scaled(const Fixed& format, std::vector<float> scale) {
  constexpr int kLeastWidth = 2;
  constexpr int kMostWidth = 24;
  if (format.width < kLeastWidth || format.width > kMostWidth) return std::nullopt;
  if (format.rounding != Rounding::kNearest) return std::nullopt;
  return Affine{.width = format.width, .is_signed = format.is_signed, .scale = std::move(scale)};
}

std::optional<Format> scaled(const BinaryResidual& format, std::vector<float> scale) {
  BinaryResidual result = format;
  result.gamma = std::move(scale);
  return result;
}

}  // namespace

QuantSpec with_given_parameters(const QuantSpec& spec, const Grouping& grouping,
                                const GroupParameters& parameters) {
  QuantSpec result = spec;
  result.format = std::visit(
      [&]<class F>(const F& format) -> Format {
        return given(format, std::get<std::vector<typename F::Parameters>>(parameters));
      },
      spec.format);
  if (grouping.groups() == 1) {  // one scale, for which there is no granularity but the tensor
    result.granularity = Granularity::kTensor;
    result.axis = 0;
    result.group_size.reset();
  }
  return result;
}

QuantSpec with_given_parameters(const QuantSpec& spec, const Tensor& tensor) {
  const DefaultFloatEnvironment environment;
  const Grouping grouping = make_grouping(spec, tensor.shape());
  return with_given_parameters(spec, grouping, derive_parameters(spec, tensor, grouping, 0));
}

std::optional<QuantSpec> with_learned_scale(const QuantSpec& spec, const Tensor& scale) {
  const auto values = scale.values<float>();
  check_learned_scale(values);
  QuantSpec result = spec;
  result.scale_rule = ScaleRule::kGiven;
  std::optional<Format> format = std::visit(
      [&](const auto& learned) { return scaled(learned, std::vector<float>(values.begin(), values.end())); },
      spec.format);
  if (!format) return std::nullopt;
  result.format = std::move(*format);
  if (values.size() == 1) {
    result.granularity = Granularity::kTensor;
    result.axis = 0;
    result.group_size.reset();
  }
  return result;
}

Encoded encode_without_given(const QuantSpec& spec, const Tensor& input) {
  QuantSpec encoded = spec;
  QuantSpec stored = spec;
  std::visit(
      [&](const auto& format) { std::tie(encoded.format, stored.format) = encoded_and_stored(format); },
      spec.format);
  Encoded result = encode(encoded, input);
  result.spec = std::move(stored);
  return result;
}

bool is_stochastic(const Format& format) {
  const auto* binary = std::get_if<Binary>(&format);
  return binary != nullptr && binary->stochastic;
}

std::optional<DType> element_dtype(const Format& format) {
  if (std::holds_alternative<Fp8E4M3Fn>(format)) return DType::kFloat8E4M3;
  if (std::holds_alternative<Fp8E5M2>(format)) return DType::kFloat8E5M2;
  if (std::holds_alternative<Fp16>(format)) return DType::kFloat16;
  if (std::holds_alternative<Bf16>(format)) return DType::kBFloat16;
  return std::nullopt;
}

}  // namespace detent
