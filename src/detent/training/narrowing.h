#pragma once

#include <utility>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/training/options.h"

namespace detent {

/// Progressive narrowing: quantizers whose scale is learned begin with more bits than they end with. Stage i
/// lasts options.narrowing_steps optimizer steps, in which none of them has fewer than options.narrowing[i]
/// bits; after the last stage they have their own. Where a quantizer gets narrower its scale grows as much
/// as keeps the range, which stays what it was.
class Narrowing {
 public:
  /// Throws Error where the stages would take all of `total_steps`, or widths grow.
  Narrowing(Graph& graph, const TrainingOptions& options, int64_t total_steps);

  /// Gives the quantizers of the graph the widths of step `step` (from 0). Says whether any changed.
  bool advance(int64_t step);
  /// The same for a network whose scales are those of that step already.
  void resume(int64_t step);
  /// Whether step `step` has the widths that training ends with.
  bool is_done(int64_t step) const;

 private:
  int width_at(int own, int64_t step) const;
  bool set_widths(int64_t step, bool scales_follow);

  std::vector<int64_t> widths_;
  int64_t steps_;
  std::vector<std::pair<Quantizer*, int>> quantizers_;  // with the width that they end with
};

}  // namespace detent
