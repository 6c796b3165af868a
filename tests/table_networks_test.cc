#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>

#include "detent/engine/fast_executor.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"

// Random networks of truth tables: simulation, integer execution and the engine give the same bits, before
// and after they are saved.

namespace detent {
namespace {

int draw_number(int low, int high) { return *rc::gen::inRange(low, high + 1); }

std::vector<float> draw_values(int count) {
  std::set<float> values = {0};
  while (std::ssize(values) < count) values.insert(static_cast<float>(draw_number(-40, 40)) / 8);
  return {values.begin(), values.end()};
}

template <class T>
Tensor drawn(DType dtype, const Shape& shape, int low, int high) {
  Tensor tensor(dtype, shape);
  const auto values = *rc::gen::container<std::vector<int>>(static_cast<size_t>(tensor.numel()),
                                                            rc::gen::inRange(low, high + 1));
  std::ranges::transform(values, tensor.values<T>().begin(), [](int value) { return static_cast<T>(value); });
  return tensor;
}

/// A layer that takes `values`, over windows of `window` elements; `values` become those of its results.
std::vector<std::pair<std::string, ParameterRef>> draw_tables(std::vector<float>& values, int64_t outputs,
                                                              int64_t window) {
  const int64_t terms = draw_number(1, 3);
  const int fan_in = draw_number(1, 3);
  const auto levels = std::ssize(values);
  const int64_t entries = std::lround(std::pow(levels, fan_in));
  const bool steps = terms > 1 || draw_number(0, 1) == 1;
  const int results = draw_number(2, 5);
  std::vector<std::pair<std::string, ParameterRef>> parameters;
  const auto add = [&](const char* name, Tensor tensor) {
    parameters.emplace_back(name, Parameter{std::move(tensor), false});
  };
  add("inputs", drawn<int64_t>(DType::kInt64, {outputs, terms, fan_in}, 0, static_cast<int>(window) - 1));
  add("tables",
      drawn<int32_t>(DType::kInt32, {outputs, terms, entries}, steps ? -99 : 0, steps ? 99 : results - 1));
  add("input_values", Tensor::from<float>({levels}, values));
  values = draw_values(results);
  if (steps) {
    Tensor thresholds = drawn<int32_t>(DType::kInt32, {outputs, results - 1}, -150, 150);
    for (int64_t o = 0; o < outputs; ++o)
      std::ranges::sort(thresholds.values<int32_t>().subspan(static_cast<size_t>(o * (results - 1)),
                                                             static_cast<size_t>(results - 1)));
    add("thresholds", std::move(thresholds));
  }
  add("output_values", Tensor::from<float>({results}, values));
  return parameters;
}

/// Convolutions, a view and layers of rows; its input is rounded to steps of 1/4 in [-1, 3/4].
Graph draw_table_network() {
  Graph graph("tables");
  const int64_t channels = draw_number(1, 3);
  const int64_t height = draw_number(3, 5);
  const int64_t width = draw_number(3, 5);
  const bool is_image = draw_number(0, 1) == 1;
  graph.add_input("x", is_image ? Shape{1, channels, height, width} : Shape{1, channels, width});
  const std::string convolution = is_image ? "lut_conv2d" : "lut_conv1d";
  std::vector<float> values;
  for (int code = -4; code < 4; ++code) values.push_back(static_cast<float>(code) / 4);
  Table attributes = {{"kernel_size", 2}, {"padding", draw_number(0, 1)}, {"stride", draw_number(1, 2)}};
  const int64_t planes = draw_number(1, 4);
  Node conv{.name = "conv",
            .op = convolution,
            .mase_type = MaseType::kModuleRelatedFunc,
            .inputs = {NodeInput::of("x")},
            .attributes = std::move(attributes),
            .parameters = draw_tables(values, planes, channels * (is_image ? 4 : 2))};
  conv.quantization["data_in_0"] = parse_quant_spec_text(
      draw_number(0, 1) == 0 ? "fixed:width=3,frac_width=2" : "affine:width=3,scale=0.25,symmetric=true");
  graph.add(std::move(conv));
  graph.add({.name = "flatten",
             .op = "flatten",
             .inputs = {NodeInput::of("conv")},
             .attributes = {{"start_dim", 1}, {"end_dim", -1}}});
  std::string last = "flatten";
  for (int layer = 0; layer < draw_number(1, 2); ++layer) {
    const int64_t window = infer_shapes(graph).at(last).shape[1];
    Node node{.name = "lut" + std::to_string(layer),
              .op = "lut",
              .mase_type = MaseType::kModuleRelatedFunc,
              .inputs = {NodeInput::of(last)},
              .parameters = draw_tables(values, draw_number(1, 5), window)};
    last = node.name;
    graph.add(std::move(node));
  }
  graph.add(
      {.name = "output", .op = "output", .mase_type = MaseType::kOutput, .inputs = {NodeInput::of(last)}});
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

RC_GTEST_PROP(TableNetworks, AreTheSameHoweverTheyAreRun, ()) {
  const Graph graph = draw_table_network();
  verify(graph);
  Shape shape = infer_shapes(graph).at("x").shape;
  shape[0] = 5;
  Tensor x = drawn<float>(DType::kFloat32, shape, -150, 150);
  for (float& value : x.values<float>()) value /= 100;
  const std::span<const Tensor> inputs(&x, 1);
  const Tensor expected = FastExecutor().compile(graph)->run(inputs).front();
  RC_ASSERT(IntegerProgram(graph).run(inputs).front().equals(expected));
  RC_ASSERT(FastProgram(graph).run(inputs).front().equals(expected));
  for (const PlannedNode& node : integer_plan(graph)) RC_ASSERT(node.engine != NodeEngine::kFloat);

  const TemporaryPath path("tables.mz");
  write_graph(path.get(), graph);
  const Graph loaded = read_graph(path.get());
  verify(loaded);
  RC_ASSERT(FastExecutor().compile(loaded)->run(inputs).front().equals(expected));
  RC_ASSERT(IntegerProgram(loaded).run(inputs).front().equals(expected));
}

}  // namespace
}  // namespace detent
