#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"

namespace detent {

using NodeQuantization = std::map<std::string, QuantizerRef, std::less<>>;

/// Operand -> its format, or nullopt for float. Unlisted operands stay unchanged.
using OperandFormats = std::map<std::string, std::optional<QuantSpec>, std::less<>>;

/// Throws Error, beginning with `where`, on blocks of activations that would span the batch dimension.
void check_activation_blocks(const Graph& graph, const std::string& where);

/// One `config` table of the quantize pass:
///
///     name = "fixed"            # the format of every operand; NA: leave the node alone
///     data_in_width = 8         # operand prefix + key of the format or of QuantSpec
///     weight_width = 4
///     weight_name = "ternary"   # another format for one operand; NA: that operand in float
///     bypass = true             # leave the node alone, keeping the keys
///
/// Prefixes are those of operand_keys.h. An operand is quantized when a key with its prefix is there. A bias
/// without keys takes the weight's. A config with nothing but `name` means data_in, weight and bias with the
/// format's defaults. Operands without keys are left as they are.
///
/// With `name = "logicnets"` (docs/lut_networks.md), inputs and results are `fixed` where nothing else is
/// said, weights and biases stay in float unless they have keys, `floor = true` rounds down, and
///
///     additional_layers_inputs = ["bn"]     # nodes in front of the layer that its tables include, in order:
///     additional_layers_outputs = ["relu"]  # data_in is the first one's; data_out the last one's after it
class QuantizeConfig {
 public:
  /// Throws Error (beginning with `where`) on keys without a known prefix and on keys and values that the
  /// formats do not have.
  QuantizeConfig(const Table& config, std::string where);

  /// Empty if the node is left alone. Keys for missing operands are ignored.
  OperandFormats formats_for(const Node& node) const;

  /// The node and operand that `operand` of a selected node stands for. Throws Error where the nodes between
  /// are no chain.
  std::pair<const Node*, std::string> place(const Graph& graph, const Node& node,
                                            const std::string& operand) const;

  /// Throws Error naming a prefix with keys that none of the nodes has an operand for.
  void check_all_used(const std::vector<const Node*>& nodes) const;

 private:
  void read_logicnets_keys(Table& config);

  std::string where_;
  bool active_ = true;               // false: leave nodes alone
  std::vector<std::string> before_;  // nodes that a layer's tables include, in order
  std::vector<std::string> after_;
  Table config_;  // without bypass
};

}  // namespace detent
