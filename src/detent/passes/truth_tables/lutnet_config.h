#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/truth_tables/lutnet_layer.h"

namespace detent {

/// A `config` table of the quantize pass with name = "lutnet": keys as MASE's,
///
///     data_in_k = 4                    # or inputs: of a table
///     data_in_levels = 2               # of the input's signs, which the layer has already
///     data_in_input_expanded = true    # false: tables of one input, which are products of signs
///     data_in_binarization_level = 1   # 0: tables of real numbers, for a first training (binarize = false)
///     weight_width = 6                 # or amplitude_width: bits of what a table adds to a sum
///
/// and those of the pass lutnet. Keys of widths and sizes that nothing depends on here are read, and named in
/// `unused`.
struct LutnetConfig {
  LutnetLayer layer;
  std::optional<int64_t> levels;
  bool bypass = false;
  std::vector<std::string> unused;

  /// nullopt of a table with another name. Throws Error, beginning with `where`, on keys that there are not
  /// and on values that contradict each other.
  static std::optional<LutnetConfig> read(const Table& config, const std::string& where);
};

/// Entries of the quantize pass that make layers ones of tables; `selects` says of which nodes.
struct LutnetEntry {
  LutnetConfig config = {};
  std::string key = {};
  bool is_default = false;  // takes what can become tables; others must
  std::function<bool(const Node&)> selects = {};
};

/// Makes the layers that are selected ones of tables; the first entry that selects a node decides. Returns
/// what there is to say of them, a line a layer.
std::string make_lutnet_layers(Graph& graph, const std::vector<LutnetEntry>& entries,
                               const std::string& where);

}  // namespace detent
