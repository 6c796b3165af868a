#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/engine/float_networks_for_test.h"

// Networks of values that are rounded to formats without codes, against the plain reference.

namespace detent {
namespace {

using RoundedLayersTest = FloatNetworkTest;

const char* drawn_format(Draw& draw, bool is_weight) {
  const std::initializer_list<const char*> formats = {"fp8_e4m3fn",
                                                      "scaled:scale=0.02",
                                                      "fp6_e3m2",
                                                      "scaled:element=fp4_e2m1,scale=0.4",
                                                      "log:width=5",
                                                      "codebook:values=-2x-0.7x-0.1x0x0.2x0.9x3",
                                                      "mx:element=e4m3,block_axis=1",
                                                      "mx:element=int8,block_size=16,block_axis=1",
                                                      "nvfp4:tensor_scale=0.001,block_axis=1",
                                                      "block_fp:width=6,block_axis=1",
                                                      "fixed:width=9,frac_width=5",
                                                      "nvfp4:block_axis=1"};
  const int64_t count = std::ssize(formats) - (is_weight ? 0 : 1);
  return *(formats.begin() + draw.of(0, count - 1));
}

void quantize_values(Draw& draw, Graph& graph) {
  draw_parameters(draw, graph);
  const bool has_requantization = draw.coin();
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node) && trait<MatrixProduct>(node) == nullptr) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      node.quantization[fmt::format("data_in_{}", i)] = parse_quant_spec_text(drawn_format(draw, false));
    if (is_weighted_sum(node)) node.quantization["weight"] = parse_quant_spec_text(drawn_format(draw, true));
    if (draw.of(0, 3) == 0)
      node.quantization["data_out_0"] = parse_quant_spec_text(drawn_format(draw, false));
  }
  if (has_requantization) graph.set_requantization(Requantization::kFloat);
}

/// Convolutions, some of them in groups or depthwise, with what follows on them, and a linear layer.
std::pair<Graph, Shape> random_network(Draw& draw) {
  const int64_t groups = draw.among({1, 1, 2, 4});
  const int64_t in = groups * draw.among({1, 3, 8, 16, 33});
  const int64_t out = groups * draw.among({4, 8, 17, 32});
  const int64_t size = draw.of(5, 9);
  GraphBuilder builder("rounded");
  NodeInput x = builder.input("x", {in, size, size});
  const std::vector<int64_t> kernel(2, draw.among({1, 3}));
  x = builder.convolution("first", x, in, out, kernel,
                          {{"padding", draw.of(0, 1)}, {"stride", draw.of(1, 2)}, {"groups", groups}});
  if (draw.coin()) x = builder.call("relu", {x});
  if (draw.coin()) x = builder.call("max_pool2d", {x}, {{"kernel_size", int64_t{2}}, {"stride", int64_t{1}}});
  const NodeInput before = x;
  x = builder.convolution("each", x, out, out, {3, 3}, {{"padding", int64_t{1}}, {"groups", out}});
  if (draw.coin()) x = builder.call("hardswish", {x});
  x = builder.call("add", {builder.convolution("last", x, out, out, {1, 1}), before});
  x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", int64_t{1}}});
  x = builder.call("flatten", {x}, {{"start_dim", int64_t{1}}});
  Graph graph = builder.finish(builder.linear("fc", x, out, 10));
  quantize_values(draw, graph);
  return std::pair(std::move(graph), Shape{draw.of(1, 3), in, size, size});
}

TEST_F(RoundedLayersTest, AreEqualToTheReference) {
  constexpr uint32_t kNetworks = 60;
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto [graph, shape] = random_network(draw);
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["fake quantization"], 200);
  EXPECT_GT(kernels["convolution float"], 100);
  EXPECT_GT(kernels["depthwise float"], 50);
  EXPECT_EQ(kernels["reference"], 0);
  EXPECT_LT(kernels["float"], 10) << "layers whose weights are nearly all rounded to 0";
}

/// Scores of rows with each other: blocks of the second operand run down its columns.
TEST_F(RoundedLayersTest, ProductsOfTwoInputsAreEqualToTheReference) {
  KernelCounts kernels;
  for (const char* right : {"fp8_e5m2", "mx:element=e2m1,block_axis=-2", "nvfp4:tensor_scale=0.01"}) {
    SCOPED_TRACE(right);
    GraphBuilder builder("product");
    NodeInput x = builder.input("x", {70, 40});
    const NodeInput turned = builder.call("transpose", {x}, {{"dim0", int64_t{-1}}, {"dim1", int64_t{-2}}});
    Graph graph = builder.finish(builder.call("matmul", {x, turned}));
    Node& product = graph.node("matmul");
    product.quantization["data_in_0"] = parse_quant_spec_text("mx:element=e4m3");
    product.quantization["data_in_1"] = parse_quant_spec_text(right);
    Draw draw(3);
    expect_equal_on_every_target(graph, draw.tensor({2, 70, 40}), kernels);
  }
  EXPECT_GT(kernels["product float"], 0);
  EXPECT_EQ(kernels["reference"] + kernels["float"], 0);
}

/// Where values lie with their channels last, they are rounded there.
TEST_F(RoundedLayersTest, MoveNoValuesBetweenLayers) {
  GraphBuilder builder("chain");
  NodeInput x = builder.input("x", {32, 6, 6});
  x = builder.call("relu", {builder.convolution("a", x, 32, 48, {3, 3})});
  Graph graph = builder.finish(builder.convolution("b", x, 48, 16, {3, 3}));
  for (const char* name : {"a", "b"}) {
    graph.node(name).quantization["data_in_0"] = parse_quant_spec_text("mx:block_axis=1");
    graph.node(name).quantization["weight"] = parse_quant_spec_text("mx:element=e2m1,block_axis=1");
  }
  Draw draw(5);
  draw_parameters(draw, graph);
  KernelCounts kernels;
  expect_equal_on_every_target(graph, draw.tensor({1, 32, 6, 6}), kernels);
  const int programs = kernels["convolution float"] / 2;
  EXPECT_EQ(kernels["fake quantization"], 2 * programs);
  EXPECT_EQ(kernels["copy"], programs) << "of the input";
}

/// Values of formats that round each by itself are rounded with the sums, and once for all layers that read
/// them.
TEST_F(RoundedLayersTest, RoundOnce) {
  GraphBuilder builder("fire");
  NodeInput x = builder.input("x", {3, 6, 6});
  x = builder.call("relu", {builder.convolution("a", x, 3, 48, {3, 3})});
  x = builder.call("relu", {builder.convolution("b", x, 48, 32, {1, 1})});
  const NodeInput left = builder.convolution("left", x, 32, 16, {1, 1});
  Graph graph = builder.finish(builder.call("cat", {left, builder.convolution("right", x, 32, 16, {1, 1})}));
  for (const char* name : {"a", "b", "left", "right"})
    graph.node(name).quantization["data_in_0"] = parse_quant_spec_text("scaled:scale=0.02");
  Draw draw(6);
  draw_parameters(draw, graph);
  KernelCounts kernels;
  expect_equal_on_every_target(graph, draw.tensor({2, 3, 6, 6}), kernels);
  EXPECT_EQ(kernels["fake quantization"] * 2, kernels["convolution float"])
      << "of the input, and of b's result";
}

}  // namespace
}  // namespace detent
