#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "detent/float32/coefficients.h"
#include "detent/float32/functions.h"
#include "detent/float32/lanes.h"
#include "detent/float32/softmax.h"

namespace detent {
namespace {

float exp_of_share(float x) {
  namespace c = coefficients;
  if (x < c::kFloatLeastExp) return 0;
  const float rounded = std::fma(x, c::kFloatLog2E, c::kFloatRounder);
  const float n = rounded - c::kFloatRounder;
  const float r = std::fma(n, -c::kFloatLn2Low, std::fma(n, -c::kFloatLn2High, x));
  float sum = c::kFloatExp[0];
  for (size_t i = 1; i < std::size(c::kFloatExp); ++i) sum = std::fma(sum, r, c::kFloatExp[i]);
  const auto power = std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) + 127) << 23);
  return std::fma(std::fma(r * r, sum, r), power, power);
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
