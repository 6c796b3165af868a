#include <gmock/gmock.h>

#include "detent/engine/float_networks_for_test.h"

// Functions in float32 of values that bytes have, rounded to bytes again, are tables, with the numbers of the
// plain reference; and what all values are moved to before they are rounded.

namespace detent {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;

class ByteFunctions : public FloatNetworkTest {
 protected:
  /// With `x` and what `reader` takes as bytes.
  static Graph quantized(Graph graph, const char* input, const char* reader) {
    graph.node("x").quantization["data_out_0"] = parse_quant_spec_text(input);
    Node& node = graph.node(reader);
    node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.01,zero_point=3");
    node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.02");
    node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.05,zero_point=-7");
    graph.set_requantization(Requantization::kFloat);
    return graph;
  }
  static NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }

  static constexpr const char* kBytes = "affine:signed=false,scale=0.02,zero_point=100";
};

TEST_F(ByteFunctions, AreTables) {
  for (const bool shows_middle : {false, true}) {
    GraphBuilder b("functions");
    const NodeInput x = b.input("x", {6, 4, 5});
    const NodeInput y = b.call("erf", {b.call("div", {x, number(0.7)})});
    const NodeInput z = b.call("add", {number(0.5), b.call("relu", {y})});
    const NodeInput last = b.linear("fc", z, 5, 8);
    Graph graph = shows_middle ? b.finish(std::vector{last, y}) : b.finish(last);
    Draw draw(3);
    draw_parameters(draw, graph);
    KernelCounts kernels;
    expect_equal_on_every_target(quantized(std::move(graph), kBytes, "fc"), draw.tensor({2, 6, 4, 5}, 3),
                                 kernels);
    EXPECT_EQ(kernels["elements float"] + kernels["pairs float"], shows_middle ? 2 : 0);
    EXPECT_THAT(kernels, Contains(Key(testing::StartsWith("table"))));
  }
}

/// Codes of which the function is NaN have no entry: where they come, the error is that of the reference.
TEST_F(ByteFunctions, WithoutCodesForSomeBytesAreComputed) {
  GraphBuilder b("functions");
  const NodeInput x = b.input("x", {5});
  Graph graph = b.finish(b.linear("fc", b.call("log", {b.call("add", {x, number(0.125)})}), 5, 3));
  Draw draw(4);
  draw_parameters(draw, graph);
  const Graph ready = quantized(std::move(graph), kBytes, "fc");
  KernelCounts kernels;
  expect_equal_on_every_target(ready, Tensor::from<float>({1, 5}, {0.1F, 0.5F, 1, 2, 3}), kernels);
  EXPECT_THAT(kernels, Contains(Key("elements float")));
  const Tensor below = Tensor::from<float>({1, 5}, {0.1F, -1, 1, 2, 3});
  EXPECT_THROW(FastProgram(ready).run(std::span(&below, 1)), Error);
}

TEST_F(ByteFunctions, ComeBeforeWhatMovesAllOfThem) {
  GraphBuilder b("moves");
  const NodeInput x = b.input("x", {4, 5, 6});
  const NodeInput y = b.call("softmax", {x}, {{"dim", int64_t{-1}}});
  const NodeInput turned = b.call("permute", {y}, {{"dims", Value(std::vector<int64_t>{0, 3, 1, 2})}});
  Graph graph = b.finish(b.convolution("conv", turned, 6, 3, {1, 1}));
  Draw draw(5);
  draw_parameters(draw, graph);
  for (const char* codes : {"affine:scale=0.01,zero_point=3", "affine:width=12,scale=0.001"}) {
    Graph ready = quantized(graph, kBytes, "conv");
    ready.node(turned.node).quantization["data_out_0"] = parse_quant_spec_text(codes);
    ready.node("conv").quantization["data_in_0"] = parse_quant_spec_text(codes);
    KernelCounts kernels;
    expect_equal_on_every_target(ready, draw.tensor({2, 4, 5, 6}), kernels);
    EXPECT_THAT(kernels, Not(Contains(Key("reference"))));
  }
}

}  // namespace
}  // namespace detent
