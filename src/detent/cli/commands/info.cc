#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/network_info.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/passes/analysis/quantization_summary.h"

namespace detent {
namespace {

constexpr const char* kInFloat = "computed in float, where the others compute in integers";

int64_t byte_count(const FileInfo& info) {
  int64_t bytes = 0;
  for (const TensorSummary& tensor : info.tensors) bytes += static_cast<int64_t>(tensor.byte_size);
  return bytes;
}

/// The formats of the weights of layers against the bytes that all parameters take.
std::string sizes_text(const Graph& graph) {
  TextTable table({"weights in", "bytes", "bits a weight"});
  for (const FormatSize& size : sizes_by_format(graph)) {
    table.add_row({size.format.empty() ? "as it is" : size.format, std::to_string(size.bytes),
                   fmt::format("{:.2f}", size.bits_per_weight)});
  }
  return table.to_text();
}

std::string nodes_text(const Graph& graph, const std::vector<UnquantizedNode>& in_float) {
  TextTable nodes({"node", "op", "formats", "in float, because"});
  for (const Node& node : graph.nodes()) {
    const auto found = std::ranges::find(in_float, node.name, &UnquantizedNode::name);
    nodes.add_row(
        {node.name, node.op, operand_formats_text(node), found == in_float.end() ? "" : found->why});
  }
  return nodes.to_text();
}

std::string info_text(const FileInfo& info) {
  std::string text = fmt::format("kind: {}\n", info.kind);
  for (const auto& [key, value] : info.facts) {
    const std::string* line = value.get_if<std::string>();
    text += fmt::format("{}: {}\n", key, line != nullptr ? *line : value_text(value));
  }
  text += fmt::format("tensors: {}, {} bytes\n", info.tensors.size(), byte_count(info));
  if (info.graph) {
    const std::vector<UnquantizedNode> in_float = float_nodes(*info.graph);
    text += "\n" + sizes_text(*info.graph);
    if (!brings_quantizers(*info.graph))
      text += fmt::format("\n{}: {}\n", kInFloat, float_nodes_text(in_float));
    text += "\n" + nodes_text(*info.graph, in_float);
  }
  TextTable tensors({"tensor", "shape", "dtype", "bytes"});
  for (const TensorSummary& tensor : info.tensors) {
    tensors.add_row({tensor.name, shape_text(tensor.shape), tensor.dtype, std::to_string(tensor.byte_size)});
  }
  return text + "\n" + tensors.to_text();
}

List nodes_json(const Graph& graph) {
  const std::vector<UnquantizedNode> in_float = float_nodes(graph);
  List nodes;
  for (const Node& node : graph.nodes()) {
    Table formats;
    for (const auto& [operand, quantizer] : node.quantization)
      formats[operand] = quant_spec_text(quantizer->spec);
    Table row{{"name", node.name}, {"op", node.op}, {"formats", std::move(formats)}};
    const auto found = std::ranges::find(in_float, node.name, &UnquantizedNode::name);
    if (found != in_float.end()) row["in_float_because"] = found->why;
    nodes.push_back(std::move(row));
  }
  return nodes;
}

List sizes_json(const Graph& graph) {
  List sizes;
  for (const FormatSize& size : sizes_by_format(graph)) {
    sizes.push_back(
        Table{{"format", size.format}, {"bytes", size.bytes}, {"bits_per_weight", size.bits_per_weight}});
  }
  return sizes;
}

Table info_json(const FileInfo& info) {
  List tensors;
  for (const TensorSummary& tensor : info.tensors) {
    tensors.push_back(Table{{"name", tensor.name},
                            {"shape", Value(tensor.shape)},
                            {"dtype", tensor.dtype},
                            {"bytes", static_cast<int64_t>(tensor.byte_size)}});
  }
  Table json{{"kind", info.kind}, {"bytes", byte_count(info)}, {"facts", info.facts}};
  if (info.graph) {
    json["sizes"] = sizes_json(*info.graph);
    json["nodes"] = nodes_json(*info.graph);
  }
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

int run_info(const std::vector<std::string>& args) {
  CLI::App app(
      "Show what a file holds: names, shapes, types and sizes of its tensors; of a network its inputs, "
      "outputs, "
      "operators and nodes, its cost, and its size in other formats. Tensors that are no part of a network "
      "are "
      "not read, so a file of any size takes milliseconds.",
      "detent info");
  std::string path;
  bool as_json = false;
  std::optional<std::string> drawing;
  app.add_option("file", path, file_kinds_text())->required()->option_text(" ");
  app.add_flag("--json", as_json, "print JSON");
  app.add_option("--graph", drawing,
                 "draw the network into this file: .svg, .png or .pdf (Graphviz), or .dot");
  std::vector<std::string> shapes;
  app.add_option("--shape", shapes, "NAME=1,3,224,224: shape of an input with open sizes");
  bool overwrite = false;
  add_overwrite_option(app, overwrite);
  if (!parse_arguments(app, args)) return 0;
  path = graph_file(path).string();
  if (drawing) claim_output(*drawing, "--graph", overwrite);
  const FileKind& kind = file_kind(path);
  if (!shapes.empty() && !kind.holds_graph()) fail("--shape: {} is {}, expected a network", path, kind.text);
  const FileInfo info = kind.info(path, named_shapes(shapes));
  if (drawing) {
    if (!info.graph) fail("--graph: {} is {}, expected a network", path, info.kind);
    draw_graph(*info.graph, *drawing);
  }
  print(as_json ? json_text(info_json(info)) + "\n" : info_text(info));
  return 0;
}

}  // namespace detent
