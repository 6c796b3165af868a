#pragma once

#include <cstdint>
#include <optional>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"
#include "detent/integer/node_form.h"

namespace detent {

/// The form of a weighted sum; what node_form says of it.
std::optional<SumForm> sum_form(const WeightedSum& sum, const Node& node, Requantization requantization);

/// The rounding of a weight of which some scales are larger than before.
struct RaisedScales {
  QuantSpec rounding;
  int64_t raised = 0;  // scales
  double factor = 1;   // the largest that one was raised by
};

/// What a weighted sum's weight must be rounded with so that biases and sums fit into 32 bits; nullopt where
/// they do, or where the node has no SumForm. A bias is a number of steps of input scale x weight scale:
/// where the weights of a channel are nearly 0, as of one that a batch norm switched off, these steps are too
/// small, and larger ones lose nothing that matters beside the bias. Sums of products that are beyond 32 bits
/// by less than a bit lose that bit; by more, the widths are too large for them, which node_form refuses.
std::optional<RaisedScales> raised_to_fit(const Node& node);

}  // namespace detent
