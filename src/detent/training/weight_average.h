#pragma once

#include <string>
#include <vector>

#include "detent/graph/graph_parameters.h"
#include "detent/training/optimizer.h"

namespace detent {

/// A moving average of parameters over the steps of a training (Polyak and Juditsky 1992):
///
///     average <- d average + (1 - d) parameter,  d = min(decay, (1 + step) / (10 + step))
///
/// so that the first steps, which lie far from where training ends, are soon forgotten.
class WeightAverage {
 public:
  /// With decay 0 there is none: nothing is kept, and all that follows does nothing.
  WeightAverage(std::vector<NamedParameter> parameters, double decay);

  /// After step `step` (from 0) of the optimizer.
  void update(int64_t step);

  /// While it lives, the parameters have the values of the average.
  class InPlace {
   public:
    explicit InPlace(WeightAverage& average) : average_(average) { average_.exchange(); }
    ~InPlace() { average_.exchange(); }
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;

   private:
    WeightAverage& average_;
  };

  /// The averages by their parameters' names; empty without any.
  StateDict state() const;
  /// Restores an earlier `state`. Throws Error, beginning with `source`, where it does not fit.
  void load_state(const StateDict& state, const std::string& source);

 private:
  void exchange();

  double decay_;
  std::vector<NamedParameter> parameters_;
  std::vector<at::Tensor> averages_;
};

}  // namespace detent
