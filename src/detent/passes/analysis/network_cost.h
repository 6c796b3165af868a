#pragma once

#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Products that a run takes for one sample: of weighted sums and of products of matrices, and one for each
/// element of the other results; nodes whose results have sizes that the data decide do not count. `sizes` of
/// the named dimensions, batch apart, where they are not the usual ones.
double multiply_adds(const Graph& graph, const NamedSizes& sizes = {});
/// The same of each node.
std::vector<double> node_multiply_adds(const Graph& graph, NamedSizes sizes = {});

/// As many samples, but at least one, as cost no more than `budget` products when each costs `per_sample`.
int64_t affordable_samples(int64_t samples, double per_sample, double budget);

}  // namespace detent
