#include <array>
#include <limits>

#include "detent/engine/float_networks_for_test.h"

// Layers in float32 by kernels, and by the plain reference, whose operators are those of the simulation.

namespace detent {
namespace {

class FloatLayers : public FloatNetworkTest {};

NodeInput batch_norm(GraphBuilder& builder, const std::string& name, const NodeInput& x, int64_t channels) {
  const Shape shape = {channels};
  return builder.layer("batch_norm2d", name, {x},
                       {{"weight", shape}, {"bias", shape}, {"running_mean", shape}, {"running_var", shape}});
}

/// Random epilogue of a layer of `channels` channels whose windows keep the size.
NodeInput followed(Draw& draw, GraphBuilder& builder, NodeInput x, int64_t channels) {
  if (draw.coin()) x = batch_norm(builder, "norm", x, channels);
  const char* const ways[] = {"relu", "relu6", "silu", "gelu", "sigmoid", "hardswish"};
  const int64_t way = draw.of(0, 8);
  if (way < std::ssize(ways)) x = builder.call(ways[way], {x});
  if (draw.coin()) {
    const NodeInput other = builder.convolution("other", x, channels, channels, {1, 1});
    x = draw.coin() ? builder.call("add", {x, other}) : builder.call("add", {other, x});
    if (draw.coin()) x = builder.call("relu", {x});
  }
  return x;
}

NodeInput between(Draw& draw, GraphBuilder& builder, const NodeInput& x) {
  const Value kernel = List{Value(draw.of(1, 2)), Value(draw.of(1, 2))};
  switch (draw.of(0, 5)) {
    case 0:
      return builder.call("max_pool2d", {x}, {{"kernel_size", kernel}, {"padding", int64_t{0}}});
    case 1:
      return builder.call("avg_pool2d", {x}, {{"kernel_size", kernel}});
    case 2:
      return builder.call("cat", {x, x}, {{"dim", 2}});
    case 3:
      return builder.call("mul", {x, x});
    case 4:
      return builder.call("tanh", {x});
    default:
      return x;
  }
}

TEST_F(FloatLayers, AreThoseOfTheReference) {
  constexpr uint32_t kNetworks = 150;
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t groups = draw.among({1, 1, 1, 2, 6});
    const int64_t in = groups * draw.among({1, 3, 17});
    const int64_t out = draw.coin() ? in : groups * draw.among({1, 5, 35});
    const auto two = [&](int64_t low, int64_t high) {
      return Value(List{Value(draw.of(low, high)), Value(draw.of(low, high))});
    };
    const Shape sample = {in, draw.of(6, 9), draw.of(6, 9)};
    GraphBuilder builder("float");
    NodeInput x = builder.input("x", sample);
    x = builder.convolution("conv", x, in, out, {draw.of(1, 3), draw.of(1, 3)},
                            {{"stride", two(1, 2)}, {"padding", two(0, 2)}, {"groups", groups}}, draw.coin());
    x = followed(draw, builder, x, out);
    x = between(draw, builder, x);
    if (draw.coin()) x = batch_norm(builder, "norm_after", x, out);
    if (draw.coin()) x = builder.call("add", {x, builder.call("relu6", {x})});
    x = builder.convolution("last", x, out, 7, {1, 2}, {{"padding", int64_t{1}}, {"dilation", two(1, 2)}});
    x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", int64_t{1}}});
    x = builder.call("flatten", {x}, {{"start_dim", 1}});
    Graph graph = builder.finish(builder.call("relu", {builder.linear("head", x, 7, draw.among({3, 40}))}));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  for (const char* kernel : {"convolution float", "depthwise float", "linear float", "largest float",
                             "mean float", "moved values", "elements float"})
    EXPECT_GT(kernels[kernel], 10) << kernel;
}

/// Taps that only meet the border are left out; not where a weight times 0, or 0 after -0, would show.
TEST_F(FloatLayers, OfWideDilationsAreThoseOfTheReference) {
  constexpr uint32_t kNetworks = 60;
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto dims = static_cast<size_t>(draw.of(1, 3));
    const int64_t channels = draw.among({5, 32, 130, 300});
    Shape sample = {channels};
    List padding, dilation, stride;
    Shape kernel;
    for (size_t d = 0; d < dims; ++d) {
      sample.push_back(draw.of(3, dims == 3 ? 5 : 15));
      const int64_t apart = draw.of(4, 12);
      kernel.push_back(draw.of(2, 3));
      padding.emplace_back(kernel.back() == 2 ? (apart + 1) / 2 : apart);
      dilation.emplace_back(apart);
      stride.emplace_back(draw.of(1, 2));
    }
    GraphBuilder builder("wide");
    const NodeInput x = builder.input("x", sample);
    NodeInput y =
        builder.convolution("conv", x, channels, channels, kernel,
                            {{"stride", stride}, {"padding", padding}, {"dilation", dilation}}, true);
    if (draw.coin()) y = builder.call("add", {builder.call("relu", {y}), builder.call("mul", {y, y})});
    Graph graph = builder.finish(builder.call("silu", {y}));
    draw_parameters(draw, graph);
    const auto first_of = [&](const char* name) -> float& {
      return graph.node("conv").find_parameter(name)->tensor.values<float>()[0];
    };
    if (seed % 10 == 3) first_of("weight") = std::numeric_limits<float>::infinity();
    if (seed % 10 == 5) first_of("bias") = -0.0F;
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["convolution float"], 2 * static_cast<int>(kNetworks));
}

/// Positions that lie a power of two apart are copied first; weights take turns in parts.
TEST_F(FloatLayers, OfManyChannelsAreThoseOfTheReference) {
  KernelCounts kernels;
  for (const int64_t channels : {256, 512, 1024}) {
    Draw draw(static_cast<uint32_t>(channels));
    GraphBuilder builder("many");
    NodeInput x = builder.input("x", {channels, 6, 5});
    x = builder.call("relu", {builder.convolution("spread", x, channels, 48, {3, 3}, {{"padding", 1}})});
    x = builder.convolution("one", x, 48, channels, {1, 1});
    if (channels == 512)
      x = builder.convolution("third", x, channels, channels, {1, 1}, {{"stride", 2}, {"padding", 1}});
    Graph graph = builder.finish(builder.convolution("back", x, channels, 20, {1, 1}));
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({2, channels, 6, 5}), kernels);
  }
}

