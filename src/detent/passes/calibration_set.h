#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Inputs for profiling, in one order for all passes.
class CalibrationSet {
 public:
  virtual ~CalibrationSet() = default;
  virtual int64_t size() const = 0;
  /// Inputs of the samples [begin, end) of the order, a tensor per input, batch first. Thread-safe.
  virtual std::vector<Tensor> inputs(int64_t begin, int64_t end) const = 0;
  /// First sample after `begin`, before `end`, with other sizes than it.
  virtual int64_t same_size_end(int64_t begin, int64_t end) const {
    static_cast<void>(begin);
    return end;
  }
  /// Fingerprint of data and order.
  virtual uint64_t fingerprint() const = 0;
};

/// Samples [begin, end) of the order.
struct SampleRange {
  int64_t begin;
  int64_t end;
};

/// The first samples in batches of at most `most`, each of one size; or of the network's fixed batch: at
/// least one, incomplete ones are dropped. Throws Error if there are not enough for one.
std::vector<SampleRange> calibration_batches(const CalibrationSet& data, const Graph& graph, int64_t samples,
                                             int64_t most);
/// Named sizes of the first sample.
NamedSizes sample_sizes(const CalibrationSet& data, const Graph& graph);
/// Number of samples.
int64_t sample_count(const std::vector<SampleRange>& batches);

}  // namespace detent
