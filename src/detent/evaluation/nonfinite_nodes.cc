#include "detent/evaluation/nonfinite_nodes.h"

#include <string_view>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {

std::vector<std::string> nonfinite_nodes(const Program& program, std::span<const Tensor> inputs) {
  std::vector<std::string> names;
  Observation observation;
  observation.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
    const bool is_known = !names.empty() && names.back() == node.name;
    if (operand.starts_with("data_out") && !is_known && !value.is_finite()) names.push_back(node.name);
  };
  try {
    static_cast<void>(program.run(inputs, observation));
  } catch (const Error&) {  // of the node that cannot take them
  }
  return names;
}

std::string describe_nonfinite(const Graph& graph, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return "the outputs of all nodes are finite when it is computed again";
  const Node& first = graph.node(nodes.front());
  const std::string text =
      fmt::format("the first node whose output is not finite is \"{}\" ({})", first.name, first.op);
  for (const auto& [name, parameter] : first.all_parameters())
    if (!parameter->tensor.is_finite()) return fmt::format("{}, whose {} is not finite either", text, name);
  return text;
}

}  // namespace detent
