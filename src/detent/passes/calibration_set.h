#pragma once

#include <cstdint>

#include "detent/core/tensor.h"

namespace detent {

/// Inputs to profile a network with, in one order for all who see them.
class CalibrationSet {
 public:
  virtual ~CalibrationSet() = default;
  virtual int64_t size() const = 0;
  /// The samples [begin, end) of the order: float32, batch first. May be called from several threads.
  virtual Tensor samples(int64_t begin, int64_t end) const = 0;
  /// A number that differs when data or order do.
  virtual uint64_t fingerprint() const = 0;
};

}  // namespace detent
