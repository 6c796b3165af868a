#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

// The passes that simplify a network, held to what it computes.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

TEST(GraphRewriting, BatchNormsOfResidualNetworksFold) {
  for (const char* model : {"resnet20", "mobilenet_v2"}) {
    PassBench bench(build_model(model, {3, 32, 32}, 10));
    const std::vector<float> before = bench.outputs(bench.graph);
    const auto unfused = bench.graph.deep_copy();
    bench.run_passes("[passes.fuse_batch_norm]");
    EXPECT_THAT(bench.graph.node_names(), Not(testing::Contains(HasSubstr("bn")))) << model;
    expect_close(before, bench.outputs(bench.graph));
    EXPECT_LT(bench.graph.parameter_count(), unfused.parameter_count());
    EXPECT_EQ(bench.outputs(unfused), before) << "the copy shares no parameters";
    EXPECT_THAT(bench.reported, HasSubstr("folded; outputs differ by at most"));
  }
}

TEST(GraphRewriting, BatchNormsFoldIntoEveryKindOfLayer) {
  GraphBuilder builder("layers");
  NodeInput x = builder.input("x", {4, 9, 9});
  x = builder.layer("convtranspose2d", "up", {x}, {{"weight", {4, 3, 2, 2}}, {"bias", {6}}},
                    {{"groups", 2}, {"stride", 2}});
  x = builder.batch_norm("batch_norm2d", "bn1", x, 6);
  x = builder.convolution("depthwise", x, 6, 6, {3, 3}, {{"groups", 6}}, false);
  x = builder.batch_norm("batch_norm2d", "bn2", x, 6);
  x = builder.call("flatten", {x});
  x = builder.linear("fc", x, int64_t{6} * 16 * 16, 7);
  x = builder.batch_norm("batch_norm1d", "bn3", x, 7);
  PassBench bench(builder.finish(x));
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fuse_batch_norm]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "up", "depthwise", "flatten", "fc", "output"));
  expect_close(before, bench.outputs(bench.graph));
}

/// Layers that had one weight together have one each afterwards.
TEST(GraphRewriting, TiedLayersChangeByThemselves) {
  for (const char* pass : {"fuse_batch_norm", "equalize"}) {
    GraphBuilder builder("tied");
    const NodeInput x = builder.input("x", {7});
    const NodeInput first = builder.linear("first", x, 7, 7);
    NodeInput y = first;
    if (std::string_view(pass) == "fuse_batch_norm") y = builder.batch_norm("batch_norm1d", "bn1", y, 7);
    y = builder.call("relu", {y});
    y = builder.tied_layer("linear", "second", {y}, "weight", first);
    y = builder.batch_norm("batch_norm1d", "bn2", y, 7);
    PassBench bench(builder.finish(y));
    const std::vector<float> before = bench.outputs(bench.graph);
    bench.run_passes(fmt::format("[passes.{}]", pass));
    expect_close(before, bench.outputs(bench.graph));
    const Node& one = bench.graph.node("first");
    EXPECT_FALSE(one.find_parameter("weight")->tensor.equals(
        bench.graph.node("second").find_parameter("weight")->tensor))
        << pass;
  }
}

TEST(GraphRewriting, BatchNormsFoldIntoConvolutionsOfVolumes) {
  GraphBuilder builder("volumes");
  NodeInput x = builder.input("x", {2, 4, 5, 6});
  x = builder.convolution("conv", x, 2, 6, {2, 3, 1}, {{"groups", 2}}, false);
  x = builder.batch_norm("batch_norm3d", "bn", x, 6);
  PassBench bench(builder.finish(x));
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fuse_batch_norm]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "conv", "output"));
  expect_close(before, bench.outputs(bench.graph));
}

TEST(GraphRewriting, BatchNormsThatCannotFoldStayAndSayWhy) {
  GraphBuilder builder("stubborn");
  const NodeInput x = builder.input("x", {2, 5, 5});
  const NodeInput first = builder.batch_norm("batch_norm2d", "bn0", x, 2);
  const NodeInput shared = builder.convolution("conv1", first, 2, 2, {3, 3}, {{"padding", 1}});
  const NodeInput second = builder.batch_norm("batch_norm2d", "bn1", shared, 2);
  const NodeInput quantized = builder.convolution("conv2", second, 2, 2, {3, 3}, {{"padding", 1}});
  const NodeInput third = builder.batch_norm("batch_norm2d", "bn2", quantized, 2);
  PassBench bench(builder.finish(builder.call("add", {third, shared})));
  bench.graph.node("conv2").quantization["weight"] = parse_quant_spec_text("fixed:width=8,frac_width=6");
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fuse_batch_norm]");
  EXPECT_EQ(bench.outputs(bench.graph), before);
  EXPECT_THAT(bench.reported, HasSubstr("bn0 stays: x is no convolution or linear layer"));
  EXPECT_THAT(bench.reported, HasSubstr("bn1 stays: conv1 has other readers"));
  EXPECT_THAT(bench.reported, HasSubstr("bn2 stays: conv2 is quantized"));
  EXPECT_THAT(bench.reported, HasSubstr("0 of 3 folded"));
}

TEST(GraphRewriting, ADifferenceBeyondTheToleranceIsAnError) {
  PassBench bench(build_model("resnet20", {3, 32, 32}, 10));
  EXPECT_THAT(bench.error_of("[passes.fuse_batch_norm]\ntolerance = 0.0"),
              HasSubstr("t.toml, [passes.fuse_batch_norm]: the outputs of 16 samples differ by"));
}