TEST_F(FloatLayers, OverOneAndThreeDimensionsAreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const bool three = draw.coin();
    const Shape sample = three ? Shape{4, 4, 5, 6} : Shape{4, 21};
    const std::vector<int64_t> kernel(three ? 3 : 1, draw.of(1, 3));
    GraphBuilder builder("dimensions");
    NodeInput x = builder.input("x", sample);
    x = builder.convolution("conv", x, 4, 10, kernel,
                            {{"padding", draw.of(1, 2)}, {"stride", draw.of(1, 2)}});
    x = builder.call(draw.coin() ? "relu" : "silu", {x});
    if (draw.coin()) {
      List border;
      for (size_t d = 0; d < 2 * sample.size() - 2; ++d) border.push_back(Value(draw.of(0, 2)));
      x = builder.call("pad", {x}, {{"pad", std::move(border)}});
    }
    if (three && draw.coin()) x = builder.call("max_pool3d", {x}, {{"kernel_size", 2}, {"stride", 1}});
    if (three && draw.coin()) x = builder.call("avg_pool3d", {x}, {{"kernel_size", 1}, {"stride", 1}});
    x = builder.convolution("after", x, 10, 10, kernel, {{"padding", 2}, {"groups", draw.among({1, 2, 10})}});
    Graph graph = builder.finish(builder.call("flatten", {x}, {{"start_dim", 1}}));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), 2);
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["convolution float"], 30);
}

/// Rows that several windows read are reduced once; 0 and -0, and NaN, are told apart in the reference's
/// order.
TEST_F(FloatLayers, LargestOfOverlappingWindowsAreThoseOfTheReference) {
  constexpr std::array kSpecial = {0.0F, -0.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F};
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t channels = draw.among({3, 16, 40});
    const int64_t kernel = draw.among({3, 5, 9});
    GraphBuilder builder("pools");
    const NodeInput x = builder.input("x", {channels, draw.of(5, 9), draw.of(5, 12)});
    const Table attributes = {{"kernel_size", kernel}, {"stride", 1}, {"padding", kernel / 2}};
    const NodeInput once = builder.call("max_pool2d", {x}, attributes);
    const NodeInput twice = builder.call("max_pool2d", {once}, attributes);
    const Graph graph = builder.finish(builder.call("cat", {x, once, twice}, {{"dim", 1}}));
    Shape shape = graph.input_shapes().begin()->second;
    shape[0] = draw.of(1, 2);
    Tensor input = draw.tensor(shape);
    for (float& value : input.values<float>())
      if (draw.of(0, 3) == 0) value = kSpecial[static_cast<size_t>(draw.of(0, 3))];
    expect_equal_on_every_target(graph, input, kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels["largest float"], 48);
}

