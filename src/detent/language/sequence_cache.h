#pragma once

#include <cstdint>
#include <vector>

#include "detent/language/cached_tensor.h"
#include "detent/language/decoder.h"
#include "detent/language/known_moves.h"

namespace detent {

struct SequenceCache::Contents {
  int64_t size = 0;
  std::vector<CachedTensor> tensors;  // in the order of the cache nodes
  std::vector<KnownMove> moves;       // by step
};

}  // namespace detent
