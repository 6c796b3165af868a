#include <algorithm>
#include <memory>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"
#include "detent/statistics/collector.h"

// Collects statistics of weights and of the inputs of nodes:
//
//     [passes.profile_statistics]      by = "type" | "name"; target_weight_nodes, target_activation_nodes;
//                                      num_samples
//     [passes.profile_statistics.weight_statistics.<statistic>]        options of the statistic
//     [passes.profile_statistics.activation_statistics.<statistic>]
//
// Activations come from the training set, shuffled; the samples are rounded up to whole batches. Results
// stand in the software metadata of each operand.

namespace detent {
namespace {

enum class SelectBy { kType, kName };
constexpr std::array<const char*, 2> enum_names(SelectBy) { return {"type", "name"}; }

struct ProfileOptions {
  SelectBy by = SelectBy::kType;
  std::vector<std::string> target_weight_nodes;
  std::vector<std::string> target_activation_nodes;
  int64_t num_samples = 32;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("by", self.by, "what the targets name: operators or nodes");
    visit("target_weight_nodes", self.target_weight_nodes, "whose parameters to profile");
    visit("target_activation_nodes", self.target_activation_nodes, "whose inputs to profile");
    visit("num_samples", self.num_samples, "samples to run, rounded up to whole batches", Between{1, 1e15});
  }
};

/// Statistic name -> options, as configured.
struct Request {
  ProfileOptions options;
  Table weight_statistics;
  Table activation_statistics;
};

/// One operand and what is collected of it.
struct Probe {
  size_t node = 0;
  std::string operand;
  Collector collector;
};

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

Request read_request(const Table& table, const std::string& where) {
  Request request;
  request.weight_statistics = statistics_table(table, "weight_statistics", where);
  request.activation_statistics = statistics_table(table, "activation_statistics", where);
  Table plain = table;
  plain.erase("weight_statistics");
  plain.erase("activation_statistics");
  if (!plain.contains("by")) fail("{}: key \"by\" is missing: type or name", where);
  read_fields(request.options, plain, where);
  return request;
}

/// Indices of the nodes that `targets` name. A target that names none is an error, or, where it is an
/// operator that this network does not have, a warning.
std::vector<size_t> target_nodes(const Graph& graph, const std::vector<std::string>& targets, SelectBy by,
                                 const char* key, const PassContext& context) {
  std::vector<size_t> result;
  for (const std::string& target : targets) {
    const size_t before = result.size();
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if ((by == SelectBy::kType ? node.op : node.name) == target) result.push_back(i);
    }
    if (result.size() > before) continue;
    if (by == SelectBy::kName) {
      fail("{}: key \"{}\": {}", context.where, key,
           unknown_name_message("node", target, graph.node_names()));
    }
    find_operator(target);
    context.warn(fmt::format("{}: key \"{}\": no node is of type \"{}\"", context.where, key, target));
  }
  std::ranges::sort(result);
  result.erase(std::ranges::unique(result).begin(), result.end());
  return result;
}

std::vector<Probe> profile_weights(const Graph& graph, const Request& request, const PassContext& context) {
  std::vector<Probe> probes;
  const auto& targets = request.options.target_weight_nodes;
  for (const size_t i : target_nodes(graph, targets, request.options.by, "target_weight_nodes", context)) {
    for (const auto& [name, parameter] : graph.nodes()[i].parameters) {
      probes.push_back({i, name, Collector(request.weight_statistics, context.where + ".weight_statistics")});
      Shape one_sample = parameter.tensor.shape();
      one_sample.insert(one_sample.begin(), 1);
      probes.back().collector.update(parameter.tensor.reshaped(one_sample));
    }
  }
  return probes;
}

std::vector<Probe> activation_probes(const Graph& graph, const Request& request, const PassContext& context) {
  std::vector<Probe> probes;
  const auto& targets = request.options.target_activation_nodes;
  for (const size_t i :
       target_nodes(graph, targets, request.options.by, "target_activation_nodes", context)) {
    const Node& node = graph.nodes()[i];
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input].is_constant()) continue;
      probes.push_back({i, fmt::format("data_in_{}", input),
                        Collector(request.activation_statistics, context.where + ".activation_statistics")});
    }
  }
  return probes;
}

/// Runs whole batches until at least num_samples samples have been seen; returns how many.
int64_t run_activations(const Graph& graph, std::vector<Probe>& probes, int64_t num_samples,
                        PassContext& context) {
  std::map<std::pair<std::string_view, std::string_view>, Probe*> by_operand;
  for (Probe& probe : probes) by_operand[{graph.nodes()[probe.node].name, probe.operand}] = &probe;
  int64_t samples = 0;
  const OperandObserver observe = [&](const Node& node, std::string_view operand, const Tensor& value) {
    const auto it = by_operand.find({node.name, operand});
    if (it != by_operand.end()) it->second->collector.update(value, samples);
  };
  const InputStream stream = context.open_calibration();
  while (samples < num_samples) {
    const std::optional<Tensor> batch = stream();
    if (!batch) break;
    context.executor().run(graph, std::span(&*batch, 1), observe);
    samples += batch->dim(0);
  }
  return samples;
}

/// Says where a result is not exact.
void report_error_bound(const Table& result, const std::string& name) {
  const Value* bound = result.find("relative_error");
  if (bound != nullptr)
    spdlog::debug("{}: more values than exact_values, so values have a relative error of at most {}", name,
                  value_text(*bound));
}

void store_results(Graph& graph, const std::vector<Probe>& probes, const PassContext& context) {
  for (const Probe& probe : probes) {
    Node& node = graph.nodes()[probe.node];
    if (!node.metadata.software) node.metadata.software.emplace();
    Table& statistics = node.metadata.software->args[probe.operand];
    for (const std::string& name : probe.collector.names()) {
      try {
        statistics[name] = probe.collector.result(name);
        report_error_bound(*statistics[name].get_if<Table>(), node.name + "." + probe.operand + "." + name);
      } catch (const Error& error) {
        fail("{}: node \"{}\", operand \"{}\", {}: {}", context.where, node.name, probe.operand, name,
             error.what());
      }
    }
  }
}

void run_profile(Graph& graph, const Table& table, PassContext& context) {
  const Request request = read_request(table, context.where);
  const std::vector<Probe> weights = profile_weights(graph, request, context);
  std::vector<Probe> activations = activation_probes(graph, request, context);
  if (!activations.empty()) {
    const int64_t samples = run_activations(graph, activations, request.options.num_samples, context);
    context.report(
        fmt::format("profile_statistics: {} samples profiled ({} asked for, whole batches are taken)\n",
                    samples, request.options.num_samples));
    if (samples < request.options.num_samples) {
      context.warn(fmt::format("{}: the training set has only {} samples", context.where, samples));
    }
  }
  store_results(graph, activations, context);
  store_results(graph, weights, context);
}

}  // namespace

PassInfo profile_statistics_pass() {
  std::vector<FieldDescription> options = describe_fields<ProfileOptions>();
  options.push_back({"weight_statistics", "table", "{}", "statistic -> its options, for parameters", {}});
  options.push_back({"activation_statistics", "table", "{}", "statistic -> its options, for inputs", {}});
  return {"profile_statistics", PassKind::kAnalysis, "statistics of weights and activations",
          std::move(options), run_profile};
}

}  // namespace detent
