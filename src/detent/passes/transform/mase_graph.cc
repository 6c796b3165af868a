#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/core/error.h"
#include "detent/files/toml.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/mase_metadata.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

struct SaveOptions {
  std::optional<std::string> save_dir;
  bool packed_weights = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("save_dir", self.save_dir, "folder; NA: <output>/saved_mase_graph");
    visit(
        "packed_weights", self.packed_weights,
        "store quantized weights as packed integers with scales; training then resumes from rounded weights");
  }
  std::vector<PassFile> files() const {
    if (!save_dir) return {{"save_dir", std::nullopt, true}};
    const fs::path folder = *save_dir;
    return {{"save_dir", folder / "graph_module.mz", true},
            {"save_dir", folder / "node_meta_param.toml", true},
            {"save_dir", folder / "state_dict.pt", true}};
  }
};

struct LoadOptions {
  std::string load_dir;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("load_dir", self.load_dir, "folder that save_mase_graph wrote, or a file in it");
  }
  void check(const std::string& where) const {
    if (load_dir.empty()) fail("{}: key \"load_dir\" is missing", where);
  }
  std::vector<PassFile> files() const { return {{"load_dir", load_dir}}; }
};

void save_pass(Graph& graph, const SaveOptions& options, PassContext& context) {
  const fs::path directory = options.save_dir.value_or(context.output_dir / "saved_mase_graph");
  const StoredWeights weights = options.packed_weights ? StoredWeights::kPacked : StoredWeights::kFloat;
  if (context.group->is_first()) {
    for (const std::string& line : save_mase_graph(graph, context.to_write(directory), weights))
      context.warn(fmt::format("{}: stays float32: {}", context.where, line));
  }
  context.report(fmt::format("graph: {}\n", (directory / "graph_module.mz").string()));
}

void load_pass(Graph& graph, const LoadOptions& options, PassContext& context) {
  graph = load_mase_graph(context.to_read(options.load_dir));
}

}  // namespace

std::vector<std::string> save_mase_graph(const Graph& graph, const fs::path& directory,
                                         StoredWeights weights) {
  const fs::path file = directory / "graph_module.mz";
  std::vector<std::string> left;
  if (weights == StoredWeights::kPacked) {
    left = write_packed_graph(file, graph);
  } else {
    write_graph(file, graph);
  }
  write_toml(directory / "node_meta_param.toml", metadata_table(graph), TomlLayout::kBreadthFirst);
  write_state_dict(directory / "state_dict.pt", state_dict(graph));
  return left;
}

Graph load_mase_graph(const fs::path& path) {
  return read_graph(fs::is_directory(path) ? path / "graph_module.mz" : path);
}

PassInfo save_mase_graph_pass() {
  return make_pass(
      "save_mase_graph", PassKind::kInterface,
      "writes graph_module.mz (graph, quantization, weights), node_meta_param.toml and state_dict.pt",
      save_pass);
}

PassInfo load_mase_graph_pass() {
  PassInfo pass = make_pass("load_mase_graph", PassKind::kTransform,
                            "replaces the graph by one that save_mase_graph wrote", load_pass);
  pass.replaces_graph = true;
  return pass;
}

}  // namespace detent
