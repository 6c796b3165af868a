#include "detent/core/sanitizers_for_test.h"
#include "detent/engine/observed_values_for_test.h"
#include "detent/engine/random_networks_for_test.h"

// Convolutions over three dimensions and transposed ones by kernels, and by the plain reference.

namespace detent {
namespace {

using Convolutions = EngineTargetTest;

/// Scales of a transposed convolution belong to dimension 1 of its weight.
void use_output_axis(Draw& draw, Node& node) {
  QuantSpec& spec = node.quantization["weight"]->spec;
  if (spec.granularity != Granularity::kChannel) return;
  spec.axis = 1;
  auto& scales = std::get<Affine>(spec.format).scale;
  scales = std::vector<float>();
  for (int64_t c = 0; c < node.find_parameter("weight")->tensor.dim(1); ++c)
    scales.push_back(static_cast<float>(draw.real(0.01, 0.1)));
}

/// All strides, paddings, dilations and groups, also those where some results take no tap at all.
TEST_F(Convolutions, TransposedOnesAreThoseOfTheReference) {
  constexpr uint32_t kNetworks = 200;
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const bool is_deep = draw.of(0, 3) == 0;
    const int64_t groups = is_deep ? draw.among({3, 17, 64, 70}) : draw.among({1, 1, 2, 5});
    const int64_t in = is_deep ? groups : groups * draw.among({1, 3, 8, 17});
    const int64_t out = is_deep ? groups : groups * draw.among({1, 4, 20, 70});
    const Value stride = List{Value(draw.of(1, 3)), Value(draw.of(1, 3))};
    const Value padding = List{Value(draw.of(0, 3)), Value(draw.of(0, 3))};
    const Value dilation = List{Value(draw.of(1, 3)), Value(draw.of(1, 2))};
    const Shape sample = {in, draw.of(1, 7), draw.of(1, 9)};
    GraphBuilder builder("transposed");
    NodeInput x = builder.input("x", sample);
    x = builder.layer("convtranspose2d", "up", {x},
                      {{"weight", {in, out / groups, draw.of(1, 5), draw.of(1, 4)}}, {"bias", {out}}},
                      {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}});
    x = builder.call("relu", {x});
    std::optional<Graph> graph;
    try {
      graph = builder.finish(builder.convolution("after", x, out, 7, {1, 3}, {{"padding", int64_t{1}}}));
      static_cast<void>(infer_shapes(*graph));
    } catch (const Error&) {
      continue;  // padding leaves nothing
    }
    quantize_graph(draw, *graph);
    use_output_axis(draw, graph->node("up"));
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_to_reference(*graph, draw.tensor(shape), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["transposed"], 100);
  EXPECT_GT(kernels["depthwise"], 20);
}

/// Zeros around a convolution's input, as TensorFlow pads before a stride of 2, and its own.
TEST_F(Convolutions, ThoseOfPaddedCodesAreThoseOfTheReference) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < fewer_under_sanitizers(100U); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(900 + seed);
    const bool is_deep = draw.coin();
    const int64_t in = is_deep ? draw.among({3, 17, 64, 70}) : draw.among({1, 3, 8, 20});
    const int64_t out = is_deep ? in : draw.among({1, 4, 20, 70});
    List border;
    for (int i = 0; i < 4; ++i) border.emplace_back(draw.of(0, 2));
    const Shape sample = {in, draw.of(3, 8), draw.of(3, 9)};
    GraphBuilder builder("padded");
    NodeInput x = builder.input("x", sample);
    if (draw.coin()) x = builder.convolution("before", x, in, in, {1, 1});
    const NodeInput padded = builder.call("pad", {x}, {{"pad", border}});
    x = builder.convolution("conv", padded, in, out, {draw.of(1, 3), draw.of(1, 3)},
                            {{"stride", List{Value(draw.of(1, 2)), Value(draw.of(1, 2))}},
                             {"padding", draw.of(0, 1)},
                             {"groups", is_deep ? in : 1}},
                            draw.coin());
    if (draw.of(0, 4) == 0)
      x = builder.call("cat",
                       {x, builder.convolution("other", padded, in, 2, {1, 1}, {{"stride", int64_t{1}}})},
                       {{"dim", 1}});
    std::optional<Graph> graph;
    try {
      graph = builder.finish(x);
      static_cast<void>(infer_shapes(*graph));
    } catch (const Error&) {
      continue;  // both read the same positions only where they have one stride
    }
    quantize_graph(draw, *graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_to_reference(*graph, draw.tensor(shape), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["depthwise"], fewer_under_sanitizers(10));
  EXPECT_GT(kernels["convolution"], fewer_under_sanitizers(20));
}

TEST_F(Convolutions, ZerosAroundCodesAreNoStep) {
  GraphBuilder builder("folded");
  const NodeInput x = builder.input("x", {8, 7, 7});
  const NodeInput padded = builder.call("pad", {x}, {{"pad", List{Value(0), Value(1), Value(0), Value(1)}}});
  Graph graph = builder.finish(
      builder.convolution("conv", padded, 8, 8, {3, 3}, {{"stride", int64_t{2}}, {"groups", int64_t{8}}}));
  Draw draw(1);
  quantize_layer(draw, graph.node("conv"));
  for (const char* operand : {"data_in_0", "data_out_0"})
    graph.node("conv").quantization[operand] = parse_quant_spec_text("affine:scale=0.03,zero_point=5");
  graph.set_requantization(Requantization::kFloat);
  const Tensor input = draw.tensor({2, 8, 7, 7});
  expect_equal_to_reference(graph, input);
  const std::vector<StepProfile> steps = FastProgram(graph).profile(std::span(&input, 1), 1);
  EXPECT_TRUE(std::ranges::any_of(steps, [](const StepProfile& step) { return step.nodes == "pad, conv"; }));
}

TEST_F(Convolutions, TransposedOnesMayGiveValues) {
  Draw draw(1);
  GraphBuilder builder("values");
  const NodeInput x = builder.input("x", {4, 5, 6});
  Graph graph = builder.finish(builder.layer(
      "convtranspose2d", "up", {x}, {{"weight", {4, 20, 3, 3}}, {"bias", {20}}}, {{"stride", int64_t{2}}}));
  quantize_graph(draw, graph);
  use_output_axis(draw, graph.node("up"));
  graph.node("up").quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.02");
  graph.node("up").quantization.erase("data_out_0");
  std::map<std::string, int> kernels;
  expect_equal_to_reference(graph, draw.tensor({2, 4, 5, 6}), &kernels);
  EXPECT_GT(kernels["transposed"], 0);
}

/// Followed by what moves, pools or adds values of five dimensions.
TEST_F(Convolutions, ThoseOverThreeDimensionsAreThoseOfTheReference) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(150U);
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(500 + seed);
    const bool is_deep = draw.of(0, 3) == 0;
    const int64_t groups = is_deep ? draw.among({3, 17, 64, 70}) : draw.among({1, 1, 2, 3});
    const int64_t in = is_deep ? groups : groups * draw.among({1, 3, 8});
    const int64_t out = is_deep ? groups : groups * draw.among({1, 4, 20, 40});
    const auto three = [&](int64_t low, int64_t high) {
      return Value(List{Value(draw.of(low, high)), Value(draw.of(low, high)), Value(draw.of(low, high))});
    };
    const Shape sample = {in, draw.of(3, 6), draw.of(3, 6), draw.of(3, 6)};
    GraphBuilder builder("three");
    NodeInput x = builder.input("x", sample);
    x = builder.convolution("conv", x, in, out, {draw.of(1, 3), draw.of(1, 3), draw.of(1, 3)},
                            {{"stride", three(1, 2)},
                             {"padding", three(0, 2)},
                             {"dilation", is_deep ? three(1, 2) : three(1, 1)},
                             {"groups", groups}},
                            draw.coin());
    const int64_t way = draw.of(0, 6);
    const Value window = three(1, 2);
    if (way == 0) x = builder.call("relu", {x});
    if (way == 1) x = builder.call("cat", {x, x}, {{"dim", 2}});
    if (way == 4) x = builder.call("max_pool3d", {x}, {{"kernel_size", window}, {"stride", three(1, 2)}});
    if (way == 5) x = builder.call("avg_pool3d", {x}, {{"kernel_size", window}, {"stride", three(1, 2)}});
    if (way == 2) x = builder.call("add", {x, builder.convolution("one", x, out, out, {1, 1, 1})});
    if (way == 3) x = builder.call("mul", {x, x});
    x = builder.convolution("last", x, out, 5, {3, 1, 3},
                            {{"padding", int64_t{1}}, {"dilation", List{Value(1), Value(2), Value(1)}}});
    x = builder.call("flatten", {x}, {{"start_dim", 1}});
    std::optional<Graph> graph;
    try {
      graph = builder.finish(x);
      static_cast<void>(infer_shapes(*graph));
    } catch (const Error&) {
      continue;  // a window that does not fit
    }
    quantize_graph(draw, *graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_to_reference(*graph, draw.tensor(shape), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["convolution"], fewer_under_sanitizers(100));
  EXPECT_GT(kernels["depthwise"], fewer_under_sanitizers(15));
  EXPECT_GT(kernels["largest"], fewer_under_sanitizers(5));
  EXPECT_GT(kernels["mean"], fewer_under_sanitizers(5));
}

/// The packed weights are all that is left; the reference gets them back from there.
TEST_F(Convolutions, PackedWeightsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder builder("packed");
    const NodeInput x = builder.input("x", {6, 5, 6});
    Graph graph = builder.finish(
        builder.layer("convtranspose2d", "up", {x}, {{"weight", {6, 9, 4, 3}}, {"bias", {18}}},
                      {{"stride", draw.of(1, 3)}, {"groups", int64_t{2}}, {"dilation", draw.of(1, 2)}}));
    quantize_graph(draw, graph);
    use_output_axis(draw, graph.node("up"));
    const Tensor input = draw.tensor({1, 6, 5, 6});
    ObservedFloats wanted;
    try {
      wanted = values_before_rounding(IntegerProgram(graph), input);
    } catch (const Error&) {
      continue;
    }
    EXPECT_EQ(values_before_rounding(FastProgram(graph), input), wanted);
  }
}

}  // namespace
}  // namespace detent
