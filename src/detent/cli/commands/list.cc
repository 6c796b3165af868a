#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/format_display.h"
#include "detent/cli/option_fields.h"
#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/core/text_table.h"
#include "detent/core/value.h"
#include "detent/datasets/dataset.h"
#include "detent/files/json.h"
#include "detent/graph/operators.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"
#include "detent/passes/qat/qat_presets.h"
#include "detent/search/strategy.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

/// One registered thing: a name and what else is known of it, in the order of the columns.
using Entry = Table;

Value names_value(const std::vector<std::string>& names) { return List(names.begin(), names.end()); }

Value options_value(const std::vector<FieldDescription>& options) {
  List list;
  for (const FieldDescription& option : options) {
    list.push_back(Table{{"name", option.name},
                         {"type", option.type + bounds_text(option.allowed)},
                         {"default", option.default_value},
                         {"help", option.help}});
  }
  return list;
}

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
    entries.push_back({{"name", pass.name},
                       {"kind", enum_name(pass.kind)},
                       {"stage", enum_name(pass.stage)},
                       {"options", options_value(pass.options)},
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
  std::vector<Entry> entries;
  for (const FormatDescription& format : describe_formats()) {
    entries.push_back({{"name", format.name},
                       {"aliases", names_value(format.aliases)},
                       {"keys", names_value(format.keys)},
                       {"help", format.help}});
  }
  return entries;
}

std::vector<Entry> statistic_entries() {
  std::vector<Entry> entries;
  for (const StatisticInfo& statistic : all_statistics()) {
    entries.push_back(
        {{"name", statistic.name}, {"options", options_value(statistic.options)}, {"help", statistic.help}});
  }
  return entries;
}

std::vector<Entry> quantizer_entries() {
  std::vector<Entry> entries;
  for (const QatPreset& preset : all_qat_presets()) {
    entries.push_back({{"name", preset.name},
                       {"weights", preset.weights},
                       {"activations", preset.activations_not_below_0},
                       {"help", preset.help}});
  }
  return entries;
}

std::vector<Entry> strategy_entries() {
  std::vector<Entry> entries;
  for (const Strategy& strategy : all_strategies())
    entries.push_back({{"name", strategy.name}, {"help", strategy.help}});
  return entries;
}

struct Kind {
  std::string name;
  const char* one;  // of them
  std::vector<Entry> (*entries)();
};

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kKinds = {
      {"models", "model", model_entries},
      {"datasets", "data set", dataset_entries},
      {"passes", "pass", pass_entries},
      {"operators", "operator", operator_entries},
      {"formats", "number format", format_entries},
      {"statistics", "statistic", statistic_entries},
      {"quantizers", "quantizer for training", quantizer_entries},
      {"strategies", "search strategy", strategy_entries},
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

std::string name_of(const Entry& entry) { return cell_text(*entry.find("name")); }

/// Name and what else is short in one line, the help below, then the options with their meaning.
std::string detailed_text(const Entry& entry) {
  const size_t columns = help_columns();
  const Value* kind = entry.find("kind");
  std::string text =
      kind == nullptr ? name_of(entry) : fmt::format("{} ({})", name_of(entry), cell_text(*kind));
  text += "\n" + wrapped_text(cell_text(*entry.find("help")), 2, columns);
  const List& options = *entry.find("options")->get_if<List>();
  if (!options.empty()) text += "  Options:\n";
  for (const Value& value : options) {
    const Table& option = *value.get_if<Table>();
    const auto part = [&](const char* key) { return cell_text(*option.find(key)); };
    text +=
        described("  " + part("name"),
                  fmt::format("{} ({}; default {})", part("help"), part("type"), part("default")), columns);
  }
  return text;
}

/// A table; helps that are too long for its last column stand below it.
std::string table_text(const std::vector<Entry>& entries) {
  constexpr size_t kLongHelp = 100;
  const bool helps_below = std::ranges::any_of(
      entries, [](const Entry& entry) { return cell_text(*entry.find("help")).size() > kLongHelp; });
  std::vector<std::string> columns = entries.front().keys();
  std::erase(columns, "options");
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
      below += fmt::format("\n{}\n{}", name_of(entry),
                           wrapped_text(cell_text(*entry.find("help")), 2, help_columns()));
    }
    table.add_row(std::move(cells));
  }
  return table.to_text() + below;
}

/// Things with options one below the other, others as a table.
std::string entries_text(const std::vector<Entry>& entries, bool with_options) {
  if (entries.empty()) return "none\n";
  if (!with_options || !entries.front().contains("options")) return table_text(entries);
  std::string text;
  for (const Entry& entry : entries) text += (text.empty() ? "" : "\n") + detailed_text(entry);
  return text;
}

bool is_named(const Entry& entry, const std::string& name) {
  if (name_of(entry) == name) return true;
  const Value* aliases = entry.find("aliases");
  return aliases != nullptr && std::ranges::count(*aliases->get_if<List>(), Value(name)) > 0;
}

/// Only those of that name. Throws UsageError with the nearest where there is none.
std::vector<Entry> entries_named(const Kind& kind, const std::string& name) {
  std::vector<Entry> entries = kind.entries();
  std::vector<std::string> known;
  for (const Entry& entry : entries) known.push_back(name_of(entry));
  std::erase_if(entries, [&](const Entry& entry) { return !is_named(entry, name); });
  if (entries.empty()) throw UsageError(unknown_name_message(kind.one, name, known));
  return entries;
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

std::string topic_text(const std::string& name) {
  std::string text;
  for (const Kind& kind : all_kinds()) {
    for (const Entry& entry : kind.entries()) {
      if (!is_named(entry, name)) continue;
      text += fmt::format("{}{}:{}{}", text.empty() ? "" : "\n", kind.one,
                          entry.contains("options") ? " " : "\n", entries_text({entry}, true));
    }
  }
  return text;
}

std::vector<Topic> all_topics() {
  std::vector<Topic> topics;
  for (const Kind& kind : all_kinds()) {
    for (const Entry& entry : kind.entries())
      topics.push_back({kind.one, name_of(entry), cell_text(*entry.find("help"))});
  }
  return topics;
}

int run_list(const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const Kind& kind : all_kinds()) names.push_back(kind.name);
  CLI::App app(
      fmt::format("List what detent knows: {}; all of them without an argument. Passes and statistics "
                  "come with the meaning, range and default of each option.",
                  fmt::join(names, ", ")),
      "detent list");
  std::string chosen;
  std::string name;
  bool as_json = false;
  app.add_option("kind", chosen, fmt::format("one of {}", fmt::join(names, ", ")))->option_text(" ");
  app.add_option("name", name, "only the one of that name")->option_text(" ");
  app.add_flag("--json", as_json, "print JSON");
  if (!parse_arguments(app, args)) return 0;

  std::vector<Kind> kinds = all_kinds();
  if (!chosen.empty()) kinds = {find_kind(chosen)};
  Table json;
  std::string text;
  for (const Kind& kind : kinds) {
    const std::vector<Entry> entries = name.empty() ? kind.entries() : entries_named(kind, name);
    json[kind.name] = List(entries.begin(), entries.end());
    if (kinds.size() > 1) text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", kind.name);
    text += entries_text(entries, kinds.size() == 1);
  }
  print(as_json ? json_text(json) + "\n" : text);
  return 0;
}

}  // namespace detent
