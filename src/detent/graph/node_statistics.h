#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/value.h"

namespace detent {

/// Operand name and entry, in the order in which reports and files list them.
template <class Entry>
class OperandMap {
 public:
  bool empty() const { return entries_.empty(); }
  void erase(std::string_view operand) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == operand; });
  }
  const Entry* find(std::string_view operand) const {
    for (const auto& [name, entry] : entries_) {
      if (name == operand) return &entry;
    }
    return nullptr;
  }
  Entry* find(std::string_view operand) { return const_cast<Entry*>(std::as_const(*this).find(operand)); }
  /// Inserts a default entry at the end when absent.
  Entry& operator[](std::string_view operand) {
    if (Entry* found = find(operand)) return *found;
    return entries_.emplace_back(std::string(operand), Entry{}).second;
  }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const OperandMap&) const = default;

 private:
  std::vector<std::pair<std::string, Entry>> entries_;
};

/// Statistics of a node's operands: name ("range_min_max") -> results ("min", "max", ...). Passes that change
/// an operand remove its entry.
struct NodeStatistics {
  OperandMap<Table> args;     // inputs and parameters
  OperandMap<Table> results;  // data_out_0, ...

  /// nullptr if there are none.
  const Table* find(std::string_view operand) const {
    return (operand.starts_with("data_out_") ? results : args).find(operand);
  }
  Table& operator[](std::string_view operand) {
    return (operand.starts_with("data_out_") ? results : args)[operand];
  }
  bool empty() const { return args.empty() && results.empty(); }
  bool operator==(const NodeStatistics&) const = default;
};

}  // namespace detent
