#include "detent/passes/analysis/variant_runs.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/passes/reconstruction/graph_cut.h"

namespace detent {

VariantRuns::VariantRuns(const Graph& base, const std::vector<Variant>& variants)
    : base_(base), parts_(base.nodes().size()) {
  const GraphCut cut(base);
  for (size_t i = 0; i < base.nodes().size(); ++i) {
    read_from_.push_back(cut.read_from(i));
  }
  const std::string& result = base.nodes().back().inputs[0].node;
  const std::string input = base.input_names().at(0);
  for (size_t i = 0; i < variants.size(); ++i) {
    const size_t first = variants[i].first;
    const auto is_there = [&](const std::string& name) {
      return name == input || std::ranges::binary_search(read_from_.at(first), name);
    };
    const Graph& graph = variants[i].graph;
    const Quantizer* quantizer = graph.node(input).find_quantizer("data_out_0");
    parts_[first].push_back({i, GraphCut(graph).part(is_there, {result}),
                             quantizer == nullptr ? std::nullopt : std::optional(*quantizer)});
  }
}

Tensor VariantRuns::run(const Tensor& inputs, const Program& program, const Executor& executor,
                        const std::function<void(size_t variant, const Tensor& output)>& visit) const {
  std::map<std::string, Tensor, std::less<>> values;  // as later nodes read them
  const auto run_parts = [&](size_t position) {
    for (const Part& part : parts_[position]) {
      std::vector<Tensor> taken;
      for (const std::string& name : part.graph.input_names()) {
        const bool is_input = role_of(base_.node(name)) == OperatorRole::kInput;
        taken.push_back(!is_input              ? values.at(name)
                        : part.input_quantizer ? simulate(*part.input_quantizer, inputs)
                                               : inputs);
      }
      visit(part.variant, executor.run(part.graph, taken));
    }
  };
  const auto pass = [&](const Node& node, std::string_view operand, const Tensor& value) {
    if (operand != "data_out_0") return;
    const size_t position = base_.position(node.name);
    run_parts(position);
    const Quantizer* quantizer = node.find_quantizer(operand);
    values[node.name] = quantizer == nullptr ? value.clone() : simulate(*quantizer, value);
    const std::vector<std::string>& later = read_from_.at(position + 1);
    std::erase_if(values, [&](const auto& entry) { return !std::ranges::binary_search(later, entry.first); });
  };
  return program.run(std::span(&inputs, 1), pass).at(0).clone();
}

}  // namespace detent
