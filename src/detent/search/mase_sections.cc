#include "detent/search/options.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/search/format_choices.h"

namespace detent {
namespace {

using Warn = std::function<void(const std::string&)>;

const Table& section(const Value& value, const std::string& where) {
  const auto* table = value.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", where, value_text(value));
  return *table;
}

List list_of(const Value& value) {
  const auto* list = value.get_if<List>();
  return list != nullptr ? *list : List{value};
}

std::string key_text(const Value& value) {
  const auto* text = value.get_if<std::string>();
  return text != nullptr ? *text : value_text(value);
}

/// Every combination of the values of the operand's keys with every name.
List listed_formats(const Table& config, const std::string& prefix, const std::string& where) {
  const Value* names = config.find(prefix + "_name");
  if (names == nullptr) names = config.find("name");
  if (names == nullptr) fail("{}: key \"name\" is missing: which format?", where);
  List formats = list_of(*names);
  for (const auto& [key, values] : config) {
    if (!key.starts_with(prefix + "_") || key == prefix + "_name") continue;
    const std::string name = key.substr(prefix.size() + 1);
    List longer;
    for (const Value& format : formats) {
      for (const Value& value : list_of(values)) {
        if (value.is_na()) {
          longer.push_back(format);
          continue;
        }
        const std::string text = key_text(format);
        const char* separator = text.find(':') == std::string::npos ? ":" : ",";
        longer.emplace_back(fmt::format("{}{}{}={}", text, separator, name, key_text(value)));
      }
    }
    formats = std::move(longer);
  }
  return formats;
}

bool has_prefix(const Table& config, const std::string& prefix) {
  return std::ranges::any_of(config,
                             [&](const TableEntry& entry) { return entry.key.starts_with(prefix + "_"); });
}

void add_seed(const Table& seed, const std::string& where, const Warn& warn, Table& result) {
  Table choices;
  bool has_bias = false;
  for (const auto& [target, value] : seed) {
    const std::string place = fmt::format("{}.{}", where, target);
    const Value* found = section(value, place).find("config");
    if (found == nullptr) fail("{}: the table config is missing", place);
    const Table& config = section(*found, place + ".config");
    has_bias = has_bias || has_prefix(config, "bias");
    for (const char* operand : {kWeightOperand, kInputOperand}) {
      if (!has_prefix(config, operand)) continue;
      List formats = listed_formats(config, operand, place + ".config");
      if (target != "default") {
        choices.table(target)[operand] = std::move(formats);
      } else if (operand == std::string(kWeightOperand)) {
        result["weights"] = std::move(formats);
      } else {
        result["activations"] = formats;
        result["elementwise"] = std::move(formats);
      }
    }
  }
  if (has_bias) warn(where + ": formats of biases are not searched: they are left in float, or in 32 bits");
  if (!choices.empty()) result["choices"] = std::move(choices);
}

void add_space(const Table& space, const std::string& where, const Warn& warn, Table& result) {
  for (const auto& [key, value] : space) {
    const std::string place = fmt::format("{}.{}", where, key);
    if (key == "seed") {
      add_seed(section(value, place), place, warn, result);
    } else if (key == "name") {
      if (value != Value("graph/quantize/mixed_precision_ptq"))
        fail("{}: got {}, expected \"graph/quantize/mixed_precision_ptq\"", place, value_text(value));
    } else if (key == "setup") {
      const Value* by = section(value, place).find("by");
      if (by != nullptr && *by != Value("name") && *by != Value("type"))
        fail("{}.by: got {}, expected \"name\" or \"type\"", place, value_text(*by));
    } else {
      fail("{}: unknown key (known: name, setup, seed)", place);
    }
  }
}

constexpr std::array kSamplers = {std::pair("tpe", "tpe"), std::pair("random", "random"),
                                  std::pair("nsgaii", "nsga2"), std::pair("brute_force", "brute_force")};

void add_setup(const Table& setup, const std::string& where, const Warn& warn, Table& result) {
  for (const auto& [key, value] : setup) {
    const std::string place = fmt::format("{}.{}", where, key);
    if (key == "n_trials") {
      result["evaluations"] = value;
    } else if (key == "timeout") {
      if (!value.is_na()) result["time"] = value_text(value) + "s";
    } else if (key == "sampler") {
      std::string name = key_text(value);
      std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
      const auto known =
          std::ranges::find_if(kSamplers, [&](const auto& entry) { return entry.first == name; });
      if (known == kSamplers.end())
        fail("{}: got \"{}\", expected tpe, random, nsgaii or brute_force", place, name);
      result["strategy"] = known->second;
    } else {
      warn(place + " has no meaning here: it is left out");
    }
  }
}

void add_strategy(const Table& strategy, const std::string& where, const Warn& warn, Table& result) {
  for (const auto& [key, value] : strategy) {
    const std::string place = fmt::format("{}.{}", where, key);
    if (key == "setup") {
      add_setup(section(value, place), place, warn, result);
    } else if (key == "sw_runner") {
      for (const auto& [runner, options] : section(value, place)) {
        if (runner != "basic_evaluation")
          fail("{}.{}: unknown runner (known: basic_evaluation)", place, runner);
        const Value* samples = section(options, fmt::format("{}.{}", place, runner)).find("num_samples");
        if (samples != nullptr) result["eval_samples"] = *samples;
      }
    } else if (key == "hw_runner") {
      const Table& runners = section(value, place);
      if (runners.contains("average_bitwidth")) result["cost"] = "weight_bits";
    } else if (key == "name") {
      if (value != Value("optuna")) fail("{}: got {}, expected \"optuna\"", place, value_text(value));
    } else if (key != "eval_mode") {
      warn(place + " has no meaning here: the whole front of quality and cost is searched");
    }
  }
}

}  // namespace

Table without_mase_sections(const Table& search, const std::string& where, const Warn& warn) {
  Table own;
  Table translated;
  for (const auto& [key, value] : search) {
    if (key == "search_space") {
      add_space(section(value, where + ": search_space"), where + ": search_space", warn, translated);
    } else if (key == "strategy" && value.is<Table>()) {
      add_strategy(*value.get_if<Table>(), where + ": strategy", warn, translated);
    } else {
      own[key] = value;
    }
  }
  for (auto& [key, value] : own) translated[key] = std::move(value);
  return translated;
}

}  // namespace detent
