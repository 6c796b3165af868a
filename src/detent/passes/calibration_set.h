#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Inputs to profile a network with, in one order for all who see them.
class CalibrationSet {
 public:
  virtual ~CalibrationSet() = default;
  virtual int64_t size() const = 0;
  /// What the network takes of the samples [begin, end) of the order, a tensor an input, batch first. May be
  /// called from several threads.
  virtual std::vector<Tensor> inputs(int64_t begin, int64_t end) const = 0;
  /// A number that differs when data or order do.
  virtual uint64_t fingerprint() const = 0;
};

}  // namespace detent
