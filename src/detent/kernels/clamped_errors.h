#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace detent {

/// Values of some neighbouring channels that are compared at once.
inline constexpr int64_t kErrorLanes = 16;

/// Two tensors of [positions, stride] channels, each cut off at `low` and `high`.
struct ClampedPairs {
  const float* wanted;  // at the first of the channels
  const float* got;
  int64_t positions;
  int64_t stride;
  int64_t channels;  // at most kErrorLanes
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// Sums over the positions, in their order, for each channel.
struct ClampedErrors {
  using Lanes = std::array<double, kErrorLanes>;

  Lanes squares{};      // of clamp(wanted) - clamp(got + shift)
  Lanes differences{};  // clamp(wanted) - got where got + shift is not cut off
  Lanes counts{};       // of these
};
ClampedErrors clamped_errors(const ClampedPairs& pairs, const ClampedErrors::Lanes& shifts);

/// The same in the obvious way.
namespace plain {

inline ClampedErrors clamped_errors(const ClampedPairs& p, const ClampedErrors::Lanes& shifts) {
  const auto clamped = [&](double value) { return std::min(std::max(value, p.low), p.high); };
  ClampedErrors sums;
  for (int64_t at = 0; at < p.positions * p.stride; at += p.stride) {
    for (int64_t i = 0; i < p.channels; ++i) {
      const auto c = static_cast<size_t>(i);
      const auto got = static_cast<double>(p.got[at + i]);
      const double value = got + shifts[c];
      const double wanted = clamped(static_cast<double>(p.wanted[at + i]));
      const double error = wanted - clamped(value);
      sums.squares[c] += error * error;
      if (!(value > p.low && value < p.high)) continue;
      sums.differences[c] += wanted - got;
      sums.counts[c] += 1;
    }
  }
  return sums;
}

}  // namespace plain

}  // namespace detent
