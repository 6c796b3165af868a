#pragma once

#include <map>
#include <string>
#include <vector>

#include "detent/formats/packing/encode.h"
#include "detent/graph/graph.h"

namespace detent {

/// A graph, and the codes of its quantized parameters.
struct PackedWeights {
  /// As it was given, but: formats that would derive other parameters from the values of the codes give those
  /// that these were rounded with.
  Graph graph;
  /// By the first byte of the parameter in `graph`; what shares storage is there once.
  std::map<const std::byte*, Encoded> codes;
  /// Parameters that have a format and stay float32, and why, a line each.
  std::vector<std::string> left;
};

/// Packs every parameter of which it can prove, to the last bit, that nothing changes: decoding gives what
/// the simulation makes of the float32 values, and quantizing that again, as the graph does each time it
/// runs, leaves it as it is.
PackedWeights pack_weights(const Graph& graph);

}  // namespace detent
