#pragma once

#include <array>
#include <optional>
#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// How a layer in training takes up the batch norm behind it, so that it rounds the weights that inference
/// will have: weight * gamma / sigma, per channel. The parameter `folds_norm`, [], of the weight's quantizer
/// is one of these. The result always is that of batch norm with the statistics of the batch, but for
/// rounding.
enum class NormFolding {
  kNo,
  kBatch,      // sigma of the batch (Jacob et al. 2018, arXiv:1712.05877, section 3.2)
  kCorrected,  // the running sigma, and sums are multiplied by running / batch sigma: weights do not change
               // their codes with every batch (Krishnamoorthi 2018, arXiv:1806.08342, section 3.2.2)
};
constexpr std::array<const char*, 3> enum_names(NormFolding) { return {"no", "batch", "corrected"}; }

constexpr const char* kFoldsNorm = "folds_norm";

NormFolding norm_folding(const Node& layer);
/// Whether any layer does.
bool folds_norms(const Graph& graph);

/// The norm behind `layer`, when that can take it up: the layer's only reader, and nothing between them is
/// rounded. nullptr otherwise.
const Node* foldable_norm(const Graph& graph, const Node& layer);
/// The norm that the layer takes up; nullptr where it takes up none. Throws Error where there is none to take
/// up.
const Node* folded_norm(const Graph& graph, const Node& layer);

/// Lets the layers take up their norms for good, with the running statistics. In the place of the norms
/// there are identities.
void fold_trained_norms(Graph& graph);

}  // namespace detent
