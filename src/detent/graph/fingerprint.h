#pragma once

#include <cstdint>

#include "detent/graph/graph.h"

namespace detent {

/// Hash of the network's structure, parameters and quantization: two networks with the same fingerprint
/// compute the same, but for coincidences (1 in 2^64). The same in every build (core/xxh64.h): files hold it.
uint64_t network_fingerprint(const Graph& graph);

}  // namespace detent
