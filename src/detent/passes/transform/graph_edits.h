#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// How many inputs of nodes name a node, by the node's name; nodes that nothing reads have 0.
std::map<std::string, size_t> reader_counts(const Graph& graph);

/// Makes every node that reads a key of `replaced` read its value instead, which may be a key itself.
void redirect_readers(Graph& graph, const std::map<std::string, std::string>& replaced);

/// Removes the nodes that the output does not depend on, placeholders excepted; returns how many.
size_t remove_unreachable_nodes(Graph& graph);

/// The network in float.
Graph without_quantization(const Graph& graph);

/// How far the outputs of two graphs differed, in units of the largest magnitude, and on how many samples.
struct OutputDifference {
  double relative = 0;
  int64_t samples = 0;
};

/// Runs both graphs on up to 16 calibration samples, fewer where these cost more than a second. Throws Error
/// when `after` is no valid graph or an output differs by more than `tolerance` times the largest magnitude
/// of `before`'s.
OutputDifference check_same_outputs(const Graph& before, const Graph& after, double tolerance,
                                    const PassContext& context);

}  // namespace detent
