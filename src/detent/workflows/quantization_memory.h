#pragma once

#include <cstdint>

#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// Says, before a network is quantized by these passes (quantize_passes.h), how much memory the process takes
/// at most until the result is written: what is resident now, and what passes, analysis and files need
/// besides. Returns these bytes. Of other networks than language models it says nothing, and returns 0.
int64_t announce_quantization_memory(const Graph& network, const Table& passes, const Dataset& calibration);

}  // namespace detent
