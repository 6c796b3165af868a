#pragma once

#include <map>
#include <optional>
#include <string>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"

namespace detent {

/// One `config` table of the quantize pass, e.g.
///
///     name = "fixed"            # the format of every operand; NA: leave the node alone
///     data_in_width = 8         # operand prefix + key of the format or of QuantSpec
///     weight_width = 4
///     weight_name = "ternary"   # another format for one operand, or NA
///     bypass = true             # leave the node alone, keeping the keys
///
/// Prefixes: data_in (every input from another node), data_in_<i>, weight (for matmul: the second input), bias,
/// data_out. An operand is quantized when a key with its prefix, or `<prefix>_name`, is there; a bias without
/// keys takes the weight's; a config with nothing but `name` means data_in, weight and bias at their defaults.
class QuantizeConfig {
 public:
  /// Throws Error (beginning with `where`) on keys without a known prefix and on values that do not fit.
  QuantizeConfig(const Table& config, std::string where);

  /// Operand -> spec for one node, empty when the node is to be left alone. With `strict`, keys for operands that
  /// the node does not have are errors; without (defaults for many nodes) they are passed over.
  std::map<std::string, QuantSpec, std::less<>> specs_for(const Node& node, bool strict) const;

 private:
  /// Keys of one prefix, without it; `name` is the operand's own format.
  struct OperandKeys {
    Table keys;
    std::optional<Value> name;
  };

  std::optional<QuantSpec> make_spec(const std::string& prefix, const OperandKeys& operand) const;
  std::optional<QuantSpec> spec_of_prefix(const std::string& prefix) const;

  std::string where_;
  std::optional<std::string> format_;  // nullopt: leave nodes alone
  bool bypass_ = false;
  std::map<std::string, OperandKeys> operands_;  // by prefix
};

}  // namespace detent
