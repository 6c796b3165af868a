#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/text_table.h"
#include "detent/files/file.h"
#include "detent/graph/mase_metadata.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

const std::vector<std::string> kParts = {"common", "hardware", "software"};

struct ReportOptions {
  std::vector<std::string> which = {"all"};
  std::optional<std::string> save_path;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("which", self.which, "parts to report: all, common, hardware, software");
    visit("save_path", self.save_path, "file to write as well; NA: <output>/report/node_meta_param.md");
  }
  void check(const std::string& where) const {
    std::vector<std::string> known = kParts;
    known.insert(known.begin(), "all");
    for (const std::string& part : which) {
      if (std::ranges::find(known, part) != known.end()) continue;
      fail("{}: key \"which\": {}", where, unknown_name_message("part", part, known));
    }
  }
  std::vector<PassFile> files() const { return {{"save_path", save_path, true}}; }
};

std::vector<std::string> selected_parts(const ReportOptions& options) {
  return std::ranges::find(options.which, "all") != options.which.end() ? kParts : options.which;
}

/// One row for each table that holds values, under its path ("args.data_in_0.stat.range_min_max").
void add_rows(const Node& node, const std::string& part, const std::string& path, const Table& table,
              TextTable& rows) {
  Table values;
  for (const auto& [key, value] : table) {
    if (const Table* nested = value.get_if<Table>()) {
      add_rows(node, part, path.empty() ? key : fmt::format("{}.{}", path, key), *nested, rows);
    } else if (!(path.empty() && key.starts_with("mase_"))) {
      values[key] = value;
    }
  }
  if (!values.empty()) rows.add_row({node.name, fx_opcode(node), node.op, part, path, value_text(values)});
}

void report_node_meta_param(Graph& graph, const ReportOptions& options, PassContext& context) {
  TextTable rows({"Node name", "Fx Node op", "Mase op", "Part", "Entry", "Values"});
  const ValueTypes values = infer_shapes(graph);
  for (const std::string& part : selected_parts(options)) {
    for (const Node& node : graph.nodes()) {
      const Table table = metadata_table(node, values);
      const Value* entries = table.find(part);
      if (entries != nullptr) add_rows(node, part, "", *entries->get_if<Table>(), rows);
    }
  }
  context.report(rows.to_text());
  if (!context.group->is_first()) return;
  const std::filesystem::path path =
      options.save_path.value_or(context.output_dir / "report" / "node_meta_param.md");
  write_file(context.to_write(path), rows.to_text(kUnlimitedColumns));
}

}  // namespace

PassInfo report_node_meta_param_pass() {
  return make_pass("report_node_meta_param", PassKind::kAnalysis, "prints the metadata of each node",
                   report_node_meta_param);
}

}  // namespace detent
