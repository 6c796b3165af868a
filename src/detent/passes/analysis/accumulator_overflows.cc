#include "detent/passes/analysis/accumulator_overflows.h"

#include <algorithm>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/traits.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/inference/code_type.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

std::optional<SumForm> sums_of(const Graph& graph, const Node& node) {
  if (!is_weighted_sum(node) || !graph.requantization()) return std::nullopt;
  std::optional<NodeForm> form = node_form(node, *graph.requantization());
  auto* sums = form ? std::get_if<SumForm>(&*form) : nullptr;
  return sums == nullptr ? std::nullopt : std::optional(std::move(*sums));
}

/// The codes of values that have them.
Tensor codes_of(const Tensor& values, const CodeType& type) {
  Tensor codes(DType::kInt32, values.shape());
  std::ranges::transform(values.values<float>(), codes.values<int32_t>().begin(),
                         [&](float value) { return type.code(value); });
  return codes;
}

/// As its quantizer leaves it in inference.
Tensor rounded_weight(const Node& node) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  const Quantizer* quantizer = node.find_quantizer("weight");
  return quantizer == nullptr ? weight : fake_quantize(*quantizer, weight);
}

AccumulatedLayer accumulated_layer(const Graph& graph, const Node& node, const Accumulator& accumulator,
                                   const Tensor& values) {
  AccumulatedLayer layer{
      .node = node.name, .accumulator = accumulator.text(), .guaranteed = {}, .overflows = {}};
  const std::optional<SumForm> form = sums_of(graph, node);
  if (form) layer.guaranteed = guaranteed_width(products_bound(*form, node));
  const AccumulatedSums found =
      form ? accumulated_sums(*form, node, accumulator, codes_of(values, form->input))
           : accumulated_sums(rounded_weight(node), {}, node, accumulator, values);
  layer.sums = found.sums.numel();
  layer.additions = found.additions;
  layer.overflows = found.overflows;
  return layer;
}

std::string layers_text(int64_t count) { return fmt::format("{} layer{}", count, count == 1 ? "" : "s"); }

}  // namespace

std::vector<GuaranteedWidth> guaranteed_widths(const Graph& graph) {
  std::vector<GuaranteedWidth> widths;
  for (const Node& node : graph.nodes()) {
    if (const std::optional<SumForm> form = sums_of(graph, node))
      widths.push_back({node.name, guaranteed_width(products_bound(*form, node))});
  }
  return widths;
}

std::string guaranteed_widths_text(const Graph& graph) {
  const std::vector<GuaranteedWidth> widths = guaranteed_widths(graph);
  if (widths.empty()) return "";
  const auto [least, most] = std::ranges::minmax_element(widths, {}, &GuaranteedWidth::width);
  if (widths.size() == 1) return fmt::format("{} bits hold every sum of {}", most->width, most->node);
  const std::string bits =
      least->width == most->width ? "" : fmt::format("{} ({}) to ", least->width, least->node);
  return fmt::format("{}{} bits ({}) hold every sum of {} layers", bits, most->width, most->node,
                     widths.size());
}

std::vector<AccumulatedLayer> accumulated_layers(const Graph& graph, const Program& program,
                                                 std::span<const Tensor> inputs) {
  Observation observation = Observation::of_none();
  for (const Node& node : graph.nodes()) {
    if (accumulator_of(node)) observation.operands->emplace(node.name, "data_in_0");
  }
  std::vector<AccumulatedLayer> layers;
  if (observation.operands->empty()) return layers;
  observation.see = [&](const Node& seen, std::string_view /*operand*/, const Tensor& values) {
    const Node& node = graph.node(seen.name);
    layers.push_back(accumulated_layer(graph, node, *accumulator_of(node), values));
  };
  static_cast<void>(program.run(inputs, observation));
  std::ranges::sort(layers, {}, [&](const AccumulatedLayer& layer) { return graph.position(layer.node); });
  return layers;
}

TextTable accumulated_layers_table(std::span<const AccumulatedLayer> layers) {
  TextTable table({"layer", "accumulator", "bits that hold every sum", "additions", "overflows", "sums",
                   "with overflow"});
  for (const AccumulatedLayer& layer : layers) {
    table.add_row({layer.node, layer.accumulator, layer.guaranteed ? std::to_string(*layer.guaranteed) : "",
                   std::to_string(layer.additions), std::to_string(layer.overflows.additions),
                   std::to_string(layer.sums), std::to_string(layer.overflows.sums)});
  }
  return table;
}

std::string accumulated_layers_text(std::span<const AccumulatedLayer> layers, int64_t samples) {
  const auto overflows = [](const AccumulatedLayer& layer) { return layer.overflows.additions > 0; };
  const auto count = std::ranges::count_if(layers, overflows);
  const std::string where =
      fmt::format("accumulators of {}, {} samples: ", layers_text(std::ssize(layers)), samples);
  if (count == 0) return where + "no overflow\n";
  int64_t sums = 0;
  int64_t with_overflow = 0;
  for (const AccumulatedLayer& layer : layers) {
    sums += layer.sums;
    with_overflow += layer.overflows.sums;
  }
  return fmt::format("{}{} of {} sums overflow, in {}\n", where, with_overflow, sums, layers_text(count));
}

List accumulated_layers_list(std::span<const AccumulatedLayer> layers) {
  List list;
  for (const AccumulatedLayer& layer : layers) {
    list.push_back(Table{{"layer", layer.node},
                         {"accumulator", layer.accumulator},
                         {"guaranteed_width", layer.guaranteed ? Value(*layer.guaranteed) : Value()},
                         {"additions", layer.additions},
                         {"overflows", layer.overflows.additions},
                         {"sums", layer.sums},
                         {"sums_with_overflow", layer.overflows.sums}});
  }
  return list;
}

}  // namespace detent
