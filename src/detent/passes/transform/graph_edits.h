#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Number of consumers by node name; 0 for nodes that nothing reads.
std::map<std::string, size_t> reader_counts(const Graph& graph);

/// Replaces references to keys of `replaced` by their values, which may be keys themselves.
void redirect_readers(Graph& graph, const std::map<std::string, std::string>& replaced);

/// Removes the nodes that the output does not depend on, placeholders excepted; returns how many.
size_t remove_unreachable_nodes(Graph& graph);

/// The network in float.
Graph without_quantization(const Graph& graph);

/// Difference of two graphs' outputs, in units of the largest magnitude, and the number of samples.
struct OutputDifference {
  double relative = 0;
  int64_t samples = 0;
};

/// Runs both graphs on up to 16 calibration samples, fewer where these cost more than a second. Throws Error
/// when `after` is no valid graph or an output differs by more than `tolerance` times the largest magnitude
/// of `before`'s.
OutputDifference check_same_outputs(const Graph& before, const Graph& after, double tolerance,
                                    const PassContext& context);

/// Elements of outputs, and those of them that differ in value.
struct OutputBits {
  int64_t compared = 0;
  int64_t differing = 0;
};

/// Compares two networks on this many calibration samples, or all if there are fewer.
OutputBits compare_output_bits(const Graph& before, const Graph& after, int64_t samples,
                               const PassContext& context);

/// Makes layers of the convolutions and products of a matrix whose weight is a tensor that the network owns,
/// as it is once what computes it (a standardized or normalized weight) is folded: so it is quantized as
/// weights are, per channel. Returns how many.
size_t make_constant_layers(Graph& graph);

/// Bypasses sums with 0, differences from it, products with 1 and quotients by it, which leaves these nodes
/// unread: an unchanged value need not be rounded again. Only the sign of a zero may change. Returns how
/// many.
size_t bypass_neutral_nodes(Graph& graph);

/// A line on weight tensors that a quantized network keeps in float32 and their share of all bytes; "" if
/// none has two or more dimensions.
std::string float_weights_text(const Graph& graph);

}  // namespace detent
