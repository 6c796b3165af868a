#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/files/toml.h"
#include "detent/passes/stat_to_conf.h"
#include "detent/statistics/distribution.h"

namespace detent {
namespace {

struct SavedOperand {
  std::string node;
  std::string operand;
  Table results;
};

std::vector<SavedOperand> read_saved(const std::string& file) {
  const Table table = read_toml(file);
  std::vector<SavedOperand> operands;
  for (const auto& [node, block] : table) {
    const std::string where = fmt::format("{}: node \"{}\"", file, node);
    for (OperandStatistics& saved : read_operand_statistics(*find_table(table, node, file), where)) {
      if (!saved.results.empty())
        operands.push_back({node, std::move(saved.operand), std::move(saved.results)});
    }
  }
  if (!operands.empty()) return operands;
  fail("{}: no node has statistics: collect them with [passes.profile_statistics]", file);
}

std::string short_number(double value) { return fmt::format("{:.5g}", value); }

/// The shares of 24 equal cells of the range, as heights; a cell with any value is not blank.
std::string histogram_of(const Distribution& distribution) {
  if (distribution.bins.empty()) return "";
  constexpr size_t kCells = 24;
  constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto low = static_cast<double>(distribution.bins.front().value);
  const auto high = static_cast<double>(distribution.bins.back().value);
  std::array<double, kCells> cells{};
  for (const auto& [value, count] : distribution.bins) {
    const double position = high > low ? (static_cast<double>(value) - low) / (high - low) : 0.5;
    cells[std::min(static_cast<size_t>(position * kCells), kCells - 1)] += static_cast<double>(count);
  }
  const double most = *std::ranges::max_element(cells);
  std::string text;
  for (const double cell : cells) text += kHeights[static_cast<size_t>(std::ceil(cell / most * 8))];
  return text;
}

/// The number that some statistic of the operand gives under `key`.
std::optional<double> reported(const Table& results, std::string_view key) {
  for (const auto& [name, result] : results) {
    const Table* table = result.get_if<Table>();
    const Value* value = table == nullptr ? nullptr : table->find(key);
    double scratch = 0;
    if (value != nullptr && value->number(scratch) != nullptr) return *value->number(scratch);
  }
  return std::nullopt;
}

/// "3 NaN, 1 infinite", or nothing.
std::string special_values(const Table& results) {
  std::string text;
  for (const auto& [key, name] : {std::pair{"nan_count", "NaN"}, std::pair{"infinity_count", "infinite"}}) {
    const std::optional<double> count = reported(results, key);
    if (count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", *count, name);
  }
  return text;
}

/// An operand's results, apart where they keep different numbers of positions. Shares and such, which are no
/// distribution, are with the fewest.
std::vector<Table> with_equal_positions(const Table& results, const std::string& where) {
  std::map<size_t, Table> groups;
  Table others;
  for (const auto& [name, result] : results) {
    const std::vector<Distribution> parts = distributions_of_results(Table{{name, result}}, where);
    const Distribution& first = parts.front();
    const bool is_distribution = !first.bins.empty() || first.range || first.mean || first.average_range;
    (is_distribution ? groups[parts.size()] : others)[name] = result;
  }
  std::vector<Table> tables;
  for (auto& [positions, table] : groups) tables.push_back(std::move(table));
  if (tables.empty()) tables.emplace_back();
  for (auto& [name, result] : others) tables.front()[name] = result;
  return tables;
}

std::vector<std::string> summary_row(const SavedOperand& saved, const std::string& where) {
  const std::vector<Distribution> parts = distributions_of_results(saved.results, where);
  const Distribution all = Distribution::merged(parts);
  std::vector<std::string> row = {saved.node, saved.operand,
                                  parts.size() == 1 ? "" : std::to_string(parts.size())};
  row.push_back(all.range ? short_number(static_cast<double>(all.range->low)) : "");
  row.push_back(all.range ? short_number(static_cast<double>(all.range->high)) : "");
  row.push_back(all.mean ? short_number(*all.mean) : "");
  row.push_back(all.variance ? short_number(std::sqrt(*all.variance)) : "");
  const std::optional<double> zeros = reported(saved.results, "zero_share");
  row.push_back(zeros ? fmt::format("{:.1f} %", 100 * *zeros) : "");
  row.push_back(special_values(saved.results));
  row.push_back(histogram_of(all));
  return row;
}

void show(const std::string& file, CommandResults& printed) {
  TextTable table({"node", "operand", "channels", "min", "max", "mean", "deviation", "zeros", "not finite",
                   "histogram from least to greatest"});
  for (const SavedOperand& saved : read_saved(file)) {
    const std::string where = fmt::format("{}: node \"{}\", operand \"{}\"", file, saved.node, saved.operand);
    for (Table& results : with_equal_positions(saved.results, where))
      table.add_row(summary_row({saved.node, saved.operand, std::move(results)}, where));
  }
  printed.add_table("statistics", table);
}

/// Results by "statistic.key".
std::map<std::string, Value> flattened(const Table& results) {
  std::map<std::string, Value> values;
  for (const auto& [statistic, result] : results) {
    const Table* table = result.get_if<Table>();
    if (table == nullptr) continue;
    for (const auto& [key, value] : *table) values[fmt::format("{}.{}", statistic, key)] = value;
  }
  return values;
}

std::string difference(const Value& a, const Value& b) {
  double scratch_a = 0;
  double scratch_b = 0;
  const double* first = a.number(scratch_a);
  const double* second = b.number(scratch_b);
  return first == nullptr || second == nullptr ? "" : short_number(*second - *first);
}

std::string number_cell(const Value* value) {
  if (value == nullptr) return "absent";
  const List* list = value->get_if<List>();
  return list == nullptr ? value_text(*value) : fmt::format("list of {}", list->size());
}

void show_differences(const std::string& file_a, const std::string& file_b, CommandResults& printed) {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::map<std::string, Value>> a;
  std::map<Key, std::map<std::string, Value>> b;
  std::vector<Key> order;
  for (const auto& [node, operand, results] : read_saved(file_a)) {
    order.emplace_back(node, operand);
    a[order.back()] = flattened(results);
  }
  for (const auto& [node, operand, results] : read_saved(file_b)) {
    if (!a.contains({node, operand})) order.emplace_back(node, operand);
    b[{node, operand}] = flattened(results);
  }
  TextTable table({"node", "operand", "result", "in the first", "in the second", "second - first"});
  int64_t equal = 0;
  for (const Key& key : order) {
    std::map<std::string, std::pair<const Value*, const Value*>> results;
    for (const auto& [name, value] : a[key]) results[name].first = &value;
    for (const auto& [name, value] : b[key]) results[name].second = &value;
    for (const auto& [name, values] : results) {
      const auto& [first, second] = values;
      if (first != nullptr && second != nullptr && *first == *second) {
        ++equal;
        continue;
      }
      table.add_row({key.first, key.second, name, number_cell(first), number_cell(second),
                     first == nullptr || second == nullptr ? "" : difference(*first, *second)});
    }
  }
  if (table.row_count() > 0) printed.add_table("differences", table);
  printed.say(fmt::format("{} results differ, {} are equal\n", table.row_count(), equal));
}

}  // namespace

int run_stats(const std::vector<std::string>& args) {
  CLI::App app(
      "Show the statistics that [passes.save_node_meta_param] saved, or how those of two files differ.",
      "detent stats");
  std::string action;
  std::string first;
  std::string second;
  app.add_option("action", action, "show or diff")->required()->option_text(" ");
  app.add_option("file", first, "saved statistics, TOML")->required()->option_text(" ");
  app.add_option("other", second, "for diff: the second file")->option_text(" ");
  ResultOptions result_options;
  add_result_options(app, result_options, true);
  if (!parse_arguments(app, args)) return 0;
  claim_report(result_options);
  CommandResults results("stats", result_options);
  if (action == "show") {
    if (!second.empty()) throw UsageError(fmt::format("unexpected argument \"{}\"", second));
    show(first, results);
    results.finish();
    return 0;
  }
  if (action != "diff") {
    throw UsageError(unknown_name_message("action", action, std::vector<std::string>{"show", "diff"}));
  }
  if (second.empty()) throw UsageError("`detent stats diff` needs two files");
  show_differences(first, second, results);
  results.finish();
  return 0;
}

}  // namespace detent
