#pragma once

#include <cstdint>
#include <memory>

#include "detent/graph/executor.h"

namespace detent {

/// What an executor makes of networks with many weights takes as much memory again as these. This one lets
/// another compile them part after part while they run, and keeps no part: the same values, to the bit, for
/// the time that it takes to compile each part in every run. Several threads at the same part share it.
class ExecutorInParts final : public Executor {
 public:
  /// Networks whose weights take fewer bytes are compiled as a whole, as are those with several outputs or
  /// rounded inputs, and those of which parts would compute layers of others again (GraphCut).
  static constexpr int64_t kLeastBytes = int64_t{256} << 20;
  /// Weights of a part from which on it ends.
  static constexpr int64_t kPartBytes = int64_t{32} << 20;

  /// `whole` must outlive this and its programs.
  explicit ExecutorInParts(const Executor& whole, int64_t least_bytes = kLeastBytes,
                           int64_t part_bytes = kPartBytes)
      : whole_(whole), least_bytes_(least_bytes), part_bytes_(part_bytes) {}

  /// Where the network is cut, what the other executor does not run shows when the program runs.
  std::unique_ptr<const Program> compile(const Graph& graph) const override;

  /// Weights, in bytes, of the largest part of such a network, or all of them.
  int64_t most_at_once(const Graph& graph) const;

 private:
  const Executor& whole_;
  int64_t least_bytes_;
  int64_t part_bytes_;
};

}  // namespace detent
