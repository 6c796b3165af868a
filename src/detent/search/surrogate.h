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

/// Predicts the logarithm of the distortion of assignments: what their parts add up to, fitted to what was
/// measured, and what networks had beyond that, by a Gaussian process whose covariance falls with the steps
/// between two assignments (Rasmussen and Williams 2006, section 2.2).
class Surrogate {
 public:
  Surrogate(const SearchSpace& space, const Sensitivities& sensitivities);

  /// A measured distortion. Measured again, on more samples, it replaces what was seen before.
  void see(const Assignment& assignment, double distortion);
  double predict(const Assignment& assignment) const;
  /// Root of the mean square by which predictions missed what was seen later.
  double deviation() const;

 private:
  /// The covariance of what two networks have beyond their parts, in units of its variance.
  double likeness(const Assignment& a, const Assignment& b) const;
  void fit_parts();
  void fit_rest();

  FittedParts parts_;
  std::vector<size_t> open_;  // choices of more than one format
  std::vector<std::pair<Assignment, double>> seen_;
  std::vector<double> weights_;  // of the likenesses to what was seen
  size_t next_parts_;            // are fitted when so many were seen
  size_t next_rest_ = 1;
  double squares_ = 0;
  double count_ = 0;
};

}  // namespace detent
