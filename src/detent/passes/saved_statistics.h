#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detent/core/value.h"

namespace detent {

/// An operand of a node, as save_node_meta_param saves it, and the results of its statistics: name -> result;
/// empty when none were collected.
struct OperandStatistics {
  std::string operand;  // "data_in_0", "weight", "data_out_0"
  Table results;
};

/// The table under `key`, nullptr when absent. Throws Error, beginning with `where`, when it is something
/// else.
const Table* find_table(const Table& table, std::string_view key, const std::string& where);

/// Arguments, then results, of the node that `block` describes. Throws Error, beginning with `where`, on
/// tables of the wrong kind.
std::vector<OperandStatistics> read_operand_statistics(const Table& block, const std::string& where);

}  // namespace detent
