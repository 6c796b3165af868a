#include "detent/passes/truth_tables/table_chains.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// A function of each element that may depend on its channel.
bool is_of_elements(const Node& node) {
  const bool passes_on = is_view(node) && find_operator(node.op).random;  // dropout
  return is_batch_norm(node) || trait<Unary>(node) != nullptr || passes_on;
}

struct Reader {
  const Node* node;
  std::string operand;
};

std::vector<Reader> readers_of(const Graph& graph, const std::string& name) {
  std::vector<Reader> readers;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].node == name) readers.push_back({&node, fmt::format("data_in_{}", i)});
    }
  }
  return readers;
}

/// Rounding is monotone and of each element by itself: it may as well come before what moves elements, or
/// takes the largest of them.
bool lets_roundings_pass(const Node& node) {
  const auto* movement = trait<Movement>(node);
  return (movement != nullptr && !movement->joins && result_count(node) == 1) ||
         is_pooling(node, Pooling::Of::kLargest);
}

/// Quantizer that all readers of the value share, there or after nodes that move it; nullptr where they do
/// not.
const Quantizer* common_quantizer(const Graph& graph, const std::string& name) {
  const Quantizer* common = nullptr;
  for (const Reader& reader : readers_of(graph, name)) {
    const Quantizer* quantizer = reader.node->find_quantizer(reader.operand);
    if (quantizer == nullptr && lets_roundings_pass(*reader.node)) {
      quantizer = reader.node->find_quantizer("data_out_0");
      if (quantizer == nullptr) quantizer = common_quantizer(graph, reader.node->name);
    }
    if (quantizer == nullptr || (common != nullptr && !(*quantizer == *common))) return nullptr;
    common = quantizer;
  }
  return common;
}

const char* const kNoFiniteList = "has a format without a finite list of values";

/// Walks back until the operand of a node has a list of values. Returns why there is none; "" where there is.
std::string find_head(const Graph& graph, const ValueLists& values, TableChain& chain) {
  for (const Node* node = &graph.node(chain.layer);;) {
    if (auto list = values.of_operand(*node, 0)) {
      chain.inputs = std::move(*list);
      return "";
    }
    if (node->find_quantizer("data_in_0") != nullptr)
      return fmt::format("the input of {} {}", node->name, kNoFiniteList);
    const Node& giver = graph.node(node->inputs[0].node);
    if (giver.find_quantizer("data_out_0") != nullptr)
      return fmt::format("the result of {} {}", giver.name, kNoFiniteList);
    if (!is_of_elements(giver) || readers_of(graph, giver.name).size() != 1)
      return fmt::format("nothing rounds what {} takes in", node->name);
    chain.head.insert(chain.head.begin(), giver.name);
    node = &giver;
  }
}

std::string find_tail(const Graph& graph, TableChain& chain) {
  for (const Node* node = &graph.node(chain.layer);;) {
    const std::vector<Reader> readers = readers_of(graph, node->name);
    const Quantizer* rounded = node->find_quantizer("data_out_0");
    if (rounded == nullptr) rounded = common_quantizer(graph, node->name);
    if (rounded != nullptr) {
      auto list = values_of(*rounded);
      if (!list) return fmt::format("the result of {} {}", node->name, kNoFiniteList);
      chain.result = *rounded;
      chain.results = std::move(*list);
      return "";
    }
    if (readers.size() != 1 || !is_of_elements(*readers[0].node))
      return fmt::format("nothing rounds the result of {}", node->name);
    node = readers[0].node;
    chain.tail.push_back(node->name);
  }
}

bool has_norm(const Graph& graph, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return is_batch_norm(graph.node(name)); });
}

}  // namespace

std::variant<TableChain, std::string> table_chain(const Graph& graph, const Node& layer,
                                                  const ValueLists& values) {
  const auto* sum = trait<WeightedSum>(layer);
  if (sum == nullptr || sum->transposed || sum->spatial_dims > 2) return "expected linear, conv1d or conv2d";
  TableChain chain;
  chain.layer = layer.name;
  if (std::string why = find_head(graph, values, chain); !why.empty()) return why;
  if (std::string why = find_tail(graph, chain); !why.empty()) return why;
  if (sum->spatial_dims == 0 && (has_norm(graph, chain.head) || has_norm(graph, chain.tail))) {
    constexpr size_t kRows = 2;
    const Operand input = operand_type(layer, "data_in_0", infer_shapes(graph));
    if (input.shape.size() != kRows)
      return fmt::format("its input has {} dimensions, and a batch norm has its channels in the second",
                         input.shape.size());
  }
  return chain;
}

}  // namespace detent
