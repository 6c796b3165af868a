#include "detent/cli/read_network.h"

#include "detent/cli/file_kind.h"
#include "detent/core/error.h"
#include "detent/onnx/import_onnx.h"

namespace detent {

std::filesystem::path graph_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "graph_module.mz" : path;
}

Graph read_network(const std::filesystem::path& path,
                   const std::map<std::string, Shape, std::less<>>& shapes) {
  const FileKind& kind = file_kind(graph_file(path));
  if (!kind.holds_graph()) fail("{}: it is {}, expected a network", path.string(), kind.text);
  if (!shapes.empty() && kind == onnx_kind()) return import_onnx(path, {.shapes = shapes});
  return std::get<GraphReader>(kind.read)(graph_file(path));
}

}  // namespace detent
