#pragma once

#include <cstdint>

#include "detent/evaluation/batches.h"

namespace detent {

/// As draw_order_seed of evaluation/batches.h, from libtorch's default generator, which it advances by two
/// draws.
int64_t draw_order_seed();

}  // namespace detent
