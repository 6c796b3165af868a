#pragma once

#include "detent/graph/graph.h"

namespace detent {

/// That of its weights; kNo where these are not quantized.
NormFolding norm_folding(const Node& layer);
/// Whether any layer folds one.
bool folds_norms(const Graph& graph);

/// The norm after `layer`, when that can take it up: the layer's only reader, and nothing between them is
/// rounded. nullptr otherwise.
const Node* foldable_norm(const Graph& graph, const Node& layer);
/// The norm that the layer takes up; nullptr where it takes up none. Throws Error where there is none to take
/// up.
const Node* folded_norm(const Graph& graph, const Node& layer);

/// Lets the layers take up their norms for good, with the running statistics. In the place of the norms
/// there are identities.
void fold_trained_norms(Graph& graph);

}  // namespace detent
