#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detent/engine/packed_sums.h"
#include "detent/inference/reference_step.h"

namespace detent {

/// Bytes of places of 8-bit integers: counted from the lowest of these.
inline constexpr CodeType kIntegerBytes{.scale = 1, .zero_point = 0, .low = 0, .high = 255};

/// The constant weights of a node that adds products of integers (CodeOperator), for bytes whose zero point
/// comes with the run:
///
///     sum[c] = bias[c] + sum_i (x_i - zero) w_ci          modulo 2^32
///
/// with weights less their own zero points.
struct PackedCodeSums {
  PackedSums sums = {};
  std::vector<int32_t> weight_sums = {};  // sum_i w_ci, in the order of `start`
  std::vector<int32_t> outputs = {};      // c, likewise; 0 of what fills up
  int64_t channels = 0;                   // outputs of the node
  bool is_linear = false;
  int64_t depth = 0;  // products of a sum
  int64_t bound = 0;  // no sum without its bias is larger in magnitude

  Layout layout() const { return is_linear ? Layout::kRows : Layout::kChannelsLast; }
};

using PackedCodeLayers = std::map<std::string, std::shared_ptr<const PackedCodeSums>, std::less<>>;

/// Layers of a plan, by node.
PackedCodeLayers packed_code_layers(const ReferencePlan& plan, const KernelSet& kernels);

}  // namespace detent
