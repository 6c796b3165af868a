#pragma once

#include <utility>
#include <vector>

#include "detent/search/fitted_parts.h"
#include "detent/search/sensitivities.h"
#include "detent/search/space.h"

namespace detent {

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
