#pragma once

#include <cstdint>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Bits that a graph's tensors take, codes and scales counted as they are stored; float32 where no format is.
///
/// Activations are the values that quantizable nodes read. Each is counted once, however many nodes read it,
/// with the bits that it is rounded to wherever that is: by the node that computes it (data_out), by those
/// that read it (data_in; of several the widest), or before it, where nodes only moved or compared codes
/// (views, padding, concatenation, max pooling, relu: moves_codes of inference/node_form.h).
struct StorageBits {
  int64_t weight_values = 0;  // all parameters and running statistics
  int64_t weight_bits = 0;
  int64_t activation_values = 0;  // batch size 1
  int64_t activation_bits = 0;

  double average_weight_bits() const;
  double average_activation_bits() const;
  int64_t weight_bytes() const { return (weight_bits + 7) / 8; }
};

/// Computed from shapes and formats, without packing.
StorageBits storage_bits(const Graph& graph);

/// Products that a run takes for one sample: of weighted sums and of products of matrices, and one for each
/// element of the other results; nodes whose results have sizes that the data decide do not count. `sizes` of
/// the named dimensions, batch apart, where they are not the usual ones.
double multiply_adds(const Graph& graph, const NamedSizes& sizes = {});
/// The same per node.
std::vector<double> node_multiply_adds(const Graph& graph, NamedSizes sizes = {});

/// As many samples, at least one, as fit `budget` products at `per_sample` each.
int64_t affordable_samples(int64_t samples, double per_sample, double budget);

/// Bytes of the tensors of all parameters as they are in memory.
int64_t parameter_bytes(const Node& node);
int64_t parameter_bytes(const Graph& graph);

}  // namespace detent
