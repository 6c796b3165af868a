#include "detent/graph/owned_parameters.h"

#include <algorithm>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/elements/counter_random.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

/// floor(x) or ceil(x), the upper one with probability x - floor(x); 24 bits of each draw count.
void round_at_random(std::span<const float> scaled, std::span<float> codes, uint64_t seed) {
  constexpr int kLowBits = 32;
  constexpr int kUnusedBits = 8;
  for (size_t i = 0; i < scaled.size(); ++i) {
    const CounterKey key = counter_key(seed, uint64_t{i} >> kLowBits);
    const auto draw = static_cast<float>(counter_draw(key, static_cast<uint32_t>(i)) >> kUnusedBits);
    const float low = std::floor(scaled[i]);
    codes[i] = low + (draw * 0x1p-24F < scaled[i] - low ? 1.0F : 0.0F);
  }
}

/// 2 round((v - 1) / 2) + 1
float nearest_odd(float v) { return 2 * std::nearbyint((v - 1) / 2) + 1; }

template <class Function>
void transform(std::span<const float> from, std::span<float> to, Function function) {
  std::ranges::transform(from, to.begin(), function);
}

/// Ends of the codes of each group, less its zero point.
struct CodeEnds {
  float low;
  float high;
};
CodeEnds code_ends(int low, int high, const std::vector<int>& zeros, int64_t group) {
  const int zero = zeros.empty() ? 0 : zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(group)];
  return {static_cast<float>(low - zero), static_cast<float>(high - zero)};
}

}  // namespace

void round_to_whole(CodeRounding rounding, std::span<const float> scaled, std::span<float> codes,
                    uint64_t seed) {
  const DefaultFloatEnvironment environment;
  switch (rounding) {
    case CodeRounding::kNearest:
      return transform(scaled, codes, [](float v) { return std::nearbyint(v); });
    case CodeRounding::kFloor:
    case CodeRounding::kLearned:
      return transform(scaled, codes, [](float v) { return std::floor(v); });
    case CodeRounding::kCeil:
      return transform(scaled, codes, [](float v) { return std::ceil(v); });
    case CodeRounding::kToZero:
      return transform(scaled, codes, [](float v) { return std::trunc(v); });
    case CodeRounding::kStochastic:
      return round_at_random(scaled, codes, seed);
    case CodeRounding::kDorefa:
      return transform(scaled, codes, nearest_odd);
  }
}

Tensor tanh_normalized(const Tensor& input) {
  Tensor result = to_float32(input).clone();
  float largest = 0;
  for (float& value : result.values<float>()) {
    value = std::tanh(value);
    largest = std::max(largest, std::fabs(value));
  }
  if (largest == 0) return result;
  for (float& value : result.values<float>()) value /= largest;
  return result;
}

float round_up_of(float fraction) {
  constexpr float kNearestToEnd = 1e-4F;
  const float share = std::clamp((fraction - kStretchFrom) / kStretch, kNearestToEnd, 1 - kNearestToEnd);
  return -std::log(1 / share - 1);
}

Tensor round_after_training(const Quantizer& quantizer, const Tensor& input) {
  const DefaultFloatEnvironment environment;
  const CodeRounding rounding = quantizer.code_rounding;
  const QuantSpec spec = with_owned_fields(quantizer);
  const std::optional<IntegerCodes> integers = integer_codes(spec.format);
  DETENT_CHECK(integers.has_value(), "{} has no integers", quant_spec_text(spec));
  const int low = integers->low();
  const int high = integers->high();
  const std::vector<int> zeros = given_scales(spec.format).zero_points;
  const Tensor scale = owned_scale(quantizer);
  const auto scales = scale.values<float>();
  const Parameter* up = quantizer.find_parameter(kRoundUp);
  if (up != nullptr && up->tensor.shape() != input.shape()) {
    fail("its learned rounding has shape {}, expected {}", shape_text(up->tensor.shape()),
         shape_text(input.shape()));
  }
  const Grouping grouping = make_grouping(spec, input.shape());
  const auto group_of = [&](size_t i) { return grouping.group_of(static_cast<int64_t>(i)); };
  const auto scale_of = [&](size_t i) {
    return scales[scales.size() == 1 ? 0 : static_cast<size_t>(group_of(i))];
  };
  const bool is_dorefa = rounding == CodeRounding::kDorefa;
  Tensor result = is_dorefa ? tanh_normalized(input) : to_float32(input).clone();
  const auto values = result.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] /= scale_of(i);
  round_to_whole(rounding, values, values, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (up != nullptr) values[i] += up->tensor.values<float>()[i] >= 0 ? 1.0F : 0.0F;
    const CodeEnds ends = code_ends(low, high, zeros, group_of(i));
    if (!std::isnan(values[i])) values[i] = std::clamp(values[i], ends.low, ends.high) * scale_of(i);
  }
  return result;
}

SettledOperand settle(const Quantizer& quantizer, const Tensor& values) {
  if (quantizer.rounds_to_nearest()) return {quantizer, values};
  const std::optional<QuantSpec> spec =
      with_learned_scale(with_owned_fields(quantizer), owned_scale(quantizer));
  DETENT_CHECK(spec.has_value(), "{} has no integers", quant_spec_text(quantizer.spec));
  return {Quantizer(*spec), round_after_training(quantizer, values)};
}

}  // namespace detent
