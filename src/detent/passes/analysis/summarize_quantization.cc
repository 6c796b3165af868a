#include <map>

#include "detent/files/file.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/loop_bodies.h"

namespace detent {
namespace {

struct SummaryOptions {
  std::optional<std::string> save_dir;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("save_dir", self.save_dir, "folder of the CSV files; NA: <output>/quantize");
  }
  std::vector<PassFile> files() const {
    if (!save_dir) return {};
    const std::filesystem::path folder = *save_dir;
    return {{"save_dir", folder / "quantize_table.csv", true},
            {"save_dir", folder / "quantize_histogram.csv", true}};
  }
};

/// "data_in_0=fixed:width=4 weight=ternary", or "-".
std::string operands_text(const Node& node) {
  const std::string text = operand_formats_text(node);
  return text.empty() ? "-" : text;
}

std::string quantized_type(const Node& node) {
  if (node.quantization.empty()) return node.op;
  std::string formats;
  for (const auto& [operand, quantizer] : node.quantization) {
    const std::string name(format_name(quantizer->spec.format));
    if (formats.find(name) == std::string::npos) formats += "_" + name;
  }
  return node.op + formats;
}

void summarize(Graph& graph, const SummaryOptions& options, PassContext& context) {
  const std::filesystem::path directory = options.save_dir.value_or(context.output_dir / "quantize");
  write_quantization_summary(graph, directory, true, context);
}

}  // namespace

TextTable quantization_table(const Graph& graph) {
  TextTable table({"Name", "MASE_TYPE", "Mase_OP", "Original type", "Quantized type", "Changed", "Operands"});
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    for (const Node& node : each.nodes()) {
      table.add_row({prefix + node.name, enum_name(node.mase_type), node.op, node.op, quantized_type(node),
                     node.quantization.empty() ? "False" : "True", operands_text(node)});
    }
  });
  return table;
}

TextTable quantization_histogram(const Graph& graph) {
  std::map<std::string, std::pair<int, int>> counts;  // operator -> total, changed
  for_each_graph(graph, "", [&](const Graph& each, const std::string& /*prefix*/) {
    for (const Node& node : each.nodes()) {
      ++counts[node.op].first;
      counts[node.op].second += node.quantization.empty() ? 0 : 1;
    }
  });
  TextTable table({"Original type", "Total", "Changed", "Unchanged"});
  for (const auto& [op, count] : counts) {
    const auto [total, changed] = count;
    table.add_row(
        {op, fmt::format("{}", total), fmt::format("{}", changed), fmt::format("{}", total - changed)});
  }
  return table;
}

void write_quantization_summary(const Graph& graph, const std::filesystem::path& directory, bool print,
                                PassContext& context) {
  const TextTable table = quantization_table(graph);
  const TextTable histogram = quantization_histogram(graph);
  if (print) context.report(table.to_text() + "\n" + histogram.to_text());
  if (!context.group->is_first()) return;
  write_file(context.to_write(directory / "quantize_table.csv"), table.to_csv());
  write_file(context.to_write(directory / "quantize_histogram.csv"), histogram.to_csv());
}

PassInfo summarize_quantization_pass() {
  return make_pass("summarize_quantization", PassKind::kAnalysis,
                   "prints what became of each node, and writes it as CSV", summarize);
}

}  // namespace detent
