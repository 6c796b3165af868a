#pragma once

#include <optional>
#include <string>

#include "detent/graph/graph.h"
#include "detent/hardware/circuit.h"

namespace detent {

struct CircuitOptions {
  std::string name = {};           // of the top module; empty: the graph's
  std::optional<int64_t> latency;  // clock cycles; none: a register after each layer
};

/// The hardware that computes what integer execution does of `graph`, which is quantized for it. Throws Error
/// with all that keeps it from being made, a line each; warnings are among the notes.
Circuit make_circuit(const Graph& graph, const CircuitOptions& options = {});

}  // namespace detent
