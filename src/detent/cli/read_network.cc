#include "detent/cli/read_network.h"
#include "detent/graph/loop.h"

#include <algorithm>

#include "detent/cli/file_kind.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/node_names.h"
#include "detent/onnx/import_onnx.h"

namespace detent {

namespace {

namespace fs = std::filesystem;

/// The node of the input that is called so, in the model that the graph comes from or here.
std::string input_node(const Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (const std::string& node : graph.input_names()) {
    known.push_back(source_name(graph, NodeInput::of(node)));
    if (known.back() == name || node == name) return node;
  }
  fail_unknown("--shape", "input", name, known, {.key = "shape"});
}

Graph with_shapes(const Graph& graph, const InputShapes& shapes) {
  NamedSizes sizes;
  for (const auto& [name, shape] : shapes) {
    const TensorType& type = graph.input_types().find(input_node(graph, name))->second;
    const bool is_positive = std::ranges::all_of(shape, [](int64_t size) { return size > 0; });
    if (!is_positive || !type.matches(shape, sizes))
      fail("--shape {}: got {}, expected one that fits {} with sizes above 0", name, shape_text(shape),
           tensor_type_text(type));
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

/// Names the first ONNX model in the folder, which alone would do; "" where it holds none.
std::string held_model_text(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().string());
  return names.empty() ? "" : fmt::format(" (but with {}: give the file)", *std::ranges::min_element(names));
}

}  // namespace

fs::path graph_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  for (const char* name : {"graph_module.mz", "config.json"}) {
    if (fs::exists(path / name)) return path / name;
  }
  fail("{}: a folder with neither graph_module.mz nor config.json{}, expected {}", path.string(),
       held_model_text(path), file_kinds_text());
}

Graph read_network(const std::filesystem::path& path, const InputShapes& shapes) {
  const FileKind& kind = file_kind(graph_file(path));
  if (!kind.holds_graph()) {
    const bool has_parameters = std::holds_alternative<StateDictReader>(kind.read);
    fail("{}: it is {}, expected a network{}", path.string(), kind.text,
         has_parameters
             ? fmt::format("; of a built-in model (`detent list models`), `detent export {} MODEL.onnx "
                           "--model NAME` writes one with these parameters",
                           path.string())
             : "");
  }
  if (!shapes.empty() && kind == onnx_kind()) return import_onnx(path, {.shapes = shapes});
  const Graph graph = std::get<GraphReader>(kind.read)(graph_file(path));
  return shapes.empty() ? graph : with_shapes(graph, shapes);
}

bool takes_shapes(const Graph& graph, const InputShapes& shapes, bool takes_any_batch) {
  NamedSizes sizes;
  return std::ranges::all_of(graph.input_types(), [&](const auto& input) {
    const auto& [node, type] = input;
    auto given = shapes.find(source_name(graph, NodeInput::of(node)));
    if (given == shapes.end()) given = shapes.find(node);
    if (given == shapes.end()) return true;
    Shape shape = given->second;
    if (takes_any_batch && !shape.empty() && !type.shape.empty() && !type.shape[0].is_named())
      shape[0] = type.shape[0].size;
    return type.matches(shape, sizes);
  });
}

bool brings_quantizers(const Graph& graph) { return !graph.requantization() && holds_quantizers(graph); }

}  // namespace detent
