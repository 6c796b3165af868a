#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Inputs to profile a network with, in one order for all who see them.
class CalibrationSet {
 public:
  virtual ~CalibrationSet() = default;
  virtual int64_t size() const = 0;
  /// Inputs of the network from the samples [begin, end) of the order, a tensor an input, batch first. May be
  /// called from several threads.
  virtual std::vector<Tensor> inputs(int64_t begin, int64_t end) const = 0;
  /// Where the samples from `begin` on, all before `end`, have other sizes than the first of them.
  virtual int64_t same_size_end(int64_t begin, int64_t end) const {
    static_cast<void>(begin);
    return end;
  }
  /// A number that differs when data or order do.
  virtual uint64_t fingerprint() const = 0;
};

/// Samples [begin, end) of the order.
struct SampleRange {
  int64_t begin;
  int64_t end;
};

/// The first samples in batches of at most `most`, each of one size; or of as many as the network takes,
/// where that is fixed: at least one such batch, and samples that fill none are left out. Throws Error where
/// there are not enough for one.
std::vector<SampleRange> calibration_batches(const CalibrationSet& data, const Graph& graph, int64_t samples,
                                             int64_t most);
/// The sizes that the first sample gives the named dimensions.
NamedSizes sample_sizes(const CalibrationSet& data, const Graph& graph);
/// How many samples they hold.
int64_t sample_count(const std::vector<SampleRange>& batches);

}  // namespace detent
