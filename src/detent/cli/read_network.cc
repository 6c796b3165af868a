#include "detent/cli/read_network.h"

#include <algorithm>

#include "detent/cli/file_kind.h"
#include "detent/core/error.h"
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

}  // namespace

fs::path graph_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  fs::path file = path / "graph_module.mz";
  if (!fs::exists(file)) refuse_folder(path);
  return file;
}

Graph read_network(const std::filesystem::path& path,
                   const std::map<std::string, Shape, std::less<>>& shapes) {
  const FileKind& kind = file_kind(graph_file(path));
  if (!kind.holds_graph()) fail("{}: it is {}, expected a network", path.string(), kind.text);
  if (!shapes.empty() && kind == onnx_kind()) return import_onnx(path, {.shapes = shapes});
  return std::get<GraphReader>(kind.read)(graph_file(path));
}

bool brings_quantizers(const Graph& graph) {
  const auto is_quantized = [](const Node& node) { return !node.quantization.empty(); };
  return !graph.requantization() && std::ranges::any_of(graph.nodes(), is_quantized);
}

}  // namespace detent
