#include "detent/passes/stat_to_conf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/fields.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/graph/operators.h"
#include "detent/passes/operand_keys.h"
#include "detent/statistics/distribution.h"

namespace detent {
namespace {

/// A key of a format and where its value is found among an operand's statistics.
struct Source {
  const char* key;
  const char* statistic;
  const char* result;
};
/// In the order in which the keys are added.
constexpr std::array<Source, 3> kSources = {{
    {"mean", "abs_mean", "abs_mean"},
    {"median", "range_quantile", "max"},
    {"max", "range_min_max", "max"},
}};

Table built_in_base() {
  Table config{{"name", "ternary"}};
  for (const char* prefix : {"data_in", "weight", "bias"}) {
    config[fmt::format("{}_scaling_factor", prefix)] = true;
    config[fmt::format("{}_width", prefix)] = 2;
  }
  for (const char* prefix : {"data_in", "weight", "bias"}) {
    for (const Source& source : kSources) config[fmt::format("{}_{}", prefix, source.key)] = Value();
  }
  Table quantize{{"by", "name"}, {"report", true}};
  quantize.table("default")["config"] = std::move(config);
  return {{"model", "toy"}, {"dataset", "toy-tiny"}, {"passes", Table{{"quantize", std::move(quantize)}}}};
}

/// Leaves alone what has no statistics.
Table empty_base() {
  Table quantize{{"by", "name"}, {"report", true}};
  quantize.table("default")["config"] = Table{{"name", Value()}};
  return {{"passes", Table{{"quantize", std::move(quantize)}}}};
}

Table& existing_table(Table& table, std::string_view key, const std::string& where) {
  if (find_table(table, key, where) == nullptr) fail("{}: table \"{}\" is missing", where, key);
  return table.table(key);
}

/// One argument or result of a node, as its statistics file has it.
struct Argument {
  std::string operand;  // "data_in_0"
  std::string prefix;   // of its keys: "data_in"
  Table statistics;     // empty when none were collected
};

/// data_in_0 gives the keys for all inputs, further inputs have their own. "" for what cannot be quantized.
std::string prefix_of_operand(const std::string& operand) {
  if (operand == "data_in_0") return "data_in";
  if (operand == "data_out_0") return "data_out";
  if (operand == "data_in_1" || operand == "weight" || operand == "bias") return operand;
  return "";
}

std::vector<Argument> read_arguments(const Table& block, const std::string& where) {
  std::vector<Argument> arguments;
  for (OperandStatistics& statistics : read_operand_statistics(block, where)) {
    const std::string prefix = prefix_of_operand(statistics.operand);
    if (!prefix.empty()) arguments.push_back({statistics.operand, prefix, std::move(statistics.results)});
  }
  return arguments;
}

/// The default's keys for the operands that a node has. A second input takes the keys of data_in, to be
/// completed from its own statistics.
Table config_for(const Table& default_config, const std::vector<Argument>& arguments) {
  const auto has_prefix = [&](const std::string& prefix) {
    return std::ranges::find(arguments, prefix, &Argument::prefix) != arguments.end();
  };
  Table config;
  for (const auto& [key, value] : default_config) {
    const std::string prefix = prefix_of_key(key);
    if (prefix.empty() || prefix == "data_in_0" || has_prefix(prefix)) config[key] = value;
  }
  if (!has_prefix("data_in_1")) return config;
  for (const auto& [key, value] : default_config) {
    const std::string own = "data_in_1" + key.substr(std::min(key.size(), std::string("data_in").size()));
    if (prefix_of_key(key) == "data_in" && !config.contains(own)) config[own] = value;
  }
  return config;
}

/// The keys of the format that quantizes operands of `prefix`; empty where none does.
std::vector<std::string> format_keys(const Table& config, const std::string& prefix,
                                     const std::string& where) {
  const std::optional<std::string> format_name = format_of_operand(config, prefix, where);
  if (!format_name) return {};
  const auto names = [](const auto& format) { return field_names<std::decay_t<decltype(format)>>(); };
  return std::visit(names, make_format(*format_name, where));
}

bool is_given(const Table& config, const std::string& key) {
  const Value* value = config.find(key);
  return value != nullptr && !value->is_na();
}

class Generator {
 public:
  Generator(const StatToConfInput& input, const std::function<void(const std::string&)>& warn)
      : input_(input),
        warn_(warn),
        result_(input.base.value_or(input.formats.empty() ? built_in_base() : empty_base())) {}

