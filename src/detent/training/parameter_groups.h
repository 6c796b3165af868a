#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/name_pattern.h"

namespace detent {

/// Settings of the parameters whose whole name in the state_dict ("seq_blocks.0.weight") matches a regular
/// expression; what is NA is as for all others.
struct ParameterGroup {
  std::string pattern;
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;

  bool operator==(const ParameterGroup&) const = default;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    constexpr Between kNotNegative{0, 1e15};
    visit("learning_rate", self.learning_rate, "step size of the optimizer", kNotNegative);
    visit("weight_decay", self.weight_decay, "weight decay", kNotNegative);
  }
};

/// A table of the configuration file, in whose order the first pattern that matches a parameter counts:
///
///     [parameter_groups.".*bias"]
///     weight_decay = 0
struct ParameterGroups {
  std::vector<ParameterGroup> groups;

  bool operator==(const ParameterGroups&) const = default;

  static std::string field_type() {
    return "in the configuration file, tables [parameter_groups.\"REGEX\"] with learning_rate, weight_decay";
  }
  Value to_value() const {
    Table table;
    for (const ParameterGroup& group : groups) table[group.pattern] = write_changed_fields(group);
    return table;
  }
  static ParameterGroups from_value(const Value& value, const std::string& where) {
    const Table* table = value.get_if<Table>();
    if (table == nullptr) fail("{}: got {}, expected {}", where, value_text(value), field_type());
    ParameterGroups result;
    for (const auto& [pattern, settings] : *table) {
      const std::string group_where = fmt::format("{}, \"{}\"", where, pattern);
      const Table* group_table = settings.get_if<Table>();
      if (group_table == nullptr) fail("{}: got {}, expected a table", group_where, value_text(settings));
      [[maybe_unused]] const NamePattern checked(pattern, where);
      ParameterGroup& group = result.groups.emplace_back();
      group.pattern = pattern;
      read_fields(group, *group_table, group_where);
    }
    return result;
  }
};

}  // namespace detent
