#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// The positions begin, begin + step, ... below end of one dimension that a pooling window covers.
struct PoolingWindow {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t counted;  // positions that a mean divides by
};

/// For each spatial dimension of `input`, [N, C, ...], the window of each output position. `node` is a
/// pooling.
std::vector<std::vector<PoolingWindow>> pooling_windows(const Node& node, const Shape& input);

/// int32 codes to int32 codes. Throws Error where a window's sum could exceed 32 bits.
Tensor average_pool(const AverageForm& form, const Node& node, const Tensor& codes);
/// Means of float32 values: summed in double, in row-major order of the window, divided and then rounded
/// once.
Tensor average_pool(const Node& node, const Tensor& values);
/// The largest element of each window, NaN where one is among them; of int32 codes or float32 values.
Tensor max_pool(const Node& node, const Tensor& input);

}  // namespace detent
