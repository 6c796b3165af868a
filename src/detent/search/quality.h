#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/share_error.h"
#include "detent/search/options.h"

namespace detent {

/// A network's outputs on some samples compared with the float network's. All are sums, so parts add up.
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
  /// Whether all outputs are finite; otherwise the noise is infinite, and the network is no candidate.
  bool is_finite() const;
  double accuracy() const;
  double standard_error() const { return share_error(correct, labelled); }  // of the accuracy
  double sqnr_db() const;
  /// Mean effect of quantization on a sample, smoother than the accuracy: the divergence, or for networks
  /// that do not classify the noise-to-signal ratio. This and `loss` are finite.
  double distortion() const;
  /// To be made small, where a network is judged by `kind` (not kAuto): of accuracies the number of errors,
  /// with a tie-breaker as the fraction; else the share of the noise.
  double loss(QualityKind kind) const;

  std::vector<double> to_numbers() const;
  /// Throws Error beginning with `where` on counts that are none.
  static Quality from_numbers(const std::vector<double>& numbers, const std::string& where);
  bool operator==(const Quality&) const = default;
};

}  // namespace detent
