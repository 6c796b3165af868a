#pragma once

#include <cstdint>
#include <string>

#include "detent/graph/connections.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/truth_tables/table_chains.h"

namespace detent {

/// Size of a chain's tables.
struct TableSize {
  int64_t outputs = 0;
  int64_t connections = 0;  // of all outputs
  int64_t fan_in = 0;       // most connections of an output
  int64_t levels = 0;       // input values, zeros of a padding included
  int64_t level_bits = 0;
  int64_t result_bits = 0;
  double entries = 0;  // of a table

  int64_t address_bits() const { return fan_in * level_bits; }
  double bytes() const { return static_cast<double>(outputs) * entries * sizeof(int32_t); }
};

/// The layer's weights in use.
Connections connections_of(const Node& layer);
/// Values of the chain's inputs, and 0 if a convolution pads with it.
ValueList table_inputs(const Graph& graph, const TableChain& chain);
TableSize table_size(const Graph& graph, const TableChain& chain);

/// The node that computes the chain by its tables: what the executor makes of every combination of values.
/// The layer's sums are those of `Connections::sum`. Throws Error where the padding of a convolution is not
/// 0 after the chain's head.
Node table_node(const Graph& graph, const TableChain& chain, Executor& executor);

/// Tables of 6 inputs that a table of `address_bits` inputs and one output takes when a tree of multiplexers
/// puts it together: (2^(n - 4) - (-1)^n) / 3 beyond 6 inputs (Umuroglu et al. 2020, arXiv:2004.03021).
double lut6_bound(int64_t address_bits);

}  // namespace detent
