#include "detent/kernels/normalization.h"

#include <cmath>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/kernels/row_reductions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/normalization.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using Vec = hn::VFromD<Singles>;
using HalfSingles = hn::Rebind<float, Doubles>;

/// Calls `visit(values in double, vector of the sixteen)`.
template <class Visit>
HWY_INLINE void ForEachDoubles(const float* x, size_t count, float missing, Visit visit) {
  const Doubles d;
  ForEachSixteen(count, [&](size_t first, auto part) HWY_ATTR {
    for (size_t v = 0; v < Sixteen<Doubles>::kVectors; ++v) {
      const size_t offset = v * Sixteen<Doubles>::kLanes;
      visit(hn::PromoteTo(d, part.Load(HalfSingles(), x + first + offset, offset, missing)), v);
    }
  });
}

HWY_INLINE RowSums SumsOf(const float* x, size_t count) {
  const Doubles d;
  const auto first = hn::Set(d, static_cast<double>(x[0]));
  Sixteen<Doubles> sum(0);
  Sixteen<Doubles> squares(0);
  ForEachDoubles(x, count, x[0], [&](auto value, size_t v) HWY_ATTR {
    const auto rest = hn::Sub(value, first);
    sum.vectors[v] = hn::Add(sum.vectors[v], rest);
    squares.vectors[v] = Fused(d, rest, rest, squares.vectors[v]);
  });
  return {static_cast<double>(x[0]), sum.Sum(), squares.Sum()};
}

/// Products of two float32 are exact in double, fused or not.
HWY_INLINE double SumOfSquares(const float* x, size_t count) {
  Sixteen<Doubles> squares(0);
  ForEachDoubles(x, count, 0, [&](auto value, size_t v) HWY_ATTR {
    squares.vectors[v] = hn::MulAdd(value, value, squares.vectors[v]);
  });
  return squares.Sum();
}

double RowSum(const float* x, size_t count) {
  Sixteen<Doubles> sum(0);
  ForEachDoubles(x, count, 0,
                 [&](auto value, size_t v) HWY_ATTR { sum.vectors[v] = hn::Add(sum.vectors[v], value); });
  return sum.Sum();
}

/// Normalizes `count` elements; weight and bias have one each, or, with kIsOne, one for all.
template <bool kIsOne>
HWY_INLINE void Scale(const RowScale& by, const float* weight, const float* bias, const float* x, float* y,
                      size_t count) {
  const Singles d;
  const Vec high = hn::Set(d, by.high);
  const Vec low = hn::Set(d, by.low);
  const Vec scale = hn::Set(d, by.scale);
  MapSingles(x, y, count, [&](Vec value, auto place) HWY_ATTR {
    const auto load = [&](const float* from) HWY_ATTR {
      if constexpr (kIsOne) return hn::Set(d, *from);
      return place(from);
    };
    const Vec normalized = hn::Mul(hn::Sub(hn::Sub(value, high), low), scale);
    if (weight == nullptr && bias == nullptr) return normalized;
    if (bias == nullptr) return hn::Mul(normalized, load(weight));
    if (weight == nullptr) return hn::Add(normalized, load(bias));
    return Fused(d, normalized, load(weight), load(bias));
  });
}

void LayerNormRows(const RowNorm& norm, const float* x, float* y, size_t rows) {
  const auto count = static_cast<size_t>(norm.count);
  for (size_t row = 0; row < rows; ++row, x += count, y += count)
    Scale<false>(RowScale(SumsOf(x, count), count, norm.eps), norm.weight.data(), norm.bias.data(), x, y,
                 count);
}

void RmsNormRows(const RowNorm& norm, const float* x, float* y, size_t rows) {
  const auto count = static_cast<size_t>(norm.count);
  for (size_t row = 0; row < rows; ++row, x += count, y += count) {
    RowScale by({0, 0, SumOfSquares(x, count)}, count, norm.eps);
    Scale<false>(by, norm.weight.data(), nullptr, x, y, count);
  }
}

/// `first` is the channel of the first of `channels` of `positions` elements.
void GroupNormGroup(const ChannelNorm& norm, const float* x, float* y, size_t first, size_t channels) {
  const auto positions = static_cast<size_t>(norm.positions);
  const RowScale by(SumsOf(x, channels * positions), channels * positions, norm.eps);
  const auto at = [&](std::span<const float> of, size_t c) { return of.empty() ? nullptr : of.data() + c; };
  for (size_t c = 0; c < channels; ++c) {
    Scale<true>(by, at(norm.weight, first + c), at(norm.bias, first + c), x + c * positions,
                y + c * positions, positions);
  }
}

