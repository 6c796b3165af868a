#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"

namespace detent {

using NodeQuantization = std::map<std::string, QuantSpec, std::less<>>;

/// Throws Error, beginning with `where`, on blocks of activations that would span the batch dimension.
/// Needs common metadata.
void check_activation_blocks(const Graph& graph, const std::string& where);

/// One `config` table of the quantize pass:
///
///     name = "fixed"            # the format of every operand; NA: leave the node alone
///     data_in_width = 8         # operand prefix + key of the format or of QuantSpec
///     weight_width = 4
///     weight_name = "ternary"   # another format for one operand; NA: not that operand
///     bypass = true             # leave the node alone, keeping the keys
///
/// Prefixes are those of operand_keys.h. An operand is quantized when a key with its prefix is there. A bias
/// without keys takes the weight's. A config with nothing but `name` means data_in, weight and bias with the
/// format's defaults.
class QuantizeConfig {
 public:
  /// Throws Error (beginning with `where`) on keys without a known prefix and on keys and values that the
  /// formats do not have.
  QuantizeConfig(const Table& config, std::string where);

  /// Operand -> spec; empty when the node is to be left alone. Keys for operands that the node does not have
  /// are passed over; those of prefixes that it has are remembered as used.
  NodeQuantization specs_for(const Node& node);

  /// Throws Error naming a prefix whose keys no node of specs_for() had an operand for.
  void check_all_used() const;

 private:
  std::string where_;
  bool active_ = true;          // false: leave nodes alone
  Table config_;                // without bypass
  std::set<std::string> used_;  // prefixes
};

}  // namespace detent
