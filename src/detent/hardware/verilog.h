#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/hardware/circuit.h"
#include "detent/hardware/logic.h"

namespace detent {

/// Whether IEEE 1364-2005 or IEEE 1800-2017 reserves the word.
bool is_verilog_keyword(std::string_view word);

/// Whether it may stand for a module, a port or a wire as it is.
bool is_verilog_identifier(std::string_view word);

/// Names for Verilog: identifiers, no keywords, each once, whatever nodes are called.
class VerilogNames {
 public:
  /// `name` where it is one, else one that resembles it: "layer.0" becomes layer_0, "wire" becomes wire_.
  std::string unique(std::string_view name);

 private:
  std::set<std::string, std::less<>> taken_;
};

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
