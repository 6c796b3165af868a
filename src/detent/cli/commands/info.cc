#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/text_table.h"
#include "detent/cli/file_kind.h"
#include "detent/io/json.h"
#include "detent/passes/analysis/node_text.h"

namespace detent {
namespace {

int64_t byte_count(const FileInfo& info) {
  int64_t bytes = 0;
  for (const TensorSummary& tensor : info.tensors) bytes += static_cast<int64_t>(tensor.byte_size);
  return bytes;
}

std::string info_text(const FileInfo& info) {
  std::string text = fmt::format("kind: {}\n", info.kind);
  for (const auto& [key, value] : info.facts) {
    const std::string* line = value.get_if<std::string>();
    text += fmt::format("{}: {}\n", key, line != nullptr ? *line : value_text(value));
  }
  text += fmt::format("tensors: {}, {} bytes\n", info.tensors.size(), byte_count(info));
  if (!info.nodes.empty()) {
    TextTable nodes({"node", "op", "formats"});
    for (const Node& node : info.nodes) nodes.add_row({node.name, node.op, operand_formats_text(node)});
    text += "\n" + nodes.to_text();
  }
  TextTable tensors({"tensor", "shape", "dtype", "bytes"});
  for (const TensorSummary& tensor : info.tensors) {
    tensors.add_row({tensor.name, shape_text(tensor.shape), tensor.dtype, std::to_string(tensor.byte_size)});
  }
  return text + "\n" + tensors.to_text();
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
  List nodes;
  for (const Node& node : info.nodes) {
    Table formats;
    for (const auto& [operand, quantizer] : node.quantization)
      formats[operand] = quant_spec_text(quantizer->spec);
    nodes.push_back(Table{{"name", node.name}, {"op", node.op}, {"formats", std::move(formats)}});
  }
  if (!nodes.empty()) json["nodes"] = std::move(nodes);
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

int run_info(const std::vector<std::string>& args) {
  CLI::App app(
      "Show what a file holds: names, shapes, types and sizes of its tensors, nodes of a graph. The elements "
      "are "
      "not read, so a file of any size takes milliseconds.",
      "detent info");
  std::string path;
  bool as_json = false;
  app.add_option("file", path, file_kinds_text())->required()->option_text(" ");
  app.add_flag("--json", as_json, "print JSON");
  if (!parse_arguments(app, args)) return 0;
  const FileInfo info = file_kind(path).info(path);
  print(as_json ? json_text(info_json(info)) + "\n" : info_text(info));
  return 0;
}

}  // namespace detent
