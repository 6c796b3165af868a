#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// A value that linear layers read and that is to be rotated, a block of its last dimension at a time.
struct Rotation {
  NodeInput value;
  size_t rank = 0;                 // of the value
  int64_t features = 0;            // size of its last dimension
  std::vector<std::string> sinks;  // layers that read it
  /// The linear layer whose outputs are rotated instead, where nothing else reads what lies between: blocks
  /// are only moved on the way, or added up with factors. "": none, nodes rotate the value.
  std::string source = {};
};

struct Rotations {
  std::vector<Rotation> found;
  std::vector<std::string> obstacles;  // "NODE: why its input stays as it is"
};

/// For blocks of `block` elements.
Rotations find_rotations(const Graph& graph, int64_t block);

/// The network with rotated values and weights; it computes the same.
Graph with_rotations(const Graph& graph, const std::vector<Rotation>& rotations, int64_t block);

}  // namespace detent
