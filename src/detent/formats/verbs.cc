#include "detent/formats/verbs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

Affine affine_of(const IntegerCodes& codes) {
  return {.width = codes.width,
          .is_signed = codes.is_signed,
          .symmetric = codes.is_symmetric,
          .narrow_range = codes.is_narrow};
}

}  // namespace

int IntegerCodes::low() const { return affine_of(*this).low_code(); }
int IntegerCodes::high() const { return affine_of(*this).high_code(); }

std::optional<IntegerCodes> integer_codes(const Format& format) {
  const auto* affine = std::get_if<Affine>(&format);
  if (affine == nullptr) return std::nullopt;
  return IntegerCodes{affine->width, affine->is_signed, affine->symmetric, affine->narrow_range};
}

GivenScales given_scales(const Format& format) {
  if (const auto* affine = std::get_if<Affine>(&format)) return {affine->scale, affine->zero_point};
  if (const auto* scaled = std::get_if<Scaled>(&format)) return {scaled->scale};
  return {};
}

Format with_scales(const Format& format, GivenScales given) {
  if (const auto* scaled = std::get_if<Scaled>(&format)) {
    Scaled result = *scaled;
    result.scale = std::move(given.scales);
    return result;
  }
  Affine result = std::get<Affine>(format);
  result.scale = std::move(given.scales);
  result.zero_point = std::move(given.zero_points);
  return result;
}

Format integer_format(const IntegerCodes& codes, GivenScales given) {
  Affine result = affine_of(codes);
  result.scale = std::move(given.scales);
  result.zero_point = std::move(given.zero_points);
  return result;
}

Format with_width(const Format& format, int width) {
  Affine result = std::get<Affine>(format);
  result.width = width;
  return result;
}

bool repeats_exactly(const Format& format) {
  const auto* affine = std::get_if<Affine>(&format);
  return affine != nullptr && !affine->scale.empty();
}

bool may_have_channels(const Format& format) {
  return std::visit([](const auto& f) { return f.channel_conflict() == nullptr; }, format);
}

std::optional<FixedPoint> fixed_point(const Format& format) {
  const auto* fixed = std::get_if<Fixed>(&format);
  if (fixed == nullptr) return std::nullopt;
  return FixedPoint{.width = fixed->width,
                    .is_signed = fixed->is_signed,
                    .low = fixed->low_code(),
                    .high = fixed->high_code(),
                    .scale = fixed->given_scale().front(),
                    .floors = fixed->rounding == Rounding::kFloor};
}

std::optional<SignCodes> sign_codes(const Format& format) {
  const auto* binary = std::get_if<Binary>(&format);
  if (binary == nullptr) return std::nullopt;
  return SignCodes{binary->bipolar, binary->stochastic, binary->scaling};
}

bool is_sum_of_signs(const Format& format) { return std::holds_alternative<BinaryResidual>(format); }

std::vector<float> sign_levels(const Format& format) {
  const auto* residual = std::get_if<BinaryResidual>(&format);
  return residual == nullptr ? std::vector<float>() : residual->gamma;
}

Format sum_of_signs(std::vector<float> levels) {
  const auto count = static_cast<int>(levels.size());
  return BinaryResidual{.levels = count, .gamma = std::move(levels)};
}

std::string_view scaled_standard(const Format& format) {
  const auto* scaled = std::get_if<Scaled>(&format);
  return scaled == nullptr ? std::string_view() : scaled->standard().name;
}

std::optional<MxElement> mx_element(const Format& format) {
  const auto* mx = std::get_if<Mx>(&format);
  return mx == nullptr ? std::nullopt : std::optional(mx->element);
}

bool has_tensor_scale(const Format& format) { return std::holds_alternative<Nvfp4>(format); }

bool has_threshold(const Format& format) { return std::holds_alternative<Ternary>(format); }

Format with_threshold(const Format& format, float threshold) {
  Ternary result = std::get<Ternary>(format);
  result.threshold = threshold;
  return result;
}

std::vector<float> listed_values(const Format& format) {
  const auto* codebook = std::get_if<Codebook>(&format);
  return codebook == nullptr ? std::vector<float>() : codebook->entries;
}

Format format_of_values(std::vector<float> ascending) { return Codebook{.entries = std::move(ascending)}; }

std::optional<int> exponent_bias(const Format& format) {
  if (const auto* denorm = std::get_if<MinifloatDenorm>(&format)) return denorm->bias();
  if (const auto* ieee = std::get_if<MinifloatIeee>(&format)) return ieee->bias();
  return std::nullopt;
}

Format with_exponent_bias(const Format& format, float bias) {
  constexpr int kExponents = 128;  // of float32, upwards
  constexpr int kLeastExponent = 149;
  Format result = format;
  std::visit(
      [&]<class F>(F& minifloat) {
        if constexpr (
            requires { minifloat.exponent_bias; } && requires { minifloat.mantissa_bits(); }) {
          const int low = std::max((1 << minifloat.exponent_width) - kExponents, -kExponents);
          const int high = kLeastExponent - minifloat.mantissa_bits();
          minifloat.exponent_bias = nearest_whole("exponent bias", bias, low, high);
        }
      },
      static_cast<AnyFormat&>(result));
  return result;
}

int nearest_whole(const char* name, float value, int low, int high) {
  if (!std::isfinite(value)) fail("the {} is {}: try a smaller learning rate", name, value);
  return static_cast<int>(
      std::nearbyint(std::clamp(value, static_cast<float>(low), static_cast<float>(high))));
}

}  // namespace detent
