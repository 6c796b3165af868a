#include "detent/graph/node_names.h"

#include <algorithm>

#include <fmt/format.h>

namespace detent {

std::string node_message(const Node& node, std::string_view reason) {
  const std::string name = fmt::format("node \"{}\"", node.name);
  if (reason.starts_with(name)) return std::string(reason);
  return fmt::format("{} ({}): {}", name, node.op, reason);
}

DetailedError node_error(const Node& node, const Error& error) {
  return with_fields(error, node_message(node, error.what()), {.node = node.name});
}

std::string_view reason_of(std::string_view message) {
  constexpr std::string_view kBegin = "node \"";
  constexpr std::string_view kBeforeOperator = " (";
  constexpr std::string_view kColon = ": ";
  if (!message.starts_with(kBegin)) return message;
  // Names of nodes and operators have neither quotes nor brackets.
  const size_t quote = message.find('"', kBegin.size());
  if (quote == std::string_view::npos) return message;
  std::string_view after = message.substr(quote + 1);
  if (after.starts_with(kBeforeOperator))
    after.remove_prefix(std::min(after.find(')'), after.size() - 1) + 1);
  return after.starts_with(kColon) ? after.substr(kColon.size()) : message;
}

std::string source_name_or(const Node& node, size_t i, const std::string& own_name) {
  const bool has_name = i < node.source_names.size() && !node.source_names[i].empty();
  return has_name ? node.source_names[i] : own_name;
}

std::string source_name(const Graph& graph, const NodeInput& value) {
  return source_name_or(graph.node(value.node), value.result, value_name(value));
}

}  // namespace detent
