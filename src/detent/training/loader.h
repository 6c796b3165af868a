#pragma once

#include <cstdint>
#include <vector>

#include "detent/evaluation/batches.h"

namespace detent {

/// As draw_order_seed of evaluation/batches.h, from libtorch's default generator.
int64_t draw_order_seed();

/// The order of the next pass over the data: advances that generator by two draws.
std::vector<int64_t> shuffled_order(int64_t count);

}  // namespace detent
