#include "detent/passes/analysis/quantization_account.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/io/file.h"
#include "detent/io/json.h"
#include "detent/passes/passes.h"

// A node's result with only this node quantized needs no run of the network: the float network's inputs of
// the node are at hand while it runs, so the node is run once more, by itself, on quantized operands. The
// whole account therefore costs three runs of the network over the samples.

namespace detent {
namespace {

/// Results of the float network are kept until the quantized one has run, so few samples at a time.
constexpr int64_t kMicroBatch = 8;

/// What all readers of a result make of it first. Where they clamp it, its quantization clamps likewise.
enum class Reading { kAsIs, kRelu, kRelu6 };

Reading reading_of(const Graph& graph, const std::string& name) {
  std::set<std::string> readers;
  for (const Node& reader : graph.nodes()) {
    if (std::ranges::count(reader.inputs, name, &NodeInput::node) > 0) readers.insert(reader.op);
  }
  if (readers == std::set<std::string>{"relu"}) return Reading::kRelu;
  return readers == std::set<std::string>{"relu6"} ? Reading::kRelu6 : Reading::kAsIs;
}

Tensor read(const Tensor& value, Reading reading) {
  if (reading == Reading::kAsIs) return value;
  Tensor result = value.clone();
  for (float& x : result.values<float>()) {
    x = std::max(x, 0.0F);
    if (reading == Reading::kRelu6) x = std::min(x, 6.0F);
  }
  return result;
}

/// The node by itself: its inputs are tensors that the graph owns.
Graph single_node_graph(const Node& node, const std::map<std::string, Tensor, std::less<>>& inputs,
                        const std::optional<Requantization>& requantization) {
  Graph graph(node.name);
  graph.set_requantization(requantization);
  Node copy = node;
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (copy.inputs[i].is_constant()) continue;
    Node input;
    input.name = fmt::format("{}_data_in_{}", node.name, i);
    input.target = input.name;
    input.op = "get_attr";
    input.mase_type = MaseType::kGetAttr;
    input.parameters.emplace_back("value", Parameter{inputs.at(fmt::format("data_in_{}", i)), false});
    copy.inputs[i] = NodeInput::of(input.name);
    graph.add(std::move(input));
  }
  graph.add(std::move(copy));
  Node output;
  output.name = "output";
  output.op = "output";
  output.mase_type = MaseType::kOutput;
  output.inputs = {NodeInput::of(node.name)};
  graph.add(std::move(output));
  return graph;
}

class Accountant {
 public:
  Accountant(const Graph& reference, const Graph& quantized, PassContext& context)
      : reference_(reference), quantized_(quantized), context_(context) {
    for (const Node& node : quantized.nodes()) {
      if (node.quantization.empty() || node.mase_type == MaseType::kPlaceholder) continue;
      if (node.op == "get_attr") continue;
      index_[node.name] = accounts_.size();
      accounts_.push_back({node.name, node.op, {}, {}, weight_distortion(node), {}});
      saturation_.emplace_back();
      readings_.push_back(reading_of(quantized, node.name));
    }
  }

  void add(const Tensor& inputs) {
    std::map<std::string, Tensor, std::less<>> operands;
    std::map<std::string, Tensor, std::less<>> results;
    context_.executor().run(reference_, std::span(&inputs, 1),
                            [&](const Node& node, std::string_view operand, const Tensor& value) {
                              const auto found = index_.find(node.name);
                              if (found == index_.end()) return;
                              if (operand != "data_out_0") {
                                operands[std::string(operand)] = value.clone();
                                return;
                              }
                              const Tensor result = read(value, readings_[found->second]);
                              results[node.name] = result.clone();
                              add_alone(found->second, operands, result);
                              operands.clear();
                            });
    context_.executor().run(quantized_, std::span(&inputs, 1),
                            [&](const Node& node, std::string_view operand, const Tensor& value) {
                              const auto found = index_.find(node.name);
                              if (found == index_.end() || operand != "data_out_0") return;
                              const QuantSpec* spec = node.find_quantization(operand);
                              const Tensor result = spec == nullptr ? value : simulate(*spec, value);
                              accounts_[found->second].together.update(
                                  results.at(node.name), read(result, readings_[found->second]));
                            });
  }

  std::vector<NodeAccount> finish() {
    for (size_t i = 0; i < accounts_.size(); ++i)
      accounts_[i].saturated_share = saturation_[i].saturated_share();
    std::ranges::stable_sort(accounts_, std::less<>(),
                             [](const NodeAccount& account) { return account.alone.sqnr_db(); });
    return std::move(accounts_);
  }

 private:
  std::optional<Distortion> weight_distortion(const Node& node) const {
    const QuantSpec* spec = node.find_quantization("weight");
    if (spec == nullptr || spec->scale_rule == ScaleRule::kLearned) return std::nullopt;
    Distortion distortion;
    distortion.update(reference_.node(node.name).find_parameter("weight")->tensor,
                      simulate(*spec, node.find_parameter("weight")->tensor));
    return distortion;
  }

