#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/hardware/circuit.h"

namespace detent {

/// Layers on the longest path from the inputs to the outputs.
int layer_depth(const Circuit& circuit);

/// The stage at which a layer reads these wires.
int reading_stage(const Circuit& circuit, const std::vector<Wire>& wires);

/// Spreads `latency` registers evenly over the layers from the inputs to the outputs: at most one after
/// each layer, which is the default. Sets the stages of the signals. Throws Error beyond that.
void schedule(Circuit& circuit, std::optional<int64_t> latency);

}  // namespace detent
