#pragma once

#include <cstdint>
#include <vector>

#include "detent/search/options.h"

namespace detent {

/// What a network makes of some samples, beside what the float network makes of them. Sums: parts add up.
struct Quality {
  int64_t samples = 0;
  int64_t labelled = 0;
  int64_t correct = 0;  // of the labelled
  double signal = 0;    // sum of squares of what the float network gives (compared_values)
  double noise = 0;     // of the differences from it
  /// Kullback-Leibler divergence of a classifier's probabilities from the float network's, summed over the
  /// samples; 0 where there are no classes.
  double divergence = 0;

  void add(const Quality& part);
  double accuracy() const;
  double sqnr_db() const;
  /// What quantization does to a sample on average, smoother than the accuracy: the divergence, or, of what
  /// is no classifier, the share of the noise in the signal.
  double distortion() const;
  /// To be made small, where a network is judged by `kind` (not kAuto): of accuracies the number of errors,
  /// and behind the point what tells networks with as many apart; else the share of the noise.
  double loss(QualityKind kind) const;

  std::vector<double> to_numbers() const;
  static Quality from_numbers(const std::vector<double>& numbers);
  bool operator==(const Quality&) const = default;
};

}  // namespace detent
