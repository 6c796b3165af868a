#include <cmath>

#include "detent/kernels/normalization.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

/// Sums of the elements less `first`.
RowSums sums_of(std::span<const float> row, float first) {
  double sum[kSumLanes] = {};
  double squares[kSumLanes] = {};
  for (size_t i = 0; i < row.size(); ++i) {
    const double rest = static_cast<double>(row[i]) - static_cast<double>(first);
    sum[i % kSumLanes] += rest;
    squares[i % kSumLanes] = std::fma(rest, rest, squares[i % kSumLanes]);
  }
  return {static_cast<double>(first), folded_sum(sum), folded_sum(squares)};
}

float scaled(const RowScale& by, float x, const float* weight, const float* bias) {
  const float normalized = (x - by.high - by.low) * by.scale;
  if (weight == nullptr && bias == nullptr) return normalized;
  if (bias == nullptr) return normalized * *weight;
  if (weight == nullptr) return normalized + *bias;
  return std::fma(normalized, *weight, *bias);
}

const float* at(std::span<const float> values, size_t index) {
  return values.empty() ? nullptr : &values[index];
}

}  // namespace

double row_sum_reference(std::span<const float> row) { return sums_of(row, 0).sum; }

void layer_norm_reference(const RowNorm& norm, std::span<const float> values, std::span<float> results) {
  const auto count = static_cast<size_t>(norm.count);
  for (size_t row = 0; row < values.size(); row += count) {
    const RowScale by(sums_of(values.subspan(row, count), values[row]), count, norm.eps);
    for (size_t i = 0; i < count; ++i)
      results[row + i] = scaled(by, values[row + i], at(norm.weight, i), at(norm.bias, i));
  }
}

void rms_norm_reference(const RowNorm& norm, std::span<const float> values, std::span<float> results) {
  const auto count = static_cast<size_t>(norm.count);
  for (size_t row = 0; row < values.size(); row += count) {
    const RowScale by({0, 0, sums_of(values.subspan(row, count), 0).squares}, count, norm.eps);
    for (size_t i = 0; i < count; ++i)
      results[row + i] = scaled(by, values[row + i], at(norm.weight, i), nullptr);
  }
}

void group_norm_reference(const ChannelNorm& norm, std::span<const float> values, std::span<float> results) {
  const auto positions = static_cast<size_t>(norm.positions);
  const auto channels = static_cast<size_t>(norm.channels);
  const size_t count = channels / static_cast<size_t>(norm.groups) * positions;
  for (size_t group = 0; group < values.size(); group += count) {
    const RowScale by(sums_of(values.subspan(group, count), values[group]), count, norm.eps);
    for (size_t i = group; i < group + count; ++i) {
      const size_t c = i / positions % channels;
      results[i] = scaled(by, values[i], at(norm.weight, c), at(norm.bias, c));
    }
  }
}

void batch_norm_reference(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                          std::span<const float> values, std::span<float> results) {
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = i / static_cast<size_t>(norm.positions) % static_cast<size_t>(norm.channels);
    float scale = 1 / std::sqrt(var[c] + static_cast<float>(norm.eps));
    if (!norm.weight.empty()) scale *= norm.weight[c];
    const float moved = mean[c] * scale;
    results[i] = std::fma(values[i], scale, norm.bias.empty() ? -moved : norm.bias[c] - moved);
  }
}

}  // namespace detent
