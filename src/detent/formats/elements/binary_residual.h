#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Parameters of the kernel.
struct BinaryResidualParameters {
  std::vector<float> gammas;
  /// For every code, the lowest with the same value; empty where that is always the code itself.
  std::vector<int32_t> lowest_code = {};

  static ElementKernels<BinaryResidualParameters> kernels();
};

/// `levels` signs per element (ReBNet; Ghasemzadeh et al. 2017, arXiv:1711.01243): r_0 = x, b_l = sign(r_l)
/// with sign(0) = +1, r_(l+1) = r_l - gamma_l * b_l; value: the sum of gamma_l * b_l, in float32 and in this
/// order. gamma_l is given, or the mean |r_l| of the group's finite elements, but at most 1/8 of the largest
/// float32, so that no sum overflows. In general no zero; infinities give +-(the sum of gamma_l), NaN stays.
/// Bit l of the code is 1 where b_l = +1; of codes with the same value, the lowest.
struct BinaryResidual {
  static constexpr const char* kName = "binary_residual";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "a sum of scaled signs, each of what the ones before left";
  using Parameters = BinaryResidualParameters;
  static constexpr bool kHasNan = false;
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
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;
  std::vector<ParameterStream> streams() const;
  void store(const Parameters& group, double* numbers) const;
  Parameters stored_parameters(const double* numbers) const;
  Interval unsaturated(const Parameters& group) const;

  bool operator==(const BinaryResidual&) const = default;
};

}  // namespace detent
