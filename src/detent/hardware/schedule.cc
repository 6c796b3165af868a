#include "detent/hardware/circuit.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {
namespace {

/// Layers that each signal has after it.
std::vector<int> depths_of(const Circuit& circuit) {
  std::vector<int> depths(circuit.signals.size());
  for (const Layer& layer : circuit.layers) {
    int deepest = 0;
    for (const Wire& wire : layer.inputs) {
      if (!wire.is_constant()) deepest = std::max(deepest, depths[static_cast<size_t>(wire.signal)]);
    }
    depths[static_cast<size_t>(layer.output)] = deepest + 1;
  }
  return depths;
}

int deepest_output(const Circuit& circuit, const std::vector<int>& depths) {
  int deepest = 0;
  for (const CircuitPort& port : circuit.outputs) {
    for (const Wire& wire : port.wires) {
      if (!wire.is_constant()) deepest = std::max(deepest, depths[static_cast<size_t>(wire.signal)]);
    }
  }
  return deepest;
}

}  // namespace

int layer_depth(const Circuit& circuit) { return deepest_output(circuit, depths_of(circuit)); }

int reading_stage(const Circuit& circuit, const std::vector<Wire>& wires) {
  int stage = 0;
  for (const Wire& wire : wires) {
    if (!wire.is_constant()) stage = std::max(stage, circuit.signals[static_cast<size_t>(wire.signal)].stage);
  }
  return stage;
}

void schedule(Circuit& circuit, std::optional<int64_t> latency) {
  const std::vector<int> depths = depths_of(circuit);
  const int deepest = deepest_output(circuit, depths);
  if (latency && (*latency < 0 || *latency > deepest)) {
    fail("latency: got {} clock cycles, expected 0 (no registers) to {}, one after each of the layers",
         *latency, deepest);
  }
  circuit.latency = static_cast<int>(latency.value_or(deepest));
  for (size_t i = 0; i < depths.size(); ++i)
    circuit.signals[i].stage = deepest == 0 ? 0 : std::min(depths[i], deepest) * circuit.latency / deepest;
}

}  // namespace detent
