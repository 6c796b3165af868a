#include "detent/training/loader.h"

#include <ATen/ops/empty.h>

namespace detent {

int64_t draw_order_seed() {
  const auto draw = [] { return at::empty({}, at::kLong).random_().item<int64_t>(); };
  static_cast<void>(draw());  // the base seed of the workers, which detent does not have
  return draw();
}

}  // namespace detent
