#include "detent/passes/analysis/variant_runs.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/passes/reconstruction/graph_cut.h"

namespace detent {

VariantRuns::VariantRuns(const Graph& base, const std::vector<Variant>& variants, size_t output)
    : base_(base), output_(output), parts_(base.nodes().size()) {
  const GraphCut cut(base);
  for (size_t i = 0; i < base.nodes().size(); ++i) {
    read_from_.push_back(cut.read_from(i));
  }
  const std::string& result = base.nodes().back().inputs.at(output).node;
  const std::vector<std::string> inputs = base.input_names();
  for (size_t i = 0; i < variants.size(); ++i) {
    const size_t first = variants[i].first;
    const auto is_there = [&](const std::string& name) {
      return std::ranges::count(inputs, name) > 0 || std::ranges::binary_search(read_from_.at(first), name);
    };
    const Graph& graph = variants[i].graph;
    Part part{i, GraphCut(graph).part(is_there, {result}), {}};
    for (const std::string& input : inputs) {
      const Quantizer* quantizer = graph.node(input).find_quantizer("data_out_0");
      if (quantizer != nullptr) part.input_quantizers.emplace(input, *quantizer);
    }
    parts_[first].push_back(std::move(part));
  }
}

Tensor VariantRuns::run(std::span<const Tensor> inputs, const Program& program, const Executor& executor,
                        const std::function<void(size_t variant, const Tensor& output)>& visit) const {
  std::map<std::string, Tensor, std::less<>> values;  // as later nodes read them
  const std::vector<std::string> input_names = base_.input_names();
  const auto run_parts = [&](size_t position) {
    for (const Part& part : parts_[position]) {
      std::vector<Tensor> taken;
      for (const std::string& name : part.graph.input_names()) {
        const auto input = std::ranges::find(input_names, name);
        if (input == input_names.end()) {
          taken.push_back(values.at(name));
          continue;
        }
        const Tensor& given = inputs[static_cast<size_t>(input - input_names.begin())];
        const auto quantizer = part.input_quantizers.find(name);
        taken.push_back(quantizer == part.input_quantizers.end() ? given
                                                                 : fake_quantize(quantizer->second, given));
      }
      visit(part.variant, executor.run(part.graph, taken));
    }
  };
  const auto pass = [&](const Node& node, std::string_view operand, const Tensor& value) {
    if (operand != "data_out_0") return;
    const size_t position = base_.position(node.name);
    run_parts(position);
    const Quantizer* quantizer = node.find_quantizer(operand);
    values[node.name] = quantizer == nullptr ? value.clone() : fake_quantize(*quantizer, value);
    const std::vector<std::string>& later = read_from_.at(position + 1);
    std::erase_if(values, [&](const auto& entry) { return !std::ranges::binary_search(later, entry.first); });
  };
  return program.run(inputs, pass).at(output_).clone();
}

}  // namespace detent
