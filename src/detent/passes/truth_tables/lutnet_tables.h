#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// The tables of a trained layer as integers, as the operators of graph/table_layer.h have them. Their inputs
/// are the signs of the elements, one a level: element e of channel c, level l is the element (c levels + l).
struct IntegerTables {
  int64_t outputs = 0;
  int64_t terms = 0;
  int64_t fan_in = 0;
  int64_t entries = 0;
  std::vector<int64_t> inputs = {};  // [outputs, terms, fan_in]
  std::vector<int32_t> tables = {};  // [outputs, terms, entries]
  double scale = 1;                  // what 1 of a sum counts

  int32_t* tables_of(int64_t output) { return tables.data() + output * terms * entries; }
  const int32_t* tables_of(int64_t output) const { return tables.data() + output * terms * entries; }
  /// The smallest and largest sum.
  std::pair<int64_t, int64_t> range(int64_t output) const;
  void negate(int64_t output);
};

/// Whether the layer's windows reach beyond its input, where there is no sign.
bool has_padding(const Node& layer);

/// `elements_of_channel` are the positions of the layer's window in a channel. Throws Error where amplitudes
/// are multiples of nothing, tables no signs, or sums beyond what float32 holds exactly.
IntegerTables integer_tables(const Node& layer, int64_t elements_of_channel);

/// Residual binarization of x as a number: bit `levels - 1 - l` is 1 where the sign of level l is +1. It
/// grows with x.
int residual_code(float x, const std::vector<float>& gamma);

/// The values that a residually binarized operand may have, ascending, and the code of each. nullopt where
/// two codes have one value.
std::optional<std::vector<std::pair<float, int>>> residual_values(const std::vector<float>& gamma);

}  // namespace detent
