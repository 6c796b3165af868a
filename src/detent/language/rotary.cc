#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "detent/core/error.h"
#include "detent/language/language_config.h"

namespace detent {
namespace {

// Formulas, in float32 where it is so there, of transformers' modeling_rope_utils.py (Apache License 2.0).

/// theta^(2 i / size)
float wave(double theta, int64_t size, size_t pair) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(size);
  return static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
}

std::vector<float> frequencies_of(int64_t size, const std::function<float(size_t)>& of) {
  std::vector<float> frequencies(static_cast<size_t>(size / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = of(i);
  return frequencies;
}

/// Waves that are long beside the original context are stretched, short ones stay, those between are mixed
/// (Llama 3.1).
float of_llama3(const RotaryScaling& scaling, float frequency) {
  const auto context = static_cast<float>(scaling.original_context);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto high = static_cast<float>(scaling.high_frequency_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float length = 2 * std::numbers::pi_v<float> / frequency;
  if (length > context / low) return frequency / factor;
  if (length < context / high) return frequency;
  const float share = (context / length - low) / (high - low);
  return (1 - share) * frequency / factor + share * frequency;
}

/// Peng et al. 2023, arXiv:2309.00071.
class Yarn {
 public:
  Yarn(const RotaryScaling& scaling, int64_t size) : scaling_(scaling), size_(size) {
    begin_ = turning_at(scaling.beta_fast);
    end_ = turning_at(scaling.beta_slow);
    if (scaling.truncate) {
      begin_ = std::floor(begin_);
      end_ = std::ceil(end_);
    }
    begin_ = std::max(begin_, 0.0);
    end_ = std::min(end_, static_cast<double>(size - 1));
    constexpr double kApart = 0.001;
    if (begin_ == end_) end_ += kApart;
  }

  float frequency(size_t pair) const {
    const float length = wave(scaling_.theta, size_, pair);
    const float kept = 1 / length;
    const float stretched = 1 / (static_cast<float>(scaling_.factor) * length);
    const float ramp = std::clamp(
        (static_cast<float>(pair) - static_cast<float>(begin_)) / static_cast<float>(end_ - begin_), 0.0F,
        1.0F);
    const float share = 1 - ramp;
    return stretched * (1 - share) + kept * share;
  }

  double factor() const {
    if (scaling_.attention_factor) return *scaling_.attention_factor;
    const double mscale = scaling_.mscale.value_or(0);
    const double of_all = scaling_.mscale_all_dim.value_or(0);
    if (mscale != 0 && of_all != 0)
      return yarn_magnitude(scaling_.factor, mscale) / yarn_magnitude(scaling_.factor, of_all);
    return yarn_magnitude(scaling_.factor);
  }

 private:
  /// The pair that turns so often within the original context.
  double turning_at(double turns) const {
    const auto context = static_cast<double>(scaling_.original_context);
    return static_cast<double>(size_) * std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(scaling_.theta));
  }

  const RotaryScaling& scaling_;
  int64_t size_;
  double begin_ = 0;
  double end_ = 0;
};

std::vector<float> divided(const RotaryScaling& scaling, int64_t size, const std::vector<double>& factors,
                           const char* name) {
  if (std::ssize(factors) != size / 2) fail("{} has {} numbers, expected {}", name, factors.size(), size / 2);
  return frequencies_of(size, [&](size_t i) {
    if (!(factors[i] > 0)) fail("{} has {}, expected numbers above 0", name, factors[i]);
    return 1 / (static_cast<float>(factors[i]) * wave(scaling.theta, size, i));
  });
}

/// Ding et al. 2024, arXiv:2402.13753.
Rotary of_longrope(const RotaryScaling& scaling, int64_t size) {
  Rotary rotary;
  rotary.frequencies = divided(scaling, size, scaling.short_factors, "short_factor");
  rotary.long_frequencies = divided(scaling, size, scaling.long_factors, "long_factor");
  rotary.long_from = scaling.original_context;
  const double context = std::log(static_cast<double>(scaling.original_context));
  rotary.factor = scaling.factor <= 1 ? 1 : std::sqrt(1 + std::log(scaling.factor) / context);
  if (scaling.attention_factor) rotary.factor = *scaling.attention_factor;
  return rotary;
}

void check_scaling(const RotaryScaling& scaling, int64_t size) {
  constexpr int64_t kMostElements = int64_t{1} << 20;
  if (size < 2 || size > kMostElements || size % 2 != 0)
    fail("{} elements of a head turn, expected an even number up to {}", size, kMostElements);
  if (!(scaling.theta > 1) || !std::isfinite(scaling.theta))
    fail("rope_theta is {}, expected a number above 1", scaling.theta);
  if (!(scaling.factor > 0) || !std::isfinite(scaling.factor))
    fail("the factor of rope_scaling is {}, expected a number above 0", scaling.factor);
  if (scaling.original_context < 2)
    fail("original_max_position_embeddings is {}, expected at least 2", scaling.original_context);
}

}  // namespace

double yarn_magnitude(double factor, double mscale) {
  constexpr double kSlope = 0.1;
  return factor <= 1 ? 1 : kSlope * mscale * std::log(factor) + 1;
}

Rotary rotary_of(const RotaryScaling& given, int64_t size, int64_t context) {
  RotaryScaling scaling = given;
  if (scaling.original_context == 0) scaling.original_context = context;
  check_scaling(scaling, size);
  const auto plain = [&](size_t i) { return 1 / wave(scaling.theta, size, i); };
  Rotary rotary;
  if (scaling.type == "default") {
    rotary.frequencies = frequencies_of(size, plain);
  } else if (scaling.type == "linear") {
    rotary.frequencies =
        frequencies_of(size, [&](size_t i) { return plain(i) / static_cast<float>(scaling.factor); });
  } else if (scaling.type == "dynamic") {
    if (size < 4) fail("{} elements of a head turn, expected at least 4 of a dynamic rope_type", size);
    rotary.frequencies = frequencies_of(size, plain);
    rotary.growth = scaling.factor;
    rotary.grows_from = context;
    rotary.theta = scaling.theta;
  } else if (scaling.type == "llama3") {
    rotary.frequencies = frequencies_of(size, [&](size_t i) { return of_llama3(scaling, plain(i)); });
  } else if (scaling.type == "yarn") {
    const Yarn yarn(scaling, size);
    rotary.frequencies = frequencies_of(size, [&](size_t i) { return yarn.frequency(i); });
    rotary.factor = yarn.factor();
  } else if (scaling.type == "longrope") {
    return of_longrope(scaling, size);
  } else {
    const std::vector<std::string> known = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
    fail("{}", unknown_name_message("rope_type", scaling.type, known));
  }
  return rotary;
}

}  // namespace detent
