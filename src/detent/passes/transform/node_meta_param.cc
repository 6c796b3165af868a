#include "detent/core/error.h"
#include "detent/files/toml.h"
#include "detent/graph/mase_metadata.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

struct SaveNodeMetaOptions {
  std::optional<std::string> save_path;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("save_path", self.save_path, "file; NA: <output>/save_node_meta_param/node_meta_param.toml");
  }
  std::vector<PassFile> files() const { return {{"save_path", save_path, true}}; }
};

struct LoadNodeMetaOptions {
  std::string load_path;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("load_path", self.load_path, "file that save_node_meta_param wrote");
  }
  void check(const std::string& where) const {
    if (load_path.empty()) fail("{}: key \"load_path\" is missing", where);
  }
  std::vector<PassFile> files() const { return {{"load_path", load_path}}; }
};

void save_node_meta_param(Graph& graph, const SaveNodeMetaOptions& options, PassContext& context) {
  const std::filesystem::path path =
      options.save_path.value_or(context.output_dir / "save_node_meta_param" / "node_meta_param.toml");
  if (context.group->is_first()) {
    write_toml(context.to_write(path), metadata_table(graph), TomlLayout::kBreadthFirst);
  }
  context.report(fmt::format("node metadata: {}\n", path.string()));
}

void load_node_meta_param(Graph& graph, const LoadNodeMetaOptions& options, PassContext& context) {
  load_metadata_table(graph, read_toml(context.to_read(options.load_path)), options.load_path, context.warn);
}

}  // namespace

PassInfo save_node_meta_param_pass() {
  return make_pass("save_node_meta_param", PassKind::kInterface, "writes the metadata of every node as TOML",
                   save_node_meta_param);
}

PassInfo load_node_meta_param_pass() {
  return make_pass("load_node_meta_param", PassKind::kAnalysis, "reads what save_node_meta_param wrote",
                   load_node_meta_param);
}

}  // namespace detent
