#pragma once

#include <cstdint>
#include <optional>

#include "detent/graph/graph.h"

namespace detent {

/// What a layer of tables in training has (graph/operators/lutnet.cc).
struct TrainedTables {
  size_t spatial_dims = 0;
  int64_t outputs = 0;
  int64_t terms = 0;   // tables of each output and sum, of which some may be missing
  int64_t fan_in = 0;  // inputs of a table
  int64_t sums = 0;    // of each output: one for each level of the input and of the weights
  int64_t levels = 0;  // signs that an element of the input is made of
  double unit = 0;     // amplitudes and biases are multiples of it; 0: of nothing
  bool binarized = true;

  /// Sums of which each level of the input is part.
  int64_t sums_of_level() const { return sums / levels; }
  int64_t entries() const { return int64_t{1} << fan_in; }
};

/// nullopt of other nodes.
std::optional<TrainedTables> trained_tables(const Node& node);

/// The operator of such layers with that many spatial dimensions, 0 to 2, and that of layers of truth tables
/// (graph/table_layer.h), which they become.
const char* trained_tables_operator(size_t spatial_dims);
const char* truth_tables_operator(size_t spatial_dims);

/// What stands in `inputs` where there is no table.
inline constexpr int64_t kNoTable = -1;
constexpr int64_t kMostTableInputs = 6;
constexpr int64_t kMostLevels = 4;

}  // namespace detent
