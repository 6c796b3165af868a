#include "detent/passes/analysis/saturation.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "detent/core/parallel.h"
#include "detent/formats/measure/distortion.h"
#include "detent/formats/verbs.h"

namespace detent {

void Saturation::add(const QuantSpec& rounding, const Tensor& value) {
  const Tensor held = clipped_ste_mask(rounding, value);
  if (integer_codes(rounding.format)) return add_integers(value, held);
  Distortion distortion{Distortion::Values::kIgnored};
  distortion.update(value, fake_quantize(rounding, value));
  distortion.update_saturated(value, held);
  const int64_t finite = distortion.count() - distortion.nonfinite_count();
  has_any_ = has_any_ || distortion.count() > 0;
  finite_ += finite;
  saturated_ += std::llround(distortion.saturated_share().value_or(0) * static_cast<double>(finite));
}

/// Integers hold infinities and keep what is finite: nothing need be rounded to count.
void Saturation::add_integers(const Tensor& value, const Tensor& held) {
  constexpr int64_t kChunk = int64_t{1} << 16;
  const auto x = value.values<float>();
  const auto mask = held.values<float>();
  std::atomic<int64_t> finite = 0;
  std::atomic<int64_t> saturated = 0;
  parallel_for(value.numel(), kChunk, [&](int64_t begin, int64_t end) {
    int32_t finite_here = 0;
    int32_t saturated_here = 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const int32_t is_finite = std::isfinite(x[i]) ? 1 : 0;
      const int32_t is_cut = mask[i] == 0.0F ? 1 : 0;
      finite_here += is_finite;
      saturated_here += is_finite & is_cut;
    }
    finite += finite_here;
    saturated += saturated_here;
  });
  finite_ += finite;
  saturated_ += saturated;
  has_any_ = has_any_ || value.numel() > 0;
}

Tensor clamped(const Tensor& value, const std::optional<Clamp>& clamp) {
  if (!clamp) return value;
  Tensor result = unfilled_tensor(DType::kFloat32, value.shape());
  const auto low = static_cast<float>(clamp->low);
  const auto high = static_cast<float>(clamp->high);
  const auto from = value.values<float>();
  const auto to = result.values<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    const float raised = from[i] < low ? low : from[i];
    to[i] = high < raised ? high : raised;
  }
  return result;
}

int64_t equal_elements(const Tensor& expected, const Tensor& actual) {
  const size_t size = dtype_size(expected.dtype());
  int64_t equal = 0;
  for (size_t at = 0; at < expected.byte_size(); at += size) {
    equal += std::ranges::equal(expected.bytes().subspan(at, size), actual.bytes().subspan(at, size)) ? 1 : 0;
  }
  return equal;
}

}  // namespace detent
