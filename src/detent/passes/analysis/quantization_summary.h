#pragma once

#include <filesystem>

#include "detent/core/text_table.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// A row a node: name, what it is, what its operands became, whether anything changed.
TextTable quantization_table(const Graph& graph);
/// A row an operator: how many of its nodes changed.
TextTable quantization_histogram(const Graph& graph);

/// Both as quantize_table.csv and quantize_histogram.csv in `directory`, and printed when `print`.
void write_quantization_summary(const Graph& graph, const std::filesystem::path& directory, bool print,
                                PassContext& context);

}  // namespace detent
