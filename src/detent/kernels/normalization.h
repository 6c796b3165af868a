#pragma once

#include <cstdint>
#include <span>

#include "detent/kernels/row_reductions.h"

namespace detent {

// Norms in float32 whose bits do not depend on the processor. Means and variances are summed in double, in
// sixteen lanes (row_reductions.h), of what remains of the values after the first one, so that a large mean
// takes nothing off the variance. Then, in float32, ((x - mean) - what rounding it left) / deviation * weight
// + bias, the last two with one rounding. `weight` and `bias` may be empty. `results` may be `values`.

/// Rows of `count` elements, each by itself; weight and bias have one for each element.
struct RowNorm {
  int64_t count;
  std::span<const float> weight;
  std::span<const float> bias;
  double eps;
};
void layer_norm(const RowNorm& norm, std::span<const float> values, std::span<float> results);
/// x / sqrt(mean of x^2 + eps) * weight
void rms_norm(const RowNorm& norm, std::span<const float> values, std::span<float> results);

/// Channels of [N, channels, positions]; weight and bias have one for each.
struct ChannelNorm {
  int64_t channels;
  int64_t positions;
  int64_t groups;  // of channels that are normalized together; as many as channels: each alone
  std::span<const float> weight;
  std::span<const float> bias;
  double eps;
};
void group_norm(const ChannelNorm& norm, std::span<const float> values, std::span<float> results);
/// That of values whose channels are adjacent, in two steps: the scale of a group, whose values `row` are
/// channel by channel, and all values by the scales of their channels. `weight` and `bias` may be nullptr.
RowScale group_scale(std::span<const float> row, double eps);
struct ChannelScales {
  const float* high;
  const float* low;
  const float* scale;
  const float* weight;
  const float* bias;
};
void scale_channels(const ChannelScales& by, int64_t channels, int64_t positions, const float* values,
                    float* results);
/// By a mean and a variance for each channel: x * scale + shift with one rounding, where, in float32, scale
/// is weight / sqrt(var + eps) and shift is bias - mean * scale.
void batch_norm(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                std::span<const float> values, std::span<float> results);
struct ScaleAndShift {
  float scale;
  float shift;
};
/// That of one channel.
ScaleAndShift batch_norm_map(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                             size_t channel);

// The same without vectors.
void layer_norm_reference(const RowNorm& norm, std::span<const float> values, std::span<float> results);
void rms_norm_reference(const RowNorm& norm, std::span<const float> values, std::span<float> results);
void group_norm_reference(const ChannelNorm& norm, std::span<const float> values, std::span<float> results);
void batch_norm_reference(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                          std::span<const float> values, std::span<float> results);

/// exp(x - m) / sum of exp(x - m) of each line of `count` elements, where m is the largest; or, as `log`, its
/// logarithm, x - m - log(sum). In float32: exp within 1 unit in the last place, sums in sixteen lanes
/// (row_reductions.h), then products with the reciprocal of the sum. The bits do not depend on the processor.
/// Shares below 2^-126 of the largest one are 0. `results` may be `values`.
void softmax(std::span<const float> values, std::span<float> results, int64_t count, bool log);

/// The same without vectors.
void softmax_reference(std::span<const float> values, std::span<float> results, int64_t count, bool log);

}  // namespace detent
