#pragma once

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

inline constexpr const char* kTokensInput = "input_ids";
inline constexpr const char* kMaskInput = "attention_mask";
inline constexpr const char* kTypesInput = "token_type_ids";

/// End of the target of the node that gives each expert's share of each token, its results [N, sequence, 1].
inline constexpr const char* kExpertShares = ".shares";

/// The network as a graph of ordinary nodes. Inputs, int64: input_ids [N, sequence], attention_mask [N,
/// sequence], 1 where a token may be seen, and, of an encoder with token types, token_type_ids [N, sequence].
/// Output: logits [N, sequence, vocabulary], or last_hidden_state [N, sequence, hidden].
///
/// In a decoder, whose nodes layers.{}.attention.key_cache and .value_cache have what they gave of earlier
/// tokens too, the mask counts all tokens, and the queries are the last of them.
///
/// Names of nodes are those of the weights (language_weights.h). Throws Error where a weight is missing.
Graph build_language_graph(const LanguageConfig& config, WeightSource& weights);

/// Shapes and types of all values of a run of one sequence of so many tokens.
ValueTypes values_of_tokens(const Graph& graph, int64_t tokens);

}  // namespace detent