/// The packed weights are all that is left; an observed run gets them back from there.
TEST_F(FloatLayers, GiveTheirWeightsBack) {
  for (const int64_t groups : {1, 2, 6}) {
    Draw draw(static_cast<uint32_t>(groups));
    GraphBuilder builder("observed");
    NodeInput x = builder.input("x", {6, 5, 5});
    const int64_t outputs = groups == 2 ? 42 : 6;
    x = builder.convolution("conv", x, 6, outputs, {3, 2}, {{"groups", groups}});
    x = builder.call("flatten", {x}, {{"start_dim", 1}});
    Graph graph = builder.finish(builder.linear("head", x, 12 * outputs, 35));
    draw_parameters(draw, graph);
    const Tensor input = draw.tensor({2, 6, 5, 5});
    const std::span inputs(&input, 1);
    const FastProgram program(graph);
    int seen = 0;
    const std::vector<Tensor> results =
        program.run(inputs, {[&](const Node&, std::string_view, const Tensor&) { ++seen; }});
    EXPECT_GT(seen, 3);
    EXPECT_TRUE(results[0].equals(IntegerProgram(graph).run(inputs)[0])) << groups;
    EXPECT_TRUE(results[0].equals(program.run(inputs)[0])) << groups;
  }
}

/// Weights that are rounded and stay in float, and layers in integers before and after.
TEST_F(FloatLayers, BetweenLayersInIntegersAreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder builder("mixed");
    NodeInput x = builder.input("x", {6, 7, 5});
    x = builder.call("relu", {builder.convolution("first", x, 6, 12, {3, 3}, {{"padding", 1}})});
    x = builder.call("relu", {builder.convolution("middle", x, 12, 12, {3, 3}, {{"padding", 1}})});
    x = builder.convolution("last", x, 12, 5, {3, 3});
    Graph graph = builder.finish(x);
    draw_parameters(draw, graph);
    quantize_graph(draw, graph);
    auto& middle = graph.node("middle").quantization;
    middle.clear();
    middle["weight"] = parse_quant_spec_text("fp8_e4m3fn");
    expect_equal_on_every_target(graph, draw.tensor({2, 6, 7, 5}), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["convolution float"], 30);
}

std::map<std::string, std::string> kernels_by_node(const Graph& graph, const Tensor& input) {
  std::map<std::string, std::string> kernels;
  for (const StepProfile& step : FastProgram(graph).profile(std::span(&input, 1), 1))
    kernels[step.nodes] += step.kernel + ";";
  return kernels;
}

/// Nodes that compute on parameters alone do so when a plan is made.
TEST_F(FloatLayers, DoNotComputeParametersInEachRun) {
  GraphBuilder builder("biases");
  const NodeInput x = builder.input("x", {5, 6});
  const NodeInput table = builder.parameter("table", {5, 6});
  const NodeInput biases = builder.call("mul", {builder.call("exp", {table}), table});
  Draw draw(3);
  Graph graph = builder.finish(builder.call("add", {x, biases}));
  draw_parameters(draw, graph);
  KernelCounts kernels;
  expect_equal_on_every_target(graph, draw.tensor({2, 5, 6}), kernels);
  EXPECT_GT(kernels["pairs float"], 0);
  EXPECT_EQ(kernels["elements float"], 0);
  const auto by_node = kernels_by_node(graph, draw.tensor({2, 5, 6}));
  EXPECT_FALSE(by_node.contains("exp"));
}

/// As capsules do: each matrix meets a column of every sample.
TEST_F(FloatLayers, MultiplyMatricesByManyColumns) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t matrices = draw.of(1, 7);
    const int64_t rows = draw.among({7, 8, 16, 19, 50});
    const int64_t depth = draw.among({1, 8, 130});
    const int64_t columns = draw.among({1, 1, 2});
    GraphBuilder builder("capsules");
    const NodeInput x = builder.input("x", {matrices, depth, columns});
    NodeInput weights = builder.parameter("weights", {1, matrices, rows, depth});
    if (draw.coin()) {
      weights = builder.call("transpose", {builder.parameter("turned", {1, matrices, depth, rows})},
                             {{"dim0", -2}, {"dim1", -1}});
    }
    NodeInput y = builder.call("matmul", {weights, x});
    if (draw.coin())
      y = builder.call("matmul", {y, builder.call("transpose", {x}, {{"dim0", -2}, {"dim1", -1}})});
    Graph graph = builder.finish(y);
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 9), matrices, depth, columns}), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["product float"], 30);
}

