#pragma once

#include "detent/graph/graph.h"
#include "detent/passes/reconstruction/round_weights.h"

namespace detent {

/// What choosing the values of all weights takes, and correcting the biases after it, in products: for each
/// sample, and whatever the samples.
struct ChoosingCost {
  double per_sample = 0;
  double fixed = 0;
  double per_step = 0;  // each weight times the second moments, as steps of signround take it

  double of(double samples) const { return fixed + samples * per_sample; }
  /// Below 0 where nothing is left for samples.
  double samples_for(double products) const { return (products - fixed) / per_sample; }
};

/// The cost of gptq (kSameInputs) or gptaq (kFloatNetwork), where the named dimensions have these sizes.
ChoosingCost choosing_cost(const Graph& network, RoundingTarget target, const NamedSizes& sizes = {});

}  // namespace detent
