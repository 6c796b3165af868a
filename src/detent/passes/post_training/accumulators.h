#pragma once

#include <string>
#include <vector>

#include "detent/graph/accumulator.h"
#include "detent/graph/graph.h"

namespace detent {

/// Which layers add their products up in what (graph/accumulator.h): "int16" of all, "layer1.*=int24:wrap" of
/// those whose whole names match; of several entries that match the first counts.
using AccumulatorChoice = std::vector<std::string>;

inline constexpr const char* kAccumulatorHelp =
    "what hardware adds the products of a layer up in, simulated at each step: int16, int24, ... with "
    ":saturate "
    "(as without) or :wrap, fp16, bf16, fp22; or of single layers by regular expressions for their names, "
    "'layer1.*=int16,int24'; without it sums are exact";

/// Throws Error, beginning with `where`, on an entry that names no accumulator or no regular expression.
void check_accumulators(const AccumulatorChoice& choice, const std::string& where);
/// The same on a pattern that matches no layer with weights.
void check_accumulators(const AccumulatorChoice& choice, const Graph& graph, const std::string& where);

/// Gives the layers their accumulators. Those that compute in float take no integers: a pattern that names
/// one, or no layer, is an Error; others are left, and the text says which.
std::string set_accumulators(Graph& graph, const AccumulatorChoice& choice, const std::string& where);

}  // namespace detent