/// Zeros around positions, which only a layer reads, are its padding.
TEST_F(FloatLayers, TakePadsAsTheirPadding) {
  GraphBuilder builder("causal");
  const auto padded = [&](const NodeInput& x) {
    return builder.call("pad", {x}, {{"pad", List{Value(4), Value(0)}}});
  };
  NodeInput x = builder.input("x", {6, 20});
  const NodeInput shared = padded(builder.convolution("first", padded(x), 6, 6, {3}, {{"dilation", 2}}));
  x = builder.convolution("second", shared, 6, 6, {3}, {{"dilation", 2}});
  Graph graph = builder.finish({x, builder.call("tanh", {shared})});
  Draw draw(3);
  draw_parameters(draw, graph);
  KernelCounts kernels;
  const Tensor input = draw.tensor({2, 6, 20});
  expect_equal_on_every_target(graph, input, kernels);
  const auto steps = kernels_by_node(graph, input);
  EXPECT_TRUE(steps.contains("pad, first")) << "the pad is a step of its own";
  EXPECT_TRUE(steps.contains("second")) << "a pad that another node reads is no padding";
}

/// A block of ConvNeXt: rows of channels are the positions of an image, and back.
TEST_F(FloatLayers, GoToRowsOfChannelsAndBackWithoutACopy) {
  GraphBuilder builder("rows");
  const auto order = [](std::initializer_list<int64_t> dims) {
    List list;
    for (const int64_t d : dims) list.push_back(Value(d));
    return Table{{"dims", std::move(list)}};
  };
  const NodeInput x =
      builder.convolution("stem", builder.input("x", {3, 8, 10}), 3, 24, {2, 2}, {{"stride", 2}});
  NodeInput y = builder.convolution("depthwise", x, 24, 24, {3, 3}, {{"padding", 1}, {"groups", 24}});
  y = builder.call("permute", {y}, order({0, 2, 3, 1}));
  y = builder.call("gelu", {builder.linear("wide", y, 24, 48)});
  y = builder.call("permute", {builder.linear("narrow", y, 48, 24)}, order({0, 3, 1, 2}));
  y = builder.call("add", {x, y});
  y = builder.call("relu", {builder.convolution("after", y, 24, 5, {3, 3}, {{"padding", 1}})});
  NodeInput z =
      builder.call("permute", {builder.call("permute", {y}, order({0, 2, 3, 1}))}, order({0, 3, 1, 2}));
  z = builder.convolution("last", builder.call("tanh", {z}), 5, 5, {3, 3}, {{"padding", 1}});
  Graph graph = builder.finish({z, y});
  Draw draw(4);
  draw_parameters(draw, graph);
  KernelCounts kernels;
  expect_equal_on_every_target(graph, draw.tensor({2, 3, 8, 10}), kernels);
  EXPECT_EQ(kernels["moved values"], 0);
}

/// 2^-127 times 2^100 would show.
TEST_F(FloatLayers, CountSubnormalParametersAsZeros) {
  GraphBuilder builder("subnormal");
  NodeInput x = builder.input("x", {2, 3, 3});
  x = builder.convolution("conv", x, 2, 5, {1, 1});
  x = builder.convolution("depthwise", x, 5, 5, {1, 1}, {{"groups", 5}});
  x = batch_norm(builder, "norm", x, 5);
  Graph graph =
      builder.finish(builder.linear("head", builder.call("flatten", {x}, {{"start_dim", 1}}), 45, 3));
  Draw draw(1);
  draw_parameters(draw, graph);
  const Tensor input = draw.tensor({1, 2, 3, 3}, 0x1p100F);
  KernelCounts kernels;
  for (const char* name : {"conv", "depthwise", "norm", "head"}) {
    Graph small = graph;
    Graph none = graph;
    for (auto& [key, parameter] : small.node(name).parameters)
      std::ranges::fill(parameter->tensor.values<float>(), key == "running_var" ? 1.0F : -0x1p-127F);
    for (auto& [key, parameter] : none.node(name).parameters)
      std::ranges::fill(parameter->tensor.values<float>(), key == "running_var" ? 1.0F : 0.0F);
    expect_equal_on_every_target(small, input, kernels);
    EXPECT_TRUE(IntegerProgram(small).run({&input, 1})[0].equals(IntegerProgram(none).run({&input, 1})[0]))
        << name;
  }
}

}  // namespace
}  // namespace detent