  Table run() {
    const std::string base = input_.base ? input_.base_file : "the built-in base";
    Table& passes = existing_table(result_, "passes", base);
    quantize_ = &existing_table(passes, "quantize", base + ": [passes]");
    quantize_by_name();
    const std::string place = base + ": [passes.quantize]";
    default_config_ = existing_table(existing_table(*quantize_, "default", place), "config",
                                     base + ": [passes.quantize.default]");
    use_formats();
    warn_of_unknown_blocks();
    bool any = false;
    for (const auto& [name, block] : input_.statistics) any = add_block(name) || any;
    if (!any) {
      fail("{}: no node has statistics of its arguments: collect them with [passes.profile_statistics]",
           input_.statistics_file);
    }
    return std::move(result_);
  }

 private:
  void quantize_by_name() {
    const Value name("name");
    const Value* by = quantize_->find("by");
    if (by == nullptr) {
      Table with_by{{"by", name}};
      for (const auto& [key, value] : *quantize_) with_by[key] = value;
      *quantize_ = std::move(with_by);
    } else if (*by != name) {
      warn_(fmt::format("{}: [passes.quantize] by = {} became \"name\"", input_.base_file, value_text(*by)));
      (*quantize_)["by"] = name;
    }
  }

  /// The formats asked for replace the default's in what is written for each node.
  void use_formats() {
    for (const auto& [prefix, spec] : input_.formats) {
      const Value* name = default_config_.find("name");
      if (spec && (name == nullptr || name->is_na())) {
        default_config_["name"] = std::string(format_name(spec->format));
      }
      set_operand_spec(default_config_, prefix, spec);
    }
  }

  void warn_of_unknown_blocks() {
    for (const auto& [key, value] : *quantize_) {
      if (key == "default" || !value.is<Table>() || input_.statistics.contains(key)) continue;
      warn_(fmt::format("{}: [passes.quantize.{}]: {} has no such node", input_.base_file, key,
                        input_.statistics_file));
    }
  }

  bool is_quantizable(const Table& block, const std::string& name) const {
    const Table* common = find_table(block, "common", name);
    const Value* op = common == nullptr ? nullptr : common->find("mase_op");
    const auto* text = op == nullptr ? nullptr : op->get_if<std::string>();
    const std::vector<std::string> known = operator_names();
    if (text == nullptr || std::ranges::find(known, *text) == known.end())
      return true;  // the quantize pass decides
    return find_operator(*text).quantizable;
  }

  /// Whether the block had statistics.
  bool add_block(const std::string& name) {
    const std::string where = fmt::format("{}: node \"{}\"", input_.statistics_file, name);
    const Table& block = *find_table(input_.statistics, name, input_.statistics_file);
    const std::vector<Argument> arguments = read_arguments(block, where);
    const auto has_none = [](const Argument& argument) { return argument.statistics.empty(); };
    if (std::ranges::all_of(arguments, has_none)) return false;
    if (!is_quantizable(block, where)) {
      warn_(where + " has statistics, but its operator cannot be quantized: left out");
      return false;
    }
    const bool in_base = quantize_->contains(name);
    Table& entry = in_base ? existing_table(*quantize_, name, input_.base_file + ": [passes.quantize]")
                           : quantize_->table(name);
    if (!in_base) entry["config"] = config_for(default_config_, arguments);
    Table& config =
        existing_table(entry, "config", fmt::format("{}: [passes.quantize.{}]", input_.base_file, name));
    for (const char* prefix : {"data_in", "data_in_1", "weight", "bias", "data_out"}) {
      const auto argument = std::ranges::find(arguments, prefix, &Argument::prefix);
      if (argument == arguments.end()) continue;
      if (input_.calibration) {
        calibrate_operand(config, *argument, in_base, where);
      } else {
        fill(config, *argument, in_base, where);
      }
    }
    return true;
  }

  /// Whether the statistics are of groups, which then have to be those of the spec.
  static bool has_groups(const Argument& argument, const QuantSpec& spec, const std::string& place) {
    const Table* range = find_table(argument.statistics, "range_min_max", place);
    const Value* size = range == nullptr ? nullptr : range->find("group_size");
    if (size == nullptr) return false;
    if (*size == Value(*spec.group_size)) return true;
    fail("{}: {}, but its statistics are of groups of {}", place, quant_spec_text(spec), value_text(*size));
  }

