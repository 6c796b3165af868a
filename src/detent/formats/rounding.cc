#include "detent/formats/rounding.h"

#include <algorithm>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/formats/elements/counter_random.h"

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

}  // namespace

void round_to_whole(Rounding rounding, std::span<const float> scaled, std::span<float> codes, uint64_t seed) {
  switch (rounding) {
    case Rounding::kNearest:
      return transform(scaled, codes, [](float v) { return std::nearbyint(v); });
    case Rounding::kFloor:
    case Rounding::kLearned:
      return transform(scaled, codes, [](float v) { return std::floor(v); });
    case Rounding::kCeil:
      return transform(scaled, codes, [](float v) { return std::ceil(v); });
    case Rounding::kToZero:
      return transform(scaled, codes, [](float v) { return std::trunc(v); });
    case Rounding::kStochastic:
      return round_at_random(scaled, codes, seed);
    case Rounding::kDorefa:
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

}  // namespace detent
