#pragma once

#include <cstddef>
#include <span>

#include "detent/graph/operators.h"

namespace detent {

// The operator `loop` runs its node's body until the body ends it or a number of times:
//
//     inputs of the node:    most iterations, condition, carried values, captured values
//     inputs of the body:    iteration,       condition, carried values, captured values
//     outputs of the body:                    condition, carried values, collected values
//     results of the node:                               carried values, collected values
//
// Either of the first two inputs may be absent; the other one then ends the loop. Captured values are the
// same in each iteration. Collected ones become the rows of the result. Changing sizes of a carried value
// have names in the body and are open in the result.

/// The first inputs of node and body: of the iterations and of the condition.
inline constexpr size_t kLoopControls = 2;
/// Maximum nesting of loops.
inline constexpr size_t kDeepestLoop = 6;

size_t carried_count(const Node& loop);
/// Whether any operand of the graph, or of the body of a loop in it, is quantized.
bool holds_quantizers(const Graph& graph);
/// The body's values, by iteration: what holds for all of them. `inputs` are those of the node. Throws Error
/// where they do not fit.
ValueTypes loop_body_types(const Node& loop, std::span<const Operand> inputs);
/// Types of a graph's values for these input types, in order: sizes may be open.
ValueTypes infer_shapes_of(const Graph& graph, std::span<const Operand> inputs);

}  // namespace detent
