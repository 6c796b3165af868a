#pragma once

#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// What PyTorch's FX tracer calls this kind of node: placeholder, output, get_attr, call_module,
/// call_function or call_method.
std::string fx_opcode(const Node& node);

/// "data_in_0=fixed:width=4 weight=affine:symmetric=true,scale=(64 numbers)": the formats of the operands,
/// long lists counted only; "" of a node without.
std::string operand_formats_text(const Node& node);

}  // namespace detent
