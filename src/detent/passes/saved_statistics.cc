#include "detent/passes/saved_statistics.h"

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {

const Table* find_table(const Table& table, std::string_view key, const std::string& where) {
  const Value* value = table.find(key);
  if (value == nullptr) return nullptr;
  const Table* found = value->get_if<Table>();
  if (found == nullptr) fail("{}: \"{}\": got {}, expected a table", where, key, value_text(*value));
  return found;
}

std::vector<OperandStatistics> read_operand_statistics(const Table& block, const std::string& where) {
  std::vector<OperandStatistics> operands;
  const Table* software = find_table(block, "software", where);
  if (software == nullptr) return operands;
  for (const char* part : {"args", "results"}) {
    const Table* described = find_table(*software, part, where + ", software");
    if (described == nullptr) continue;
    const std::string place = fmt::format("{}, software.{}", where, part);
    for (const auto& [operand, value] : *described) {
      const Table* results =
          find_table(*find_table(*described, operand, place), "stat", fmt::format("{}.{}", place, operand));
      operands.push_back({operand, results == nullptr ? Table() : *results});
    }
  }
  return operands;
}

}  // namespace detent
