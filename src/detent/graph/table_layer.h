#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "detent/graph/graph.h"

namespace detent {

/// Most entries of a table.
inline constexpr int64_t kMostTableEntries = int64_t{1} << 24;

/// The constants of a layer of truth tables (operators with the trait TableLayer). A window of the input is
/// [in] or, of a convolution, [channels, kernel...]; its elements have values out of a list, and the index of
/// a value there is its code. For output o, with `terms` tables of `fan_in` inputs each and L values,
///
///     address(o, t) = sum_k code(window[inputs[o, t, k]]) L^k
///     sum(o)        = sum_t tables[o, t, address(o, t)]
///     code(o)       = number of j with thresholds[o, j] <= sum(o);  sum(o) where there are no thresholds
///     result(o)     = output_values[code(o)];  scale * code(o) where there are none
///
/// Padding of a convolution has the value 0. What this points to lives as long as the node's parameters.
struct TableLayerView {
  int64_t outputs = 0;
  int64_t terms = 0;
  int64_t fan_in = 0;
  int64_t entries = 0;     // L^fan_in
  int64_t thresholds = 0;  // of an output; -1: none are given
  std::span<const float> input_values;
  std::span<const int64_t> all_inputs;
  std::span<const int32_t> all_tables;
  std::span<const int32_t> all_thresholds;
  std::span<const float> output_values;  // empty: none are given
  double scale = 1;

  int64_t levels() const { return static_cast<int64_t>(input_values.size()); }
  bool has_thresholds() const { return thresholds >= 0; }
  std::span<const int64_t> inputs_of(int64_t output, int64_t term) const {
    return all_inputs.subspan(static_cast<size_t>((output * terms + term) * fan_in),
                              static_cast<size_t>(fan_in));
  }
  std::span<const int32_t> table_of(int64_t output, int64_t term) const {
    return all_tables.subspan(static_cast<size_t>((output * terms + term) * entries),
                              static_cast<size_t>(entries));
  }
  std::span<const int32_t> thresholds_of(int64_t output) const {
    if (!has_thresholds()) return {};
    return all_thresholds.subspan(static_cast<size_t>(output * thresholds), static_cast<size_t>(thresholds));
  }
  /// nullopt for a value not in `input_values`.
  std::optional<int32_t> code_of(float value) const;
  int32_t output_code(int64_t output, int32_t sum) const;
  float output_value(int32_t code) const {
    if (output_values.empty()) return static_cast<float>(scale * code);
    return output_values[static_cast<size_t>(code)];
  }
};

/// The node has the trait TableLayer and passed shape inference.
TableLayerView table_layer_view(const Node& node);

/// Bounds of the sums of an output, whatever the addresses.
struct SumRange {
  int64_t least = 0;
  int64_t most = 0;
};
SumRange table_sum_range(const TableLayerView& layer, int64_t output);

/// levels^fan_in; nullopt beyond kMostTableEntries.
std::optional<int64_t> table_entries(int64_t levels, int64_t fan_in);

/// Parameters of a layer of tables in training (operators/truth_tables/schema_lutnet.cc).
struct TrainedTables {
  size_t spatial_dims = 0;
  int64_t outputs = 0;
  int64_t terms = 0;   // tables of each output and sum, of which some may be missing
  int64_t fan_in = 0;  // inputs of a table
  int64_t sums = 0;    // of each output: one for each level of the input and of the weights
  int64_t levels = 0;  // signs that an element of the input is made of
  double unit = 0;     // amplitudes and biases are multiples of it; 0: of nothing
  bool binarized = true;

  /// Sums that include each level of the input.
  int64_t sums_of_level() const { return sums / levels; }
  int64_t entries() const { return int64_t{1} << fan_in; }
};

/// nullopt for other nodes.
std::optional<TrainedTables> trained_tables(const Node& node);

/// The operator of such layers with that many spatial dimensions, 0 to 2, and that of layers of truth tables
/// (graph/table_layer.h), which they become.
const char* trained_tables_operator(size_t spatial_dims);
const char* truth_tables_operator(size_t spatial_dims);

/// Entry of `inputs` without a table.
inline constexpr int64_t kNoTable = -1;
constexpr int64_t kMostTableInputs = 6;
constexpr int64_t kMostLevels = 4;

}  // namespace detent
