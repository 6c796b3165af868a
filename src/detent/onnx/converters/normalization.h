#pragma once

#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

NodeInput reduced_mean(NodeImport& node, NodeInput x, const std::vector<int64_t>& dims);

/// (x - mean) / sqrt(variance + epsilon), and what it took.
struct Standardized {
  NodeInput value;
  NodeInput mean;
  NodeInput deviation;
};
Standardized standardized_over(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                               double epsilon);

/// x / sqrt(mean of x^2 + epsilon)
NodeInput over_root_mean_square(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                                double epsilon);

}  // namespace detent
