#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// What is known of one argument or result of a node.
struct OperandInfo {
  std::string type = "float";    // "float", or the name of a format ("fixed", "ternary", ...)
  List precision = {Value(32)};  // [32] for float; a format's parameters in the order of its fields
  Shape size;                    // dimensions, batch size 1
  std::optional<std::string>
      from;     // producing node; "NA" for a constant; nullopt for a parameter or a result
  Value value;  // NA unless a compile-time constant

  bool operator==(const OperandInfo&) const = default;
};

/// Operand name and entry, in the order in which reports and files list them.
template <class Entry>
class OperandMap {
 public:
  bool empty() const { return entries_.empty(); }
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

struct CommonMetadata {
  OperandMap<OperandInfo> args;
  OperandMap<OperandInfo> results;
  bool operator==(const CommonMetadata&) const = default;
};

/// Statistic name ("range_min_max") -> its results ("min", "max", ...), per operand.
struct SoftwareMetadata {
  OperandMap<Table> args;
  OperandMap<Table> results;
  bool operator==(const SoftwareMetadata&) const = default;
};

/// Reserved: the file layout has a hardware table for each node.
struct HardwareMetadata {
  bool operator==(const HardwareMetadata&) const = default;
};

/// Filled by passes: absent parts have not been computed.
struct Metadata {
  std::optional<CommonMetadata> common;
  std::optional<HardwareMetadata> hardware;
  std::optional<SoftwareMetadata> software;
  bool operator==(const Metadata&) const = default;
};

}  // namespace detent
