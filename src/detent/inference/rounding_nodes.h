#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// Rounds values to any format: they stay float32.
struct FormatRounding {
  QuantizerRef quantizer;
  std::optional<QuantSpec> spec;  // what it rounds with; none where no format has its values
  uint64_t seed;                  // of stochastic formats

  Tensor rounded(const Tensor& values) const;
};

/// An operand of a node, and how its values are rounded.
struct RoundedOperand {
  std::string node;
  std::string operand;
  FormatRounding rounding;
};

/// A graph in which nodes of their own, identities, round what has no codes in integer execution.
struct RoundedGraph {
  Graph graph;
  std::map<std::string, RoundedOperand, std::less<>> roundings;  // by the node that rounds
};

/// With requantization, operands that have an executed_type are none of this; all others that are quantized,
/// and without it all, are rounded by nodes of their own. Nodes keep their quantizers, which say how
/// parameters are rounded and what the nodes may compute.
///
///     conv (data_out_0: mx) -> relu        conv -> conv.data_out_0 -> relu
///
/// A value that the same quantizer has rounded where it was computed is not rounded again where rounding it
/// twice gives the same. Throws Error where a quantizer owns a parameter that it cannot round with.
RoundedGraph with_roundings_as_nodes(Graph graph);

}  // namespace detent