  void add_alone(size_t index, const std::map<std::string, Tensor, std::less<>>& operands,
                 const Tensor& expected) {
    const Node& node = quantized_.node(accounts_[index].node);
    for (const auto& [operand, value] : operands) {
      const QuantSpec* spec = node.find_quantization(operand);
      if (spec != nullptr && spec->scale_rule == ScaleRule::kGiven) {
        saturation_[index].update(value, simulate(*spec, value));
        saturation_[index].update_saturated(value, unsaturated_mask(*spec, value));
      }
    }
    const Graph alone = single_node_graph(node, operands, quantized_.requantization());
    accounts_[index].alone.update(expected, read(context_.executor().run(alone, {}), readings_[index]));
  }

  const Graph& reference_;
  const Graph& quantized_;
  PassContext& context_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<NodeAccount> accounts_;
  std::vector<Distortion> saturation_;
  std::vector<Reading> readings_;
};

std::string number(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

struct AccountOptions {
  int64_t num_samples = 64;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("num_samples", self.num_samples, "calibration samples", Between{1, 1e9});
  }
};

/// The network without its quantization.
Graph unquantized(Graph graph) {
  for (Node& node : graph.nodes()) node.quantization.clear();
  graph.set_requantization(std::nullopt);
  return graph;
}

void run_account(Graph& graph, const AccountOptions& options, PassContext& context) {
  for (const Node& node : graph.nodes()) {
    if (node.scale_names().empty()) continue;
    fail("{}: node \"{}\" has learned scales, which belong to its quantization", context.where, node.name);
  }
  const auto account = account_for_quantization(unquantized(graph), graph, options.num_samples, context);
  report_account(account, context.output_dir / "account_quantization", context);
}

}  // namespace

std::vector<NodeAccount> account_for_quantization(const Graph& reference, const Graph& quantized,
                                                  int64_t samples, PassContext& context) {
  const std::unique_ptr<CalibrationSet> data = context.open_calibration();
  const int64_t count = std::min(samples, data->size());
  Accountant accountant(reference, quantized, context);
  for (int64_t begin = 0; begin < count; begin += kMicroBatch) {
    accountant.add(data->samples(begin, std::min(begin + kMicroBatch, count)));
  }
  return accountant.finish();
}

TextTable account_table(const std::vector<NodeAccount>& account) {
  TextTable table({"node", "op", "SQNR alone", "cosine alone", "SQNR together", "cosine together",
                   "SQNR weight", "saturated %"});
  for (const NodeAccount& node : account) {
    table.add_row({node.node, node.op, number(node.alone.sqnr_db(), 2), number(node.alone.cosine(), 5),
                   number(node.together.sqnr_db(), 2), number(node.together.cosine(), 5),
                   node.weight ? number(node.weight->sqnr_db(), 2) : "",
                   node.saturated_share ? number(100 * *node.saturated_share, 3) : ""});
  }
  return table;
}

Value account_value(const std::vector<NodeAccount>& account) {
  const auto errors = [](const Distortion& distortion) {
    return Table{{"sqnr_db", distortion.sqnr_db()},
                 {"cosine", distortion.cosine()},
                 {"mse", distortion.mean_squared_error()},
                 {"max_error", distortion.max_error()}};
  };
  List nodes;
  for (const NodeAccount& node : account) {
    Table entry{{"node", node.node},
                {"op", node.op},
                {"alone", errors(node.alone)},
                {"together", errors(node.together)}};
    if (node.weight) entry["weight"] = errors(*node.weight);
    if (node.saturated_share) entry["saturated_share"] = *node.saturated_share;
    nodes.push_back(std::move(entry));
  }
  return nodes;
}

std::string account_advice(const std::vector<NodeAccount>& account) {
  constexpr double kPoor = 20;  // dB: an error of a tenth of the signal
  constexpr size_t kMost = 3;
  std::vector<std::string> worst;
  for (const NodeAccount& node : account) {
    if (worst.size() == kMost || !(node.alone.sqnr_db() < kPoor)) break;
    worst.push_back(fmt::format("{} ({:.1f} dB)", node.node, node.alone.sqnr_db()));
  }
  if (worst.empty()) return fmt::format("each node by itself keeps its error {} dB below its result\n", kPoor);
  return fmt::format("most is lost, by themselves, in {}: give these more bits first\n",
                     fmt::join(worst, ", "));
}

void report_account(const std::vector<NodeAccount>& account, const std::filesystem::path& folder,
                    const PassContext& context) {
  const TextTable table = account_table(account);
  context.report("quantization of each node, worst first; SQNR in dB\n" + table.to_text() +
                 account_advice(account));
  if (!context.group->is_first()) return;
  write_file(folder / "quantization_account.csv", table.to_csv());
  write_json(folder / "quantization_account.json", account_value(account));
}

PassInfo account_quantization_pass() {
  return make_pass("account_quantization", PassKind::kAnalysis,
                   "what quantization does to the result of each node, alone and together", run_account);
}

}  // namespace detent
