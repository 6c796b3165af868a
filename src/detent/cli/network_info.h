#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"

namespace detent {

/// What a network takes and gives, and what it is made of: inputs, outputs, operators, parameters,
/// multiply-accumulates, by name.
Table network_facts(const Graph& graph);

/// What all parameters would take on the disk, with scales, if the weights of layers had a format.
struct FormatSize {
  std::string format;  // "" as they are now
  int64_t bytes = 0;
  double bits_per_weight = 0;  // of those that have the format
};

/// As the network is, and with formats that are often chosen; empty of a network without layers that have
/// weights.
std::vector<FormatSize> sizes_by_format(const Graph& graph);

}  // namespace detent
