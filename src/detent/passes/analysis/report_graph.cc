#include <map>

#include "detent/core/text_table.h"
#include "detent/files/file.h"
#include "detent/graph/mase_metadata.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

struct ReportGraphOptions {
  std::optional<std::string> file_name;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("file_name", self.file_name, "file to write as well; NA: print only");
  }
  std::vector<PassFile> files() const {
    if (!file_name) return {};
    return {{"file_name", *file_name, true}};
  }
};

std::string inputs_text(const Node& node) {
  std::string text;
  for (const NodeInput& input : node.inputs) {
    text +=
        (text.empty() ? "" : ", ") + (input.is_constant() ? value_text(input.constant) : value_name(input));
  }
  return text;
}

std::string attributes_text(const Node& node) {
  std::string text;
  for (const auto& [key, value] : node.attributes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value_text(value));
  return text;
}

void report_graph(Graph& graph, const ReportGraphOptions& options, PassContext& context) {
  TextTable summary({"opcode", "name", "operator", "inputs", "attributes"});
  std::map<std::string, int> opcodes;
  std::map<std::string, int> operators;
  for (const Node& node : graph.nodes()) {
    summary.add_row({fx_opcode(node), node.name, node.op, inputs_text(node), attributes_text(node)});
    ++opcodes[fx_opcode(node)];
    ++operators[node.op];
  }
  std::string text =
      fmt::format("Graph \"{}\": {} nodes, {} trainable parameters\n\n{}\nNetwork overview:", graph.name(),
                  graph.nodes().size(), graph.parameter_count(), summary.to_text());
  for (const auto& [opcode, count] : opcodes) text += fmt::format(" {} {}", count, opcode);
  text += "\nOperators:";
  for (const auto& [op, count] : operators) text += fmt::format(" {} {}", count, op);
  text += "\n";
  context.report(text);
  if (options.file_name && context.group->is_first()) write_file(context.to_write(*options.file_name), text);
}

void report_node_type(Graph& graph, const NoOptions&, PassContext& context) {
  TextTable table({"Node name", "Fx Node op", "Mase type", "Mase op", "Value type"});
  const ValueTypes values = infer_shapes(graph);
  for (const Node& node : graph.nodes()) {
    const CommonMetadata common = common_metadata(node, values);
    const OperandInfo* info = common.args.find("data_in_0");
    table.add_row({node.name, fx_opcode(node), enum_name(node.mase_type), node.op,
                   info == nullptr ? "NA" : info->type});
  }
  context.report(table.to_text());
}

void report_node_shape(Graph& graph, const NoOptions&, PassContext& context) {
  TextTable table({"Node name", "Operand", "Size"});
  const ValueTypes values = infer_shapes(graph);
  for (const Node& node : graph.nodes()) {
    const CommonMetadata common = common_metadata(node, values);
    for (const auto* operands : {&common.args, &common.results}) {
      for (const auto& [operand, info] : *operands)
        table.add_row({node.name, operand, shape_text(info.size)});
    }
  }
  context.report(table.to_text());
}

}  // namespace

PassInfo report_graph_pass() {
  return make_pass("report_graph", PassKind::kAnalysis, "prints nodes, inputs, attributes and counts",
                   report_graph);
}

PassInfo report_node_type_pass() {
  return make_pass("report_node_type", PassKind::kAnalysis, "prints what each node is", report_node_type);
}

PassInfo report_node_shape_pass() {
  return make_pass("report_node_shape", PassKind::kAnalysis, "prints the size of each operand",
                   report_node_shape);
}

}  // namespace detent
