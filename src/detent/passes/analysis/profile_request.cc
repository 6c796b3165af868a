#include "detent/passes/analysis/profile_request.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

Table statistics_table(const Table& table, const std::string& key, const std::string& where) {
  const Value* value = table.find(key);
  if (value == nullptr) return {};
  const Table* statistics = value->get_if<Table>();
  if (statistics == nullptr)
    fail("{}: key \"{}\": got {}, expected a table of statistics", where, key, value_text(*value));
  for (const auto& [name, options] : *statistics) {
    if (!options.is<Table>())
      fail("{}.{}.{}: got {}, expected a table of options", where, key, name, value_text(options));
  }
  return *statistics;
}

/// Whether a target selects a node.
std::function<bool(const Node&)> selector(const std::string& target, ProfileBy by, const std::string& where) {
  if (by == ProfileBy::kType) return [target](const Node& node) { return node.op == target; };
  if (by == ProfileBy::kName) return [target](const Node& node) { return node.name == target; };
  return [pattern = NamePattern(target, where)](const Node& node) { return pattern.matches(node.name); };
}

std::string key_place(const std::string& where, const char* key) {
  return fmt::format("{}: key \"{}\"", where, key);
}

/// Indices of the nodes that `targets` select, ascending. An operator that the network does not have is named
/// by `warn`.
std::vector<size_t> target_nodes(const Graph& graph, const std::vector<std::string>& targets, ProfileBy by,
                                 const std::string& where,
                                 const std::function<void(const std::string&)>& warn) {
  std::vector<size_t> result;
  for (const std::string& target : targets) {
    const size_t before = result.size();
    if (by == ProfileBy::kName && graph.find(target) != nullptr) {
      result.push_back(graph.position(target));
      continue;
    }
    const auto selects = selector(target, by, where);
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      if (selects(graph.nodes()[i])) result.push_back(i);
    }
    if (result.size() > before) continue;
    if (by == ProfileBy::kName)
      fail("{}: {}", where, unknown_name_message("node", target, graph.node_names()));
    if (by == ProfileBy::kRegexName) fail("{}: no node's name matches \"{}\"", where, target);
    warn(fmt::format("{}: no node is of type \"{}\"", where, target));
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void check_targets(const std::vector<std::string>& targets, ProfileBy by, const std::string& where) {
  const std::vector<std::string> operators = operator_names();
  for (const std::string& target : targets) {
    if (by == ProfileBy::kRegexName) NamePattern(target, where);
    if (by != ProfileBy::kType || std::ranges::find(operators, target) != operators.end()) continue;
    fail("{}: {}", where, unknown_name_message("operator", target, operators));
  }
}

void check_any(const Table& statistics, const std::string& where) {
  if (statistics.empty()) fail("{}: there are nodes to profile, but no statistic to collect of them", where);
}

void add_probe(size_t node, std::string operand, const Table& statistics, const std::string& where,
               std::vector<Probe>& probes) {
  check_any(statistics, where);
  probes.push_back({node, std::move(operand), Collector(statistics, where)});
}

}  // namespace

ProfileRequest ProfileRequest::parse(const Table& table, const std::string& where) {
  ProfileRequest request;
  request.weight_statistics = statistics_table(table, "weight_statistics", where);
  request.activation_statistics = statistics_table(table, "activation_statistics", where);
  Table plain = table;
  plain.erase("weight_statistics");
  plain.erase("activation_statistics");
  if (!plain.contains("by")) fail("{}: key \"by\" is missing: type, name or regex_name", where);
  read_fields(request.options, plain, where);
  return request;
}

std::vector<FieldDescription> ProfileRequest::describe() {
  std::vector<FieldDescription> options = describe_fields<ProfileOptions>();
  options.push_back({"weight_statistics", "table", "{}", "statistic -> its options, for parameters", {}});
  options.push_back(
      {"activation_statistics", "table", "{}", "statistic -> its options, for inputs and outputs", {}});
  return options;
}

void ProfileRequest::check(const std::string& where) const {
  check_targets(options.target_weight_nodes, options.by, key_place(where, "target_weight_nodes"));
  check_targets(options.target_activation_nodes, options.by, key_place(where, "target_activation_nodes"));
  if (!weight_statistics.empty()) Collector(weight_statistics, where + ".weight_statistics");
  if (!activation_statistics.empty()) Collector(activation_statistics, where + ".activation_statistics");
}

void ProfileRequest::check_graph(const Graph& graph, const EarlierPasses& /*earlier*/,
                                 const std::string& where) const {
  const auto later = [](const std::string&) {};  // warnings come when it runs
  const auto weights = target_nodes(graph, options.target_weight_nodes, options.by,
                                    key_place(where, "target_weight_nodes"), later);
  const auto activations = target_nodes(graph, options.target_activation_nodes, options.by,
                                        key_place(where, "target_activation_nodes"), later);
  const auto has_parameters = [&](size_t node) { return !graph.nodes()[node].all_parameters().empty(); };
  if (std::ranges::any_of(weights, has_parameters))
    check_any(weight_statistics, where + ".weight_statistics");
  if (!activations.empty()) check_any(activation_statistics, where + ".activation_statistics");
}

std::vector<Probe> weight_probes(const Graph& graph, const ProfileRequest& request,
                                 const PassContext& context) {
  const std::string where = context.where + ".weight_statistics";
  const ProfileOptions& options = request.options;
  std::vector<Probe> probes;
  for (const size_t i : target_nodes(graph, options.target_weight_nodes, options.by,
                                     key_place(context.where, "target_weight_nodes"), context.warn)) {
    const Node& node = graph.nodes()[i];
    const auto parameters = node.all_parameters();
    if (parameters.empty() && options.by != ProfileBy::kRegexName) {
      context.warn(fmt::format("{}: key \"target_weight_nodes\": node \"{}\" ({}) has no parameters",
                               context.where, node.name, node.op));
    }
    for (const auto& [name, parameter] : parameters) {
      if (parameter->tensor.dtype() != DType::kFloat32) continue;
      add_probe(i, name, request.weight_statistics, where, probes);
    }
  }
  return probes;
}

std::vector<Probe> activation_probes(const Graph& graph, const ProfileRequest& request,
                                     const PassContext& context) {
  const std::string where = context.where + ".activation_statistics";
  const ProfileOptions& options = request.options;
  const ValueTypes values = infer_shapes(graph);
  const auto has_values = [&](const std::string& value) {
    const Operand& type = values.at(value);
    return type.dtype == DType::kFloat32 && std::ranges::find(type.shape, 0) == type.shape.end();
  };
  std::vector<Probe> probes;
  for (const size_t i : target_nodes(graph, options.target_activation_nodes, options.by,
                                     key_place(context.where, "target_activation_nodes"), context.warn)) {
    const Node& node = graph.nodes()[i];
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input].is_constant() || !has_values(value_name(node.inputs[input]))) continue;
      add_probe(i, fmt::format("data_in_{}", input), request.activation_statistics, where, probes);
    }
    if (!options.profile_output_activation) continue;
    for (size_t result = 0; result < result_count(node); ++result) {
      if (!has_values(value_name(node.name, result))) continue;
      add_probe(i, fmt::format("data_out_{}", result), request.activation_statistics, where, probes);
    }
  }
  return probes;
}

}  // namespace detent