/// Scale() of positions whose channels have one scale each.
void ScaleChannels(const ChannelScales& by, const float* x, float* y, size_t channels, size_t positions) {
  for (size_t i = 0; i < positions; ++i, x += channels, y += channels) {
    MapSingles(x, y, channels, [&](Vec value, auto place) HWY_ATTR {
      const Singles d;
      const Vec rest = hn::Sub(hn::Sub(value, place(by.high)), place(by.low));
      const Vec normalized = hn::Mul(rest, place(by.scale));
      if (by.weight == nullptr && by.bias == nullptr) return normalized;
      if (by.bias == nullptr) return hn::Mul(normalized, place(by.weight));
      if (by.weight == nullptr) return hn::Add(normalized, place(by.bias));
      return Fused(d, normalized, place(by.weight), place(by.bias));
    });
  }
}

/// y = x * scale + shift
void ScaleAndShift(float scale, float shift, const float* x, float* y, size_t count) {
  const Singles d;
  MapSingles(x, y, count,
             [&](Vec value, auto) HWY_ATTR { return Fused(d, value, hn::Set(d, scale), hn::Set(d, shift)); });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(RmsNormRows);
HWY_EXPORT(GroupNormGroup);
HWY_EXPORT(ScaleAndShift);
HWY_EXPORT(ScaleChannels);
HWY_EXPORT(SumsOf);
HWY_EXPORT(RowSum);

namespace {

constexpr int64_t kGrain = 8192;  // elements

/// Calls `body(first row, rows)`.
template <class Body>
void for_rows(int64_t rows, int64_t count, Body body) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(count, 1)),
               [&](int64_t begin, int64_t end) { body(begin, static_cast<size_t>(end - begin)); });
}

}  // namespace

double row_sum(std::span<const float> row) { return HWY_DYNAMIC_DISPATCH(RowSum)(row.data(), row.size()); }

void layer_norm(const RowNorm& norm, std::span<const float> values, std::span<float> results) {
  if (values.empty()) return;
  for_rows(std::ssize(values) / norm.count, norm.count, [&](int64_t first, size_t rows) {
    const int64_t at = first * norm.count;
    HWY_DYNAMIC_DISPATCH(LayerNormRows)(norm, values.data() + at, results.data() + at, rows);
  });
}

void rms_norm(const RowNorm& norm, std::span<const float> values, std::span<float> results) {
  if (values.empty()) return;
  for_rows(std::ssize(values) / norm.count, norm.count, [&](int64_t first, size_t rows) {
    const int64_t at = first * norm.count;
    HWY_DYNAMIC_DISPATCH(RmsNormRows)(norm, values.data() + at, results.data() + at, rows);
  });
}

void group_norm(const ChannelNorm& norm, std::span<const float> values, std::span<float> results) {
  if (values.empty()) return;
  const int64_t channels = norm.channels / norm.groups;
  const int64_t count = channels * norm.positions;
  for_rows(std::ssize(values) / count, count, [&](int64_t first, size_t groups) {
    for (int64_t group = first; group < first + static_cast<int64_t>(groups); ++group) {
      HWY_DYNAMIC_DISPATCH(GroupNormGroup)
      (norm, values.data() + group * count, results.data() + group * count,
       static_cast<size_t>(group % norm.groups * channels), static_cast<size_t>(channels));
    }
  });
}

RowScale group_scale(std::span<const float> row, double eps) {
  return {HWY_DYNAMIC_DISPATCH(SumsOf)(row.data(), row.size()), row.size(), eps};
}

void scale_channels(const ChannelScales& by, int64_t channels, int64_t positions, const float* values,
                    float* results) {
  HWY_DYNAMIC_DISPATCH(ScaleChannels)
  (by, values, results, static_cast<size_t>(channels), static_cast<size_t>(positions));
}

ScaleAndShift batch_norm_map(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                             size_t channel) {
  const float inverse = 1 / std::sqrt(var[channel] + static_cast<float>(norm.eps));
  const float scale = norm.weight.empty() ? inverse : inverse * norm.weight[channel];
  const float moved = mean[channel] * scale;
  return {scale, norm.bias.empty() ? -moved : norm.bias[channel] - moved};
}

void batch_norm(const ChannelNorm& norm, std::span<const float> mean, std::span<const float> var,
                std::span<const float> values, std::span<float> results) {
  if (values.empty()) return;
  for_rows(std::ssize(values) / norm.positions, norm.positions, [&](int64_t first, size_t rows) {
    for (int64_t row = first; row < first + static_cast<int64_t>(rows); ++row) {
      const auto [scale, shift] = batch_norm_map(norm, mean, var, static_cast<size_t>(row % norm.channels));
      const int64_t at = row * norm.positions;
      HWY_DYNAMIC_DISPATCH(ScaleAndShift)
      (scale, shift, values.data() + at, results.data() + at, static_cast<size_t>(norm.positions));
    }
  });
}

}  // namespace detent
#endif  // HWY_ONCE
