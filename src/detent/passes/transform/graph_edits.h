#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// How many inputs of nodes name a node, by the node's name; nodes that nothing reads have 0.
std::map<std::string, size_t> reader_counts(const Graph& graph);

/// Makes every node that reads a key of `replaced` read its value instead, which may be a key itself.
void redirect_readers(Graph& graph, const std::map<std::string, std::string>& replaced);

/// Removes the nodes that the output does not depend on, placeholders excepted; returns how many.
size_t remove_unreachable_nodes(Graph& graph);

/// The network in float.
Graph without_quantization(const Graph& graph);

/// How far the outputs of two graphs differed, in units of the largest magnitude, and on how many samples.
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

/// Compares what two networks make of so many calibration samples, all that there are if these are fewer.
OutputBits compare_output_bits(const Graph& before, const Graph& after, int64_t samples,
                               const PassContext& context);

/// Makes layers of the convolutions and products of a matrix whose weight is a tensor that the network owns,
/// as it is once what computes it (a standardized or normalized weight) is folded: so it is quantized as
/// weights are, per channel. Returns how many.
size_t make_constant_layers(Graph& graph);

/// Makes what reads a sum with 0, a difference from it, a product with 1 or a quotient by it read the other
/// operand, and leaves these nodes without readers: a value that is not changed need not be rounded again.
/// The sign of a zero alone may change. Returns how many.
size_t bypass_neutral_nodes(Graph& graph);

/// Which tensors of weights a quantized network keeps in float32 and what share of its weights' bytes they
/// take, a line; "" where none has two dimensions or more.
std::string float_weights_text(const Graph& graph);

}  // namespace detent