/// Brevitas writes its quantization as divisions and roundings of a float network.
TEST(GraphRewriting, ADifferenceOfANetworkThatRoundsSaysSo) {
  GraphBuilder builder("rounding");
  const NodeInput x = builder.input("x", {2, 5, 5});
  const NodeInput layer = builder.convolution("conv", x, 2, 2, {3, 3}, {{"padding", 1}});
  const NodeInput norm = builder.batch_norm("batch_norm2d", "bn", layer, 2);
  PassBench bench(builder.finish(builder.call("add", {norm, builder.call("round", {norm})})));
  EXPECT_THAT(bench.error_of("[passes.fuse_batch_norm]\ntolerance = 0.0"),
              HasSubstr("; it rounds its own values (nodes round)"));
}

TEST(GraphRewriting, DeadNodesGo) {
  GraphBuilder builder("dead");
  const NodeInput x = builder.input("x", {6});
  const NodeInput kept = builder.linear("fc", x, 6, 6);
  builder.call("relu", {builder.linear("unused", x, 6, 3)});
  PassBench bench(builder.finish(kept));
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.remove_dead_nodes]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "fc", "output"));
  EXPECT_EQ(bench.outputs(bench.graph), before);
  EXPECT_THAT(bench.reported, HasSubstr("2 of 5 nodes removed"));
}

TEST(GraphRewriting, ConstantsAreComputedOnce) {
  GraphBuilder builder("constants");
  const NodeInput x = builder.input("x", {6});
  const NodeInput owned = builder.call("tanh", {builder.call("relu", {builder.parameter("table", {1, 6})})});
  PassBench bench(builder.finish(builder.call("mul", {builder.call("add", {x, owned}), x})));
  const auto table = bench.graph.node("table").find_parameter("value")->tensor.values<float>();
  std::iota(table.begin(), table.end(), -2.5F);
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fold_constants]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "tanh", "add", "mul", "output"));
  EXPECT_EQ(bench.graph.node("tanh").op, "get_attr");
  EXPECT_EQ(bench.outputs(bench.graph), before);
  EXPECT_THAT(bench.reported, HasSubstr("fold_constants: 2 nodes computed"));
}

TEST(GraphRewriting, ComputedWeightsBecomeThoseOfLayers) {
  GraphBuilder builder("standardized");
  const NodeInput x = builder.input("x", {2, 4});
  const auto computed = [&](const std::string& name, const Shape& shape) {
    return builder.call("tanh", {builder.parameter(name, shape)});
  };
  NodeInput y = builder.call("convolution", {x, computed("kernel", {3, 2, 3}), computed("shift", {3})},
                             {{"padding", Value(std::vector<int64_t>{1})}});
  y = builder.call("convolution", {y, computed("spread", {3, 2, 2})},
                   {{"transposed", true}, {"stride", Value(std::vector<int64_t>{2})}});
  PassBench bench(builder.finish(builder.call("matmul", {y, computed("matrix", {8, 5})})));
  float next = -1;
  for (Node& node : bench.graph.nodes())
    if (Parameter* value = node.find_parameter("value"))
      for (float& element : value->tensor.values<float>()) element = next += 0.02F;
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fold_constants]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "convolution", "convolution_1", "matmul", "output"));
  EXPECT_EQ(bench.graph.node("convolution").op, "conv1d");
  EXPECT_NE(bench.graph.node("convolution").find_parameter("bias"), nullptr);
  EXPECT_EQ(bench.graph.node("convolution_1").op, "convtranspose1d");
  EXPECT_EQ(bench.graph.node("matmul").op, "linear");
  EXPECT_THAT(bench.outputs(bench.graph), Pointwise(FloatNear(1e-5F), before));
  EXPECT_THAT(bench.reported, HasSubstr("4 nodes computed, 3 made layers by their weights"));
}

TEST(GraphRewriting, WhatChangesNothingGoes) {
  GraphBuilder builder("neutral");
  const NodeInput x = builder.input("x", {4});
  NodeInput y = builder.call("add", {x, constant(0)});
  y = builder.call("mul", {builder.parameter("one", {1}), builder.call("relu", {y})});
  y = builder.call("sub", {builder.call("div", {y, constant(1)}), constant(0)});
  y = builder.call("sub", {constant(0), y});
  y = builder.call("add", {y, builder.parameter("row", {1, 1, 1})});  // has more dimensions
  PassBench bench(builder.finish(y));
  bench.graph.node("one").find_parameter("value")->tensor.values<float>()[0] = 1;
  bench.graph.node("row").find_parameter("value")->tensor.values<float>()[0] = 0;
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fold_constants]");
  EXPECT_THAT(bench.graph.node_names(), ElementsAre("x", "relu", "sub_1", "row", "add_1", "output"));
  EXPECT_EQ(bench.outputs(bench.graph), before);
  EXPECT_THAT(bench.reported, HasSubstr("fold_constants: 0 nodes computed, 4 removed that change nothing"));
}

TEST(GraphRewriting, PartsOfAConstantAreComputedWhereTheyAreRead) {
  GraphBuilder builder("parts");
  const NodeInput x = builder.input("x", {2});
  const NodeInput parts = builder.call("split", {builder.parameter("table", {1, 5})},
                                       {{"sizes", Value(std::vector<int64_t>{3, 2})}, {"dim", 1}});
  const NodeInput second = builder.call("relu", {NodeInput::of(parts.node, 1)});
  PassBench bench(builder.finish({builder.call("add", {x, second}), NodeInput::of(parts.node, 0)}));
  const auto table = bench.graph.node("table").find_parameter("value")->tensor.values<float>();
  std::iota(table.begin(), table.end(), -2.5F);
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes("[passes.fold_constants]");
  EXPECT_EQ(bench.graph.node("relu").op, "get_attr");
  EXPECT_EQ(bench.graph.node("split").op, "split");
  EXPECT_EQ(bench.outputs(bench.graph), before);
}

}  // namespace
}  // namespace detent
