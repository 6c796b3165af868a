#pragma once

#include <algorithm>

#include "detent/statistics/per_slot.h"

namespace detent {

/// zero_share = zeros (of either sign) / count, count.
struct ZeroShare {
  static constexpr const char* kName = "zero_share";
  static constexpr const char* kHelp = "share of the values that are zero";
  using Options = DimsOptions;
  struct State {
    int64_t zeros = 0;
    void add(float value, const Options&) { zeros += value == 0 ? 1 : 0; }
    void merge(const State& other) { zeros += other.zeros; }
  };
  static Table result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count) {
    const auto share = [&](size_t slot) {
      return Value(static_cast<double>(states[slot].zeros) / static_cast<double>(count));
    };
    return {{"zero_share", reduction.shaped(share)}, {"count", count}};
  }
};

/// absmax, count.
struct AbsMax {
  static constexpr const char* kName = "absmax";
  static constexpr const char* kHelp = "largest magnitude";
  using Options = DimsOptions;
  struct State {
    float largest = 0;
    void add(float value, const Options&) { largest = std::max(largest, std::fabs(value)); }
    void merge(const State& other) { largest = std::max(largest, other.largest); }
  };
  static Table result(const Options&, const Reduction& reduction, const std::vector<State>& states,
                      int64_t count) {
    const auto value = [&](size_t slot) { return Value(static_cast<double>(states[slot].largest)); };
    return {{"absmax", reduction.shaped(value)}, {"count", count}};
  }
};

}  // namespace detent
