#include "detent/passes/truth_tables/lutnet_config.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/fields.h"
#include "detent/graph/table_layer.h"

namespace detent {
namespace {

/// Keys of the whole layer.
struct LayerKeys {
  std::string name;
  bool bypass = false;
  std::optional<int64_t> inputs;
  double prune = 0;
  bool keep_pruned = true;
  std::optional<int64_t> amplitude_width;
  std::optional<bool> binarize;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("name", self.name, "lutnet");
    visit("bypass", self.bypass, "leave the node alone");
    visit("inputs", self.inputs, "inputs of a table", Between{1, kMostTableInputs});
    visit("prune", self.prune, "share of the connections that is left out", Between{0, 0.999});
    visit("keep_pruned", self.keep_pruned, "tables begin with the weights of pruned connections");
    visit("amplitude_width", self.amplitude_width, "bits of what a table adds to a sum", Between{0, 16});
    visit("binarize", self.binarize, "tables hold signs");
  }
};

/// Keys of an operand.
struct OperandKeys {
  std::optional<int64_t> width;
  std::optional<int64_t> frac_width;
  std::optional<int64_t> binarization_level;
  std::optional<bool> input_expanded;
  std::optional<int64_t> k;
  std::optional<int64_t> levels;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits of what a table adds to a sum, of the weight", Between{0, 64});
    visit("frac_width", self.frac_width, "unused: units are powers of two");
    visit("binarization_level", self.binarization_level, "0: tables of real numbers", Between{0, 4});
    visit("input_expanded", self.input_expanded, "false: tables of one input");
    visit("k", self.k, "inputs of a table", Between{1, kMostTableInputs});
    visit("levels", self.levels, "signs of an element of the input", Between{1, kMostLevels});
  }
};

constexpr const char* kOperands[] = {"data_in", "weight", "bias"};

/// `config` by operand, "" for the whole layer. Sizes of operands, which follow from the layer, are left out.
Table part_of(const Table& config, const std::string& operand, std::vector<std::string>& unused) {
  Table part;
  for (const auto& [key, value] : config) {
    std::string owner;
    for (const std::string candidate : kOperands)
      if (key.starts_with(candidate + "_")) owner = candidate;
    if (owner != operand) continue;
    const std::string plain = owner.empty() ? key : key.substr(owner.size() + 1);
    const bool is_size = plain == "dim" || plain == "in_dim";
    if (is_size) {
      unused.push_back(key);
    } else {
      part[plain] = value;
    }
  }
  return part;
}

/// Value of several keys, which must be the same.
template <class T>
class Said {
 public:
  Said(std::string name, std::string where) : name_(std::move(name)), where_(std::move(where)) {}
  void say(const std::optional<T>& value) {
    if (!value) return;
    if (value_ && *value_ != *value) fail("{}: keys of \"{}\" say {} and {}", where_, name_, *value_, *value);
    value_ = value;
  }
  T or_else(T otherwise) const { return value_.value_or(otherwise); }
  const std::optional<T>& value() const { return value_; }

 private:
  std::string name_;
  std::string where_;
  std::optional<T> value_;
};

}  // namespace

std::optional<LutnetConfig> LutnetConfig::read(const Table& config, const std::string& where) {
  const Value* name = config.find("name");
  if (name == nullptr || *name != Value("lutnet")) return std::nullopt;
  LutnetConfig result;
  LayerKeys keys;
  read_fields(keys, part_of(config, "", result.unused), where);
  Said<int64_t> inputs("k", where);
  Said<int64_t> levels("levels", where);
  Said<bool> binarize("binarization_level", where);
  Said<bool> expanded("input_expanded", where);
  Said<int64_t> width("amplitude_width", where);
  inputs.say(keys.inputs);
  binarize.say(keys.binarize);
  width.say(keys.amplitude_width);
  for (const std::string operand : kOperands) {
    OperandKeys of;
    read_fields(of, part_of(config, operand, result.unused), fmt::format("{}: {}", where, operand));
    inputs.say(of.k);
    levels.say(of.levels);
    expanded.say(of.input_expanded);
    if (of.binarization_level) binarize.say(*of.binarization_level > 0);
    if (operand == "weight") {
      width.say(of.width);
    } else if (of.width) {
      result.unused.push_back(operand + "_width");
    }
    if (of.frac_width) result.unused.push_back(operand + "_frac_width");
  }
  constexpr int64_t kMostAmplitudeWidth = 16;
  constexpr int64_t kUsualInputs = 4;
  constexpr int64_t kUsualWidth = 6;
  result.levels = levels.value();
  result.bypass = keys.bypass;
  result.layer = {.table_inputs = expanded.or_else(true) ? inputs.or_else(kUsualInputs) : 1,
                  .pruned_share = keys.prune,
                  .keep_pruned = keys.keep_pruned,
                  .amplitude_width = std::min(width.or_else(kUsualWidth), kMostAmplitudeWidth),
                  .binarize = binarize.or_else(true)};
  return result;
}

std::string make_lutnet_layers(Graph& graph, const std::vector<LutnetEntry>& entries,
                               const std::string& where) {
  std::string report;
  std::mt19937_64 draw(0);
  for (Node& node : graph.nodes()) {
    const auto entry = std::ranges::find_if(entries, [&](const LutnetEntry& e) { return e.selects(node); });
    if (entry == entries.end() || entry->config.bypass) continue;
    const LutnetConfig& config = entry->config;
    const std::string obstacle = lutnet_obstacle(node, config.layer);
    if (!obstacle.empty() && entry->is_default) continue;
    if (!obstacle.empty()) fail("{}: node \"{}\" cannot become tables: {}", where, node.name, obstacle);
    Node layer = node;
    const LutnetConnections count = make_lutnet_layer(layer, config.layer, draw);
    const int64_t levels = trained_tables(layer)->levels;
    if (config.levels && *config.levels != levels) {
      fail("{}: node \"{}\": key \"levels\": got {}, expected {}, as its input is rounded", where, node.name,
           *config.levels, levels);
    }
    node = std::move(layer);
    report += fmt::format("quantize: {}: {} of {} XNORs are tables of {} inputs\n", node.name, count.kept,
                          count.all, config.layer.table_inputs);
  }
  return report;
}

}  // namespace detent
