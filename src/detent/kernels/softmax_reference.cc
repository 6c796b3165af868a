#include <algorithm>
#include <cmath>
#include <vector>

#include "detent/kernels/coefficients.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/functions_reference.h"
#include "detent/kernels/normalization.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

float exp_of_share(float x) {
  if (x < coefficients::kFloatLeastExp) return 0;
  const auto [r, power] = reduce_exp_reference(x);
  return std::fma(exp_rest_reference(r), power, power);
}

void softmax_of_line(std::span<const float> x, std::span<float> y, bool log) {
  float largest = -HUGE_VALF;
  for (const float value : x) largest = std::max(largest, value);
  float lanes[kSumLanes] = {};
  std::vector<float> shares;
  for (size_t i = 0; i < x.size(); ++i) {
    shares.push_back(exp_of_share(x[i] - largest));
    lanes[i % kSumLanes] += shares.back();
  }
  const float sum = folded_sum(lanes);
  const float scale = 1 / sum;
  const float log_of_sum = function_reference({ElementFunction::Kind::kLog}, sum);
  for (size_t i = 0; i < x.size(); ++i) y[i] = log ? x[i] - largest - log_of_sum : shares[i] * scale;
}

}  // namespace

void softmax_reference(std::span<const float> values, std::span<float> results, int64_t count, bool log) {
  const auto length = static_cast<size_t>(count);
  for (size_t i = 0; i < values.size(); i += length)
    softmax_of_line(values.subspan(i, length), results.subspan(i, length), log);
}

}  // namespace detent
