#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/formats/format.h"
#include "detent/graph/operators.h"
#include "detent/io/json.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

/// One registered thing: a name and what else is known of it, in the order of the columns.
using Entry = Table;

Value names_value(const std::vector<std::string>& names) { return List(names.begin(), names.end()); }

std::vector<Entry> model_entries() {
  std::vector<Entry> entries;
  for (const ModelInfo& model : all_models()) {
    entries.push_back({{"name", model.name},
                       {"aliases", names_value(model.aliases)},
                       {"sample_shape", Value(model.sample_shape)},
                       {"help", model.help}});
  }
  return entries;
}

std::vector<Entry> dataset_entries() {
  std::vector<Entry> entries;
  for (const DatasetInfo& dataset : all_datasets()) {
    entries.push_back({{"name", dataset.name},
                       {"aliases", names_value(dataset.aliases)},
                       {"sample_shape", Value(dataset.sample_shape)},
                       {"classes", dataset.class_count},
                       {"help", dataset.help}});
  }
  return entries;
}

std::vector<Entry> pass_entries() {
  std::vector<Entry> entries;
  for (const PassInfo& pass : all_passes()) {
    List options;
    for (const FieldDescription& option : pass.options) options.emplace_back(option.name);
    entries.push_back({{"name", pass.name},
                       {"kind", enum_names(pass.kind)[static_cast<size_t>(pass.kind)]},
                       {"stage", enum_names(pass.stage)[static_cast<size_t>(pass.stage)]},
                       {"options", std::move(options)},
                       {"help", pass.help}});
  }
  return entries;
}

std::vector<Entry> operator_entries() {
  std::vector<Entry> entries;
  for (const OperatorSchema& schema : all_operators()) {
    List parameters;
    for (const ParameterSchema& parameter : schema.parameters) parameters.emplace_back(parameter.name);
    entries.push_back({{"name", schema.name},
                       {"quantizable", schema.quantizable},
                       {"parameters", std::move(parameters)},
                       {"help", schema.help}});
  }
  return entries;
}

std::vector<Entry> format_entries() {
  const auto aliases = format_aliases();
  std::vector<Entry> entries;
  for (const std::string& name : format_names()) {
    const auto is_alias = [&](const auto& alias) { return alias.first == name; };
    if (std::ranges::any_of(aliases, is_alias)) continue;
    List own_aliases;
    for (const auto& [alias, target] : aliases) {
      if (target == name) own_aliases.emplace_back(alias);
    }
    const auto describe = [&](const auto& format) {
      List keys;
      for (const std::string& key : field_names<std::decay_t<decltype(format)>>()) keys.emplace_back(key);
      entries.push_back({{"name", name},
                         {"aliases", std::move(own_aliases)},
                         {"keys", std::move(keys)},
                         {"help", format.kHelp}});
    };
    std::visit(describe, make_format(name, "list"));
  }
  return entries;
}

std::vector<Entry> statistic_entries() {
  std::vector<Entry> entries;
  for (const StatisticInfo& statistic : all_statistics()) {
    List options;
    for (const FieldDescription& option : statistic.options) options.emplace_back(option.name);
    entries.push_back({{"name", statistic.name}, {"options", std::move(options)}, {"help", statistic.help}});
  }
  return entries;
}

struct Kind {
  std::string name;
  std::vector<Entry> (*entries)();
};

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kKinds = {
      {"models", model_entries},       {"datasets", dataset_entries}, {"passes", pass_entries},
      {"operators", operator_entries}, {"formats", format_entries},   {"statistics", statistic_entries},
  };
  return kKinds;
}

std::string cell_text(const Value& value) {
  if (const std::string* text = value.get_if<std::string>()) return *text;
  if (const bool* flag = value.get_if<bool>()) return *flag ? "yes" : "no";
  const List* list = value.get_if<List>();
  if (list == nullptr || (!list->empty() && !list->front().is<std::string>())) return value_text(value);
  std::vector<std::string> names;
  for (const Value& name : *list) names.push_back(*name.get_if<std::string>());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Words of `text` in lines of at most 100 columns, indented by 2.
std::string wrapped(const std::string& text) {
  constexpr size_t kColumns = 100;
  std::string result;
  std::string line = " ";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kColumns && line != " ") {
      result += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return result + line + "\n";
}

/// A table; helps that are too long for its last column stand below it.
std::string entries_text(const std::vector<Entry>& entries) {
  if (entries.empty()) return "none\n";
  constexpr size_t kLongHelp = 100;
  const bool helps_below = std::ranges::any_of(
      entries, [](const Entry& entry) { return cell_text(*entry.find("help")).size() > kLongHelp; });
  std::vector<std::string> columns = entries.front().keys();
  if (helps_below) std::erase(columns, "help");
  TextTable table(columns);
  std::string below;
  for (const Entry& entry : entries) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      std::string cell = cell_text(*entry.find(column));
      std::ranges::replace(cell, '\n', ' ');
      cells.push_back(std::move(cell));
    }
    if (helps_below) {
      below +=
          fmt::format("\n{}\n{}", cell_text(*entry.find("name")), wrapped(cell_text(*entry.find("help"))));
    }
    table.add_row(std::move(cells));
  }
  return table.to_text() + below;
}

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> known;
  for (const Kind& kind : all_kinds()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  throw UsageError(unknown_name_message("kind", name, known));
}

}  // namespace

int run_list(const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const Kind& kind : all_kinds()) names.push_back(kind.name);
  CLI::App app(
      fmt::format("List what detent knows: {}; all of them without an argument.", fmt::join(names, ", ")),
      "detent list");
  std::string chosen;
  bool as_json = false;
  app.add_option("kind", chosen, fmt::format("one of {}", fmt::join(names, ", ")))->option_text(" ");
  app.add_flag("--json", as_json, "print JSON");
  if (!parse_arguments(app, args)) return 0;

  std::vector<Kind> kinds = all_kinds();
  if (!chosen.empty()) kinds = {find_kind(chosen)};
  Table json;
  std::string text;
  for (const Kind& kind : kinds) {
    const std::vector<Entry> entries = kind.entries();
    json[kind.name] = List(entries.begin(), entries.end());
    if (kinds.size() > 1) text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", kind.name);
    text += entries_text(entries);
  }
  print(as_json ? json_text(json) + "\n" : text);
  return 0;
}

}  // namespace detent
