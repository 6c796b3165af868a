#pragma once

#include <filesystem>
#include <string>

#include "detent/core/text_table.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Name of this kind of node in PyTorch's FX tracer: placeholder, output, get_attr, call_module,
/// call_function or call_method.
std::string fx_opcode(const Node& node);

/// "data_in_0=fixed:width=4 weight=affine:symmetric=true,scale=(64 numbers)": formats of the operands, long
/// lists only counted; "" if there are none.
std::string operand_formats_text(const Node& node);

/// A row per node, those in bodies of loops too: name, operator, formats, whether anything changed.
TextTable quantization_table(const Graph& graph);
/// A row per operator: how many nodes changed, in bodies of loops too.
TextTable quantization_histogram(const Graph& graph);

/// Both as quantize_table.csv and quantize_histogram.csv in `directory`, and printed when `print`.
void write_quantization_summary(const Graph& graph, const std::filesystem::path& directory, bool print,
                                PassContext& context);

}  // namespace detent
