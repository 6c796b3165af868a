#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// What the kernel needs.
struct BinaryResidualParameters {
  std::vector<float> gammas;
  Interval unsaturated;  // inputs
};

/// `levels` signs per element (ReBNet; Ghasemzadeh et al. 2017, arXiv:1711.01243): r_0 = x, b_l = sign(r_l)
/// with sign(0) = +1, r_(l+1) = r_l - gamma_l * b_l; value: the sum of gamma_l * b_l, in float32 and in this
/// order. gamma_l is given, or the mean |r_l| of the group's finite elements, but at most 1/8 of the largest
/// float32, so that no sum overflows. In general no zero; infinities give +-(the sum of gamma_l), NaN stays.
struct BinaryResidual {
  static constexpr const char* kName = "binary_residual";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "a sum of scaled signs, each of what the ones before left";
  using Parameters = BinaryResidualParameters;
  static constexpr float kMostGamma = std::numeric_limits<float>::max() / 8;

  int levels = 2;
  std::vector<float> gamma = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("levels", self.levels, "signs an element", Between{1, 8});
    visit("gamma", self.gamma, "scale of each level; empty: the mean magnitude of what is left",
          Between{0, static_cast<double>(kMostGamma)});
  }

  double bits() const { return levels; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const {
    return gamma.empty() ? nullptr : "key \"gamma\" gives the scales of the whole tensor";
  }
  void validate(const std::string& where) const {
    if (gamma.empty() || gamma.size() == static_cast<size_t>(levels)) return;
    fail("{}: key \"gamma\": got {} values, expected one for each of {} levels", where, gamma.size(), levels);
  }
  std::vector<float> values(const std::string& where) const;

  Parameters parameters(const Group& group, uint64_t /*seed*/) const {
    std::vector<float> gammas = gamma;
    while (gammas.size() < static_cast<size_t>(levels)) {
      gammas.push_back(std::min(static_cast<float>(group.residual_magnitudes(gammas).mean()), kMostGamma));
    }
    float largest = 0;
    for (const float each : gammas) largest += each;
    return {.gammas = std::move(gammas), .unsaturated = {-largest, largest}};
  }

  bool operator==(const BinaryResidual&) const = default;
};

inline std::vector<float> BinaryResidual::values(const std::string& where) const {
  if (gamma.empty()) fail("{}: the values depend on the data, because gamma is not given", where);
  std::vector<float> sums = {0.0F};
  for (const float each : gamma) {
    std::vector<float> next;
    for (const float sum : sums) next.insert(next.end(), {sum - each, sum + each});
    sums = std::move(next);
  }
  std::ranges::sort(sums);
  sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
  return sums;
}

}  // namespace detent
