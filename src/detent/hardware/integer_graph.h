#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"

namespace detent {

/// The affine format that rounds every number as `rounding` does, if there is one: the values are all
/// multiples k * scale of a range, and each number goes to the nearest. Proved on both sides of every step.
std::optional<QuantSpec> affine_equal(const QuantSpec& rounding);

/// The network with affine formats of given scales instead of equal formats (fixed point), and for weights
/// whose values are multiples of a step (ternary, binary). Integer execution takes it. `notes` gets a line
/// for each layer whose bias is no multiple of its accumulators' unit, and is rounded to one.
Graph integer_graph(const Graph& graph, std::vector<std::string>& notes);

}  // namespace detent
