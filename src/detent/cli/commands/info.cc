#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/graph/graph.h"
#include "detent/io/file.h"
#include "detent/io/graph_file.h"
#include "detent/io/json.h"
#include "detent/io/safetensors.h"
#include "detent/io/torch_checkpoint.h"

namespace detent {
namespace {

/// What `detent info` tells of a file.
struct FileInfo {
  std::string kind;
  std::vector<std::pair<std::string, Tensor>> tensors;
  Table facts;              // further lines, by name
  std::vector<Node> nodes;  // of a graph
};

/// "weight=ternary:scaling_factor=true data_in_0=fixed"
std::string formats_text(const Node& node) {
  std::vector<std::string> formats;
  for (const auto& [operand, spec] : node.quantization)
    formats.push_back(operand + "=" + quant_spec_text(spec));
  return fmt::format("{}", fmt::join(formats, " "));
}

FileInfo safetensors_info(const std::filesystem::path& path) {
  SafetensorsFile file = read_safetensors(path);
  FileInfo info{"safetensors", std::move(file.tensors), {}, {}};
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != "detent.graph") {
    for (const auto& [key, value] : file.metadata) info.facts[key] = value;
    return info;
  }
  info.kind = "graph";
  const Graph graph = read_graph(path);
  info.facts["name"] = graph.name();
  info.facts["parameters"] = graph.parameter_count();
  info.nodes = graph.nodes();
  return info;
}

/// By the first bytes: PyTorch writes zip archives, in older times a pickle.
bool is_safetensors(const std::filesystem::path& path) {
  const auto file = map_file(path);
  const std::span<std::byte> bytes = file->bytes();
  constexpr size_t kHeaderBegin = 8;
  return bytes.size() > kHeaderBegin && bytes[kHeaderBegin] == std::byte{'{'};
}

FileInfo file_info(const std::filesystem::path& path) {
  if (is_safetensors(path)) return safetensors_info(path);
  return {"PyTorch checkpoint", read_state_dict(path), {}, {}};
}

int64_t byte_count(const FileInfo& info) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : info.tensors) bytes += static_cast<int64_t>(tensor.byte_size());
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
    for (const Node& node : info.nodes) nodes.add_row({node.name, node.op, formats_text(node)});
    text += "\n" + nodes.to_text();
  }
  TextTable tensors({"tensor", "shape", "dtype", "bytes"});
  for (const auto& [name, tensor] : info.tensors) {
    tensors.add_row({name, shape_text(tensor.shape()), std::string(dtype_name(tensor.dtype())),
                     std::to_string(tensor.byte_size())});
  }
  return text + "\n" + tensors.to_text();
}

Table info_json(const FileInfo& info) {
  List tensors;
  for (const auto& [name, tensor] : info.tensors) {
    tensors.push_back(Table{{"name", name},
                            {"shape", Value(tensor.shape())},
                            {"dtype", std::string(dtype_name(tensor.dtype()))},
                            {"bytes", static_cast<int64_t>(tensor.byte_size())}});
  }
  Table json{{"kind", info.kind}, {"bytes", byte_count(info)}, {"facts", info.facts}};
  List nodes;
  for (const Node& node : info.nodes) {
    nodes.push_back(Table{{"name", node.name}, {"op", node.op}, {"formats", formats_text(node)}});
  }
  if (!nodes.empty()) json["nodes"] = std::move(nodes);
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

int run_info(const std::vector<std::string>& args) {
  CLI::App app("Show what a file holds: names, shapes, types and sizes of its tensors, nodes of a graph.",
               "detent info");
  std::string path;
  bool as_json = false;
  app.add_option("file", path, "a graph (.mz), safetensors or PyTorch (.pt, .ckpt) file")
      ->required()
      ->option_text(" ");
  app.add_flag("--json", as_json, "print JSON");
  if (!parse_arguments(app, args)) return 0;
  const FileInfo info = file_info(path);
  print(as_json ? json_text(info_json(info)) + "\n" : info_text(info));
  return 0;
}

}  // namespace detent
