#pragma once

#include <set>
#include <string>
#include <string_view>

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

}  // namespace detent
