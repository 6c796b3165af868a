#pragma once

#include <cstdint>
#include <vector>

#include "detent/evaluation/batches.h"
#include "detent/graph/graph.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// Where the random numbers of a command come from: default_generator(), or, in training, libtorch's.
struct RandomSource {
  void (*initialize)(Graph& graph) = [](Graph& graph) { initialize_parameters(graph, default_generator()); };
  int64_t (*draw_order_seed)() = [] { return detent::draw_order_seed(default_generator()); };

  /// The order of the next pass over the data.
  std::vector<int64_t> shuffled_order(int64_t count) const {
    return detent::shuffled_order(count, draw_order_seed());
  }
};

}  // namespace detent
