#pragma once

#include <cstddef>
#include <string_view>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// How many inputs of nodes name `node`.
size_t reader_count(const Graph& graph, std::string_view node);

/// Makes every node that reads `from` read `to` instead.
void redirect_readers(Graph& graph, std::string_view from, std::string_view to);

/// Removes the nodes that the output does not depend on, placeholders excepted; returns how many.
size_t remove_unreachable_nodes(Graph& graph);

/// Runs both graphs on a few calibration samples. Throws Error when `after` is no valid graph or an output
/// differs by more than `tolerance` times the largest magnitude of `before`'s; returns the largest difference
/// in that unit.
double check_same_outputs(const Graph& before, const Graph& after, double tolerance,
                          const PassContext& context);

}  // namespace detent