  /// Parameters that the base gives for the node itself stay.
  void calibrate_operand(Table& config, const Argument& argument, bool in_base,
                         const std::string& where) const {
    const std::string& prefix = argument.prefix;
    const Value* name = config.find("name");
    if (name != nullptr && name->is_na()) return;
    const std::optional<QuantSpec> spec = operand_spec(config, prefix, where);
    if (!spec || !is_calibratable(spec->format)) return;
    const std::string place = fmt::format("{}, operand \"{}\"", where, argument.operand);
    const bool in_groups = spec->granularity == Granularity::kGroup;
    if (in_groups && !has_groups(argument, *spec, place)) {
      if (input_.calibration->calibrator != Calibrator::kMinMax) {
        warn_(fmt::format("{}: groups take their scales from the range of the tensor itself, not from \"{}\"",
                          place, enum_name(input_.calibration->calibrator)));
      }
      return;
    }
    std::vector<Distribution> parts = distributions_of_results(argument.statistics, place);
    const bool per_channel = spec->granularity == Granularity::kChannel;
    if (per_channel && parts.size() == 1) {
      fail(
          "{}: {} has granularity \"channel\", but its statistics are of the whole tensor: collect them with "
          "dims that leave the channels",
          place, quant_spec_text(*spec));
    }
    if (!per_channel && !in_groups) parts = {Distribution::merged(parts)};
    const QuantSpec result = calibrate(*spec, parts, *input_.calibration, place);
    const Table before = quant_spec_keys(*spec);
    for (const auto& [key, value] : quant_spec_keys(result)) {
      const Value* given = before.find(key);
      if (in_base && given != nullptr && *given != value) return;
    }
    set_operand_spec(config, prefix, result);
  }

  void fill(Table& config, const Argument& argument, bool in_base, const std::string& where) const {
    const std::string& prefix = argument.prefix;
    if (!quantizes_operand(config, prefix)) return;
    const auto key_of = [&](const char* key) { return fmt::format("{}_{}", prefix, key); };
    const std::vector<std::string> keys = format_keys(config, prefix, where);
    const auto takes = [&](const Source& source) {
      return std::ranges::find(keys, source.key) != keys.end();
    };
    if (std::ranges::none_of(kSources, takes)) return;
    const auto said = [&](const Source& source) { return config.contains(key_of(source.key)); };
    const bool base_decides = std::ranges::any_of(kSources, said) || config.contains(key_of("threshold"));
    if (in_base && base_decides) return;

    bool complete = is_given(config, key_of("threshold"));
    for (const Source& source : kSources) {
      if (!takes(source)) continue;
      Value& value = config[key_of(source.key)];
      if (value.is_na()) value = statistic_of(argument, source, where);
      complete = complete || !value.is_na();
    }
    if (!complete && !in_base) fail_for_lack_of_statistics(argument, where);
  }

  static Value statistic_of(const Argument& argument, const Source& source, const std::string& where) {
    const std::string place = fmt::format("{}, operand \"{}\", statistic", where, argument.operand);
    const Table* results = find_table(argument.statistics, source.statistic, place);
    if (results == nullptr) return {};
    const Value* value = results->find(source.result);
    double scratch = 0;
    const double* number = value == nullptr ? nullptr : value->number(scratch);
    if (value == nullptr || (!value->is_na() && (number == nullptr || !std::isfinite(*number)))) {
      fail("{} {}: \"{}\": got {}, expected one finite number: collect it with dims = \"all\"", place,
           source.statistic, source.result, value == nullptr ? "nothing" : value_text(*value));
    }
    return *value;
  }

  [[noreturn]] void fail_for_lack_of_statistics(const Argument& argument, const std::string& where) const {
    std::vector<std::string> statistics;
    for (const Source& source : kSources) {
      statistics.push_back(fmt::format("{} (gives {}_{})", source.statistic, argument.prefix, source.key));
    }
    const char* section =
        argument.operand.starts_with("data_") ? "activation_statistics" : "weight_statistics";
    fail(
        "{}, operand \"{}\": none of the statistics {} is there: collect one under "
        "[passes.profile_statistics.{}]",
        where, argument.operand, fmt::join(statistics, ", "), section);
  }

  const StatToConfInput& input_;
  const std::function<void(const std::string&)>& warn_;
  Table result_;
  Table* quantize_ = nullptr;
  Table default_config_;
};

}  // namespace

Table stat_to_conf(const StatToConfInput& input, const std::function<void(const std::string&)>& warn) {
  return Generator(input, warn).run();
}

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
