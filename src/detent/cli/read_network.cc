#include "detent/cli/read_network.h"

#include <algorithm>

#include "detent/cli/file_kind.h"
#include "detent/core/error.h"
#include "detent/graph/source_names.h"
#include "detent/io/json.h"
#include "detent/onnx/import_onnx.h"

namespace detent {

namespace {

namespace fs = std::filesystem;

/// "bert" of a model's config.json, quoted and with a blank behind it; "" where it does not say.
std::string model_type(const fs::path& config) {
  try {
    const Value value = read_json(config);
    const Table* table = value.get_if<Table>();
    const Value* type = table == nullptr ? nullptr : table->find("model_type");
    const std::string* name = type == nullptr ? nullptr : type->get_if<std::string>();
    return name == nullptr ? "" : fmt::format("\"{}\" ", *name);
  } catch (const Error&) {
    return "";
  }
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  if (!fs::exists(config))
    fail("{}: a folder without graph_module.mz, expected {}", folder.string(), file_kinds_text());
  fail(
      "{0}: a {1}model of Hugging Face (config.json): folders of language models come with a later version "
      "of "
      "Detent. Export it as ONNX, and give that file: `optimum-cli export onnx --model {0} FOLDER` (Python "
      "package "
      "optimum-onnx) writes FOLDER/model.onnx",
      folder.string(), model_type(config));
}

/// The node of the input that is called so, in the model that the graph comes from or here.
std::string input_node(const Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (const std::string& node : graph.input_names()) {
    known.push_back(source_name(graph, NodeInput::of(node)));
    if (known.back() == name || node == name) return node;
  }
  fail("--shape: {}", unknown_name_message("input", name, known));
}

Graph with_shapes(const Graph& graph, const InputShapes& shapes) {
  NamedSizes sizes;
  for (const auto& [name, shape] : shapes) {
    const TensorType& type = graph.input_types().find(input_node(graph, name))->second;
    if (!type.matches(shape, sizes))
      fail("--shape {}: got {}, expected one that fits {}", name, shape_text(shape), tensor_type_text(type));
  }
  sizes.erase(kBatchName);
  std::map<std::string, TensorType> types;
  for (auto [name, type] : graph.input_types()) {
    for (Dimension& dimension : type.shape) {
      const auto size = sizes.find(dimension.symbol);
      if (dimension.is_named() && size != sizes.end()) dimension = size->second;
    }
    types.emplace(name, std::move(type));
  }
  return with_input_types(graph, types);
}

}  // namespace

fs::path graph_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  fs::path file = path / "graph_module.mz";
  if (!fs::exists(file)) refuse_folder(path);
  return file;
}

Graph read_network(const std::filesystem::path& path, const InputShapes& shapes) {
  const FileKind& kind = file_kind(graph_file(path));
  if (!kind.holds_graph()) fail("{}: it is {}, expected a network", path.string(), kind.text);
  if (!shapes.empty() && kind == onnx_kind()) return import_onnx(path, {.shapes = shapes});
  const Graph graph = std::get<GraphReader>(kind.read)(graph_file(path));
  return shapes.empty() ? graph : with_shapes(graph, shapes);
}

bool brings_quantizers(const Graph& graph) {
  const auto is_quantized = [](const Node& node) { return !node.quantization.empty(); };
  return !graph.requantization() && std::ranges::any_of(graph.nodes(), is_quantized);
}

}  // namespace detent
