#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Random networks of truth tables, each an input, convolutions or rows of tables, and an output.
class TableNetworksForTest {
 public:
  explicit TableNetworksForTest(uint64_t seed) : random_(seed) {}

  /// This many networks side by side in one graph.
  Graph draw(int count) {
    Graph graph("tables");
    std::vector<NodeInput> outputs;
    for (int i = 0; i < count; ++i) outputs.push_back(NodeInput::of(add_network(graph, std::to_string(i))));
    graph.add(
        {.name = "output", .op = "output", .mase_type = MaseType::kOutput, .inputs = std::move(outputs)});
    graph.set_requantization(Requantization::kFloat);
    verify(graph);
    return graph;
  }

 private:
  int draw_number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  template <class T>
  Tensor draw_tensor(DType dtype, const Shape& shape, int low, int high) {
    Tensor tensor(dtype, shape);
    for (T& value : tensor.values<T>()) value = static_cast<T>(draw_number(low, high));
    return tensor;
  }

  std::vector<float> draw_values(int count) {
    std::set<float> values = {0};
    while (std::ssize(values) < count) values.insert(static_cast<float>(draw_number(-40, 40)) / 8);
    return {values.begin(), values.end()};
  }

  using Parameters = std::vector<std::pair<std::string, ParameterRef>>;

  /// A layer that takes `values`, over windows of `window` elements; `values` become those of its results.
  Parameters draw_tables(std::vector<float>& values, int64_t outputs, int64_t window) {
    const auto levels = std::ssize(values);
    const int64_t terms = draw_number(1, 4);
    const int fan_in = draw_number(1, levels > 4 ? 2 : 3);
    const auto entries = static_cast<int64_t>(std::lround(std::pow(levels, fan_in)));
    const bool steps = terms > 1 || draw_number(0, 1) == 1;
    const int results = draw_number(2, 5);
    Parameters parameters;
    const auto add = [&](const char* name, Tensor tensor) {
      parameters.emplace_back(name, Parameter{std::move(tensor), false});
    };
    add("inputs",
        draw_tensor<int64_t>(DType::kInt64, {outputs, terms, fan_in}, 0, static_cast<int>(window) - 1));
    add("tables", draw_tensor<int32_t>(DType::kInt32, {outputs, terms, entries}, steps ? -99 : 0,
                                       steps ? 99 : results - 1));
    add("input_values", Tensor::from<float>({levels}, values));
    values = draw_values(results);
    if (steps) {
      Tensor thresholds = draw_tensor<int32_t>(DType::kInt32, {outputs, results - 1}, -150, 150);
      for (int64_t o = 0; o < outputs; ++o) {
        std::ranges::sort(thresholds.values<int32_t>().subspan(static_cast<size_t>(o * (results - 1)),
                                                               static_cast<size_t>(results - 1)));
      }
      add("thresholds", std::move(thresholds));
    }
    add("output_values", Tensor::from<float>({results}, values));
    return parameters;
  }

  std::string add_network(Graph& graph, const std::string& number) {
    const bool is_image = draw_number(0, 1) == 1;
    const int64_t channels = draw_number(1, 2);
    constexpr int64_t kWidth = 3;
    const std::string x = "x" + number;
    graph.add_input(x, is_image ? Shape{1, channels, kWidth, kWidth} : Shape{1, channels, kWidth});
    std::vector<float> values;
    for (int code = -4; code < 4; ++code) values.push_back(static_cast<float>(code) / 4);
    std::string last = "conv" + number;
    Node conv{.name = last,
              .op = is_image ? "lut_conv2d" : "lut_conv1d",
              .mase_type = MaseType::kModuleRelatedFunc,
              .inputs = {NodeInput::of(x)},
              .attributes = {{"kernel_size", 2}, {"padding", draw_number(0, 1)}, {"stride", 2}},
              .parameters = draw_tables(values, draw_number(1, 2), channels * (is_image ? 4 : 2))};
    conv.quantization["data_in_0"] = parse_quant_spec_text(
        draw_number(0, 1) == 0 ? "fixed:width=3,frac_width=2" : "affine:width=3,scale=0.25,symmetric=true");
    graph.add(std::move(conv));
    const std::string flat = "flatten" + number;
    graph.add({.name = flat,
               .op = "flatten",
               .inputs = {NodeInput::of(last)},
               .attributes = {{"start_dim", 1}, {"end_dim", -1}}});
    last = flat;
    const int layers = draw_number(1, 2);
    for (int layer = 0; layer < layers; ++layer) {
      const int64_t window = infer_shapes(graph).at(last).shape[1];
      Node node{.name = "lut" + number + "_" + std::to_string(layer),
                .op = "lut",
                .mase_type = MaseType::kModuleRelatedFunc,
                .inputs = {NodeInput::of(last)},
                .parameters = draw_tables(values, draw_number(1, 5), window)};
      last = node.name;
      graph.add(std::move(node));
    }
    return last;
  }

  std::mt19937_64 random_;
};

}  // namespace detent
