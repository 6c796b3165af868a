#pragma once

#include <span>
#include <utility>
#include <vector>

#include "detent/search/sensitivities.h"
#include "detent/search/space.h"

namespace detent {

/// Smaller distortions count as this one, so that all have logarithms.
inline constexpr double kLeastDistortion = 1e-12;

/// Contribution of each format of each operand to a network's distortion, as if the noise of operands added
/// up: at first from the sensitivities, then fitted to measured networks. In squares
/// relative to each distortion, with the sensitivities as the prior (ridge regression; Hoerl and Kennard
/// 1970).
class FittedParts {
 public:
  FittedParts(const SearchSpace& space, const Sensitivities& sensitivities);

  /// The distortion of the assignment, above 0: its parts, and what layers that add to one residual have in
  /// common.
  double sum(const Assignment& assignment) const;
  /// Distortions of whole networks.
  void fit(std::span<const std::pair<Assignment, double>> measured);

 private:
  double sum_of_pairs(const Assignment& assignment) const;

  const Sensitivities& sensitivities_;
  std::vector<std::vector<double>> parts_;   // by choice and format
  std::vector<std::vector<size_t>> places_;  // of the parts among all fitted ones
  size_t count_ = 0;
};

}  // namespace detent
