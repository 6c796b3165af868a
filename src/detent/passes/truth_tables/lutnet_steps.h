#pragma once

#include <cstdint>
#include <vector>

#include "detent/graph/executor.h"
#include "detent/passes/truth_tables/lutnet_tables.h"

namespace detent {

/// What stands between a layer and the signs of the next: batch norms and what clamps, each of which grows or
/// falls with its input, for each channel by itself.
class ElementSteps {
 public:
  /// `steps` in the order of execution; `rank` is that of what they take.
  ElementSteps(const std::vector<const Node*>& steps, int64_t channels, size_t rank, Executor& executor);

  /// What the network makes of rows of one number a channel.
  std::vector<float> run(const std::vector<float>& rows) const;
  int64_t channels() const { return channels_; }

 private:
  int64_t channels_;
  size_t rank_;
  std::unique_ptr<const Program> program_;  // nullptr: nothing stands between
};

/// The sums from which on the residual code after the steps is 1, 2, ...: [outputs, 2^levels - 1]. Tables of
/// outputs whose code falls are negated.
std::vector<int32_t> find_thresholds(IntegerTables& tables, const ElementSteps& steps,
                                     const std::vector<float>& gamma);

}  // namespace detent
