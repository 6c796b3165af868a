#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/hardware/circuit.h"
#include "detent/hardware/logic.h"

namespace detent {

/// A file of a design: its name and its text.
using DesignFile = std::pair<std::string, std::string>;

/// The module of a layer, x to y, without registers; `logic` is that of a layer of truth tables.
std::string layer_verilog(const Circuit& circuit, const Layer& layer, const LayerLogic* logic);
/// The module that connects the layers, with the registers between them; its comment describes the ports.
std::string top_verilog(const Circuit& circuit);
/// A testbench, `<name>_tb`, that reads PORT.hex of each port, and says how many bits differ.
std::string testbench_verilog(const Circuit& circuit, size_t vectors);

/// 18'sd5, -18'sd5
std::string signed_literal(int64_t value, int width);
/// "[7:0] "
std::string vector_range(int64_t bits);

}  // namespace detent
