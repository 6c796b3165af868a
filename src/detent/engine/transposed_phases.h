#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "detent/engine/packed_float_sums.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/place.h"

namespace detent {

/// Which results of a layer are computed: every `step`-th from `first` on, before `end`.
struct ResultGrid {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  int64_t first_z = 0, first_y = 0, first_x = 0;
  int64_t step_z = 1, step_y = 1, step_x = 1;
  int64_t end_z = kAll, end_y = kAll, end_x = kAll;

  int64_t planes(const Place& out) const { return count(first_z, step_z, std::min(end_z, out.depth())); }
  int64_t rows(const Place& out) const { return count(first_y, step_y, std::min(end_y, out.height())); }
  int64_t columns(const Place& out) const { return count(first_x, step_x, std::min(end_x, out.width())); }

 private:
  static int64_t count(int64_t first, int64_t step, int64_t all) {
    return first < all ? (all - first + step - 1) / step : 0;
  }
};

/// A transposed convolution of stride s is s plain ones of stride 1 in each dimension, whose results
/// interleave: each takes every s-th tap of the kernel, in the opposite order.
struct TransposedPhase {
  std::shared_ptr<const PackedSums> packed;
  ResultGrid grid;
  std::vector<int64_t> taps;  // that the positions of its window are; -1: none is, and its weights are 0
};

std::vector<TransposedPhase> transposed_phases(const SumForm& form, const Node& node,
                                               const KernelSet& kernels);
/// The same in float32.
struct TransposedFloatPhase {
  std::shared_ptr<const PackedFloatSums> packed;
  ResultGrid grid;
};
/// Empty where no kernel computes the step's node: one that is no transposed convolution of constant weight,
/// whose stride leaves results without a tap, or where zeros between the inputs would show in the sums (a
/// weight that is not finite, a bias of -0).
std::vector<TransposedFloatPhase> transposed_float_phases(const ReferenceStep& step);

/// The packed weights, as SumForm has them.
Tensor unpacked_weights(const std::vector<TransposedPhase>& phases, const Node& node, const Shape& shape);

}  // namespace detent
