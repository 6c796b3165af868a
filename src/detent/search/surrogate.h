#pragma once

#include <utility>
#include <vector>

#include "detent/search/sensitivities.h"
#include "detent/search/space.h"

namespace detent {

/// Predicts the logarithm of the distortion of assignments: what sensitivities add up to, and the mean of
/// what networks that were measured had beyond that, the nearer ones weighing more (Nadaraya 1964, Watson
/// 1964).
class Surrogate {
 public:
  Surrogate(const SearchSpace& space, const Sensitivities& sensitivities);

  /// A measured distortion. Measured again, on more samples, it replaces what was seen before.
  void see(const Assignment& assignment, double distortion);
  double predict(const Assignment& assignment) const;
  /// Root of the mean square by which predictions missed what was seen later.
  double deviation() const;

 private:
  double sum_of_parts(const Assignment& assignment) const;

  struct Seen {
    Assignment assignment;
    double beyond;  // the sum of the parts
  };

  const Sensitivities& sensitivities_;
  std::vector<size_t> open_;  // choices of more than one format
  std::vector<Seen> seen_;
  double squares_ = 0;
  double count_ = 0;
};

}  // namespace detent
