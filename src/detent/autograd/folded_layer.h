#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/graph/folded_norm.h"
#include "detent/operators/autograd.h"

namespace detent {

/// The batch norm that a layer in training takes up.
struct FoldedNorm {
  NormFolding kind = NormFolding::kNo;
  const Node* node = nullptr;
  std::vector<std::pair<std::string_view, at::Tensor>> parameters = {};
  /// Whether the running statistics are used as they are.
  bool is_frozen = false;
};

/// Rounds a weight.
using RoundWeight = std::function<at::Tensor(const at::Tensor&)>;

/// The layer and the norm after it, differentiably, of operands that are rounded but for the weight; updates
/// the running statistics. With W the weight, mu and sigma of the batch (of the sums of the weights before
/// they are rounded), r the sigma that weights are multiplied by the inverse of:
///
///     conv(x, round(W gamma / r)) r / sigma + beta - mu gamma / sigma
at::Tensor run_with_norm(Evaluator evaluate, Evaluation layer, const FoldedNorm& norm,
                         const RoundWeight& round);

}  // namespace detent
