#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/table_layer.h"
#include "detent/hardware/circuit.h"
#include "detent/integer/node_form.h"

namespace detent {

inline CodeRange range_of(const CodeType& type) { return {type.low, type.high}; }
/// The least range that holds both.
CodeRange hull(const CodeRange& a, const CodeRange& b);

/// Sums or differences of the elements of two inputs of `count` elements each. Throws Error where integers
/// cannot add at these scales.
SumBody pair_body(const PairForm& form, const Node& node, int64_t count);

/// Means over windows, all of one size.
SumBody average_body(const AverageForm& form, const Node& node, const Shape& input);

/// Adds the neurons of a layer of truth tables, at each window.
void add_neurons(const TableLayerView& view, const std::vector<std::vector<int32_t>>& windows,
                 bool channels_last, LookupBody& body);

/// The same as truth tables, where codes of few bits become one of few codes, such as signs: comparisons
/// would not be counted.
std::optional<LookupBody> tables_of(const RequantizeBody& body, const CodeRange& codes);

}  // namespace detent
