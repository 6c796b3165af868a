#include "detent/core/sanitizers_for_test.h"
#include "detent/engine/fast_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <latch>
#include <map>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/engine/observed_values_for_test.h"
#include "detent/engine/random_networks_for_test.h"

// The fast engine and the plain reference are the same numbers.

namespace detent {
namespace {

using testing::HasSubstr;

struct Image {
  NodeInput node;
  int64_t channels, height, width;
};

Image grown_by_convolution(Draw& draw, GraphBuilder& builder, const Image& x, const std::string& name) {
  Image y = x;
  const int64_t kernel_y = draw.of(1, std::min<int64_t>(x.height, 3));
  const int64_t kernel_x = draw.of(1, std::min<int64_t>(x.width, 5));
  const int64_t stride = draw.of(1, 3);
  const int64_t padding = draw.of(0, 2);
  const int64_t dilation = kernel_y * 2 <= x.height && kernel_x * 2 <= x.width ? draw.of(1, 2) : 1;
  const int64_t way = draw.of(0, 3);
  int64_t groups = 1;
  y.channels = draw.among({1, 3, 5, 8, 16, 20, 33, 64, 70});
  if (way == 0) {
    groups = y.channels = x.channels;
  } else if (way == 1) {
    groups = x.channels % 2 == 0 ? 2 : 1;
    y.channels = groups * draw.of(1, 20);
  }
  y.node = builder.convolution(
      name, x.node, x.channels, y.channels, {kernel_y, kernel_x},
      {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}}, draw.coin());
  y.height = (x.height + 2 * padding - dilation * (kernel_y - 1) - 1) / stride + 1;
  y.width = (x.width + 2 * padding - dilation * (kernel_x - 1) - 1) / stride + 1;
  return y;
}

Image pooled(Draw& draw, GraphBuilder& builder, const Image& x) {
  const int64_t kernel = draw.of(2, 3);
  if (x.height < kernel || x.width < kernel) return x;
  const int64_t stride = draw.of(1, 2);
  const int64_t padding = draw.of(0, 1);
  Table attributes{{"kernel_size", kernel}, {"stride", stride}, {"padding", padding}};
  Image y = x;
  if (draw.coin()) {
    y.node = builder.call("max_pool2d", {x.node}, attributes);
  } else {
    attributes["count_include_pad"] = draw.coin();
    y.node = builder.call("avg_pool2d", {x.node}, attributes);
  }
  y.height = (x.height + 2 * padding - kernel) / stride + 1;
  y.width = (x.width + 2 * padding - kernel) / stride + 1;
  return y;
}

/// Means of windows with a border of their own on each side.
Image pooled_with_border(Draw& draw, GraphBuilder& builder, const Image& x) {
  const int64_t kernel = draw.of(2, 3);
  const int64_t stride = draw.of(1, 2);
  const int64_t dilation = draw.of(1, 2);
  const int64_t reach = dilation * (kernel - 1) + 1;
  if (x.height < reach || x.width < reach) return x;
  const int64_t border[] = {draw.of(0, 1), draw.of(0, 1), draw.of(0, 1), draw.of(0, 1)};
  Image y = x;
  y.node =
      builder.call("avg_pool_with_border", {x.node},
                   {{"kernel_size", kernel},
                    {"stride", stride},
                    {"dilation", dilation},
                    {"padding", List{Value(border[0]), Value(border[1]), Value(border[2]), Value(border[3])}},
                    {"count_include_pad", draw.coin()}});
  y.height = (x.height + border[0] + border[2] - reach) / stride + 1;
  y.width = (x.width + border[1] + border[3] - reach) / stride + 1;
  return y;
}

Image grown(Draw& draw, GraphBuilder& builder, const Image& x, const std::string& name) {
  Image y = x;
  switch (draw.of(0, 9)) {
    case 0:
      y.node = builder.call(draw.coin() ? "relu6" : "tanh", {x.node});
      return y;
    case 1:
      y.node = builder.call("relu", {x.node});
      return y;
    case 2: {
      const NodeInput other = builder.convolution(name, x.node, x.channels, x.channels, {1, 1}, {});
      y.node = builder.call("add", draw.coin() ? std::vector{other, x.node} : std::vector{x.node, other});
      if (draw.coin()) y.node = builder.call("relu", {y.node});
      return y;
    }
    case 3:
      y.node = builder.call("mul", {x.node, NodeInput::of_constant(Value(0.37))});
      return y;
    case 4:
      return draw.coin() ? pooled(draw, builder, x) : pooled_with_border(draw, builder, x);
    case 5:
      y.node = builder.call("cat", {x.node, x.node}, {{"dim", 1}});
      y.channels *= 2;
      return y;
    default:
      return grown_by_convolution(draw, builder, x, name);
  }
}

Graph random_network(Draw& draw, Shape& sample) {
  GraphBuilder builder("random");
  const int64_t channels = draw.among({1, 2, 3, 4, 8, 16, 24, 32, 48, 64, 80});
  Image x{{}, channels, draw.of(1, 12), draw.of(1, 12)};
  sample = {x.channels, x.height, x.width};
  x.node = builder.input("x", sample);
  const int64_t nodes = draw.of(1, 6);
  for (int64_t i = 0; i < nodes; ++i) x = grown(draw, builder, x, fmt::format("conv{}", i));
  if (draw.coin()) {
    const int64_t features = x.channels * x.height * x.width;
    const NodeInput flat = builder.call("flatten", {x.node}, {{"start_dim", 1}});
    x.node = builder.linear("fc", flat, features, draw.of(1, 40), draw.coin());
  }
  Graph graph = builder.finish(x.node);
  quantize_graph(draw, graph);
  if (draw.coin() && graph.find("fc") != nullptr) graph.node("fc").quantization.erase("data_out_0");
  return graph;
}

/// A depthwise layer that gives values, whose windows and strides are drawn, and a norm of them.
Graph depthwise_to_values(Draw& draw, Shape& sample) {
  GraphBuilder builder("depthwise");
  const int64_t channels = draw.among({3, 16, 17, 40, 64, 96, 130});
  const int64_t kernel = draw.among({1, 2, 3, 3, 5, 7});
  const int64_t least = std::max<int64_t>(kernel, 3);  // two positions may lie two apart
  sample = {draw.of(1, 2), channels, draw.of(least, 12), draw.of(least, 12)};
  const NodeInput x = builder.input("x", {sample.begin() + 1, sample.end()});
  NodeInput y = builder.convolution("deep", x, channels, channels, {kernel, kernel},
                                    {{"stride", draw.of(1, 2)},
                                     {"padding", draw.of(0, kernel / 2)},
                                     {"dilation", kernel < 3 ? draw.of(1, 2) : 1},
                                     {"groups", channels}},
                                    draw.coin());
  if (draw.coin()) y = builder.call("sigmoid", {y});
  Graph graph = builder.finish(y);
  quantize_graph(draw, graph);
  graph.node("deep").quantization.erase("data_out_0");
  for (Node& node : graph.nodes()) {
    if (node.op == "sigmoid") node.quantization.clear();
  }
  return graph;
}

using FastEngine = EngineTargetTest;

TEST_F(FastEngine, IsEqualToTheReferenceOnRandomNetworks) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(500U);
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Shape sample;
    const Graph graph = random_network(draw, sample);
    sample.insert(sample.begin(), draw.of(1, 3));
    expect_equal_to_reference(graph, draw.tensor(sample), &kernels);
    if (HasFatalFailure()) break;
  }
  set_engine_target("");
  // Which networks are drawn depends on the order in which a compiler evaluates arguments.
  EXPECT_GT(kernels[", bits"], fewer_under_sanitizers(5));
  EXPECT_GT(kernels[", signs"], fewer_under_sanitizers(5));
  kernels["addition"] += kernels["pairs"];  // of codes beyond bytes
  for (const char* kernel :
       {"convolution", "depthwise", "linear", "table", "addition", "mean", "largest", "quantize", "moved",
        "copy", "reference", "row-major", "2 bits", "3 bits", "4 bits"})
    EXPECT_GT(kernels[kernel], kSanitizersTakeMemory ? 0 : 5) << kernel;
}

TEST_F(FastEngine, DepthwiseLayersGiveValues) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Shape sample;
    const Graph graph = depthwise_to_values(draw, sample);
    expect_equal_to_reference(graph, draw.tensor(sample), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["depthwise"], 50);
}

/// Windows of 3 x 3 over rows that are longer than vectors and tiles, and additions on them.
TEST_F(FastEngine, IsEqualToTheReferenceWhereVectorsAreFull) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(24U);
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(1000 + seed);
    GraphBuilder builder("full");
    const int64_t side = draw.of(17, 37);
    const int64_t first = draw.among({3, 4, 16});
    const int64_t channels = draw.among({8, 16, 24, 32, 96, 144});
    const auto convolution = [&](const char* name, const NodeInput& x, int64_t in, int64_t out,
                                 int64_t stride, int64_t groups) {
      return builder.convolution(name, x, in, out, {3, 3},
                                 {{"stride", stride}, {"padding", int64_t{1}}, {"groups", groups}}, true);
    };
    NodeInput x = builder.input("x", {first, side, side});
    x = convolution("wide", x, first, channels, 1, 1);
    x = convolution("deep", x, channels, channels, draw.of(1, 2), channels);
    const NodeInput y = convolution("sixteen", x, channels, channels, 1, draw.coin() ? 1 : channels);
    x = builder.call("add", {y, x});
    x = builder.convolution("narrow", x, channels, draw.among({16, 20, 40, 64}), {1, 1}, {}, true);
    Graph graph = builder.finish(x);
    quantize_graph(draw, graph);
    expect_equal_to_reference(graph, draw.tensor({1, first, side, side}));
    if (HasFatalFailure()) break;
  }
}

/// Weights of -128 and inputs of 255: sums of two products beyond 16 bits.
TEST_F(FastEngine, DoesNotSaturateInSixteenBits) {
  GraphBuilder builder("extremes");
  const NodeInput x = builder.input("x", {64, 5, 5});
  const NodeInput y = builder.convolution("conv", x, 64, 16, {3, 3}, {{"padding", 1}});
  Graph graph = builder.finish(builder.convolution("deep", y, 16, 16, {3, 3}, {{"groups", 16}}));
  for (const char* name : {"conv", "deep"}) {
    Node& node = graph.node(name);
    std::ranges::fill(node.find_parameter("weight")->tensor.values<float>(), -128.0F);
    node.quantization["data_in_0"] = parse_quant_spec_text("affine:signed=false,scale=1,zero_point=0");
    node.quantization["weight"] = parse_quant_spec_text("affine:scale=1");
    node.quantization["data_out_0"] = parse_quant_spec_text("affine:signed=false,scale=90000,zero_point=255");
  }
  graph.set_requantization(Requantization::kFloat);
  Tensor inputs(DType::kFloat32, {1, 64, 5, 5});
  std::ranges::fill(inputs.values<float>(), 255.0F);
  expect_equal_to_reference(graph, inputs);
  EXPECT_EQ(FastProgram(graph).run(std::span(&inputs, 1)).front().values<float>()[0],
            IntegerProgram(graph).run(std::span(&inputs, 1)).front().values<float>()[0]);
}

/// Ternary or binary codes and weights: sums over more words than counts of bytes hold, borders that add
/// nothing, groups of channels that fill no word, and each way to leave the sums.
TEST_F(FastEngine, IsEqualToTheReferenceWhereBitsAreCounted) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(32U);
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(2000 + seed);
    const char* const kTernary = "affine:narrow_range=true,width=2,scale=1";
    const int64_t channels = draw.among({1, 40, 64, 130, 513});
    const int64_t side = draw.of(1, 9);
    const int64_t outputs = draw.among({7, 16, 40});
    const int64_t dilation = draw.of(1, 2);
    GraphBuilder builder("bits");
    NodeInput x = builder.input("x", {channels, side, side});
    x = builder.convolution("conv", x, channels, outputs, {3, 3},
                            {{"padding", int64_t{2}}, {"stride", draw.of(1, 2)}, {"dilation", dilation}},
                            true);
    Graph graph = builder.finish(builder.convolution("last", x, outputs, 20, {1, 1}, {}));
    for (const char* name : {"conv", "last"}) {
      Node& node = graph.node(name);
      quantize_layer(draw, node);
      const char* input = name == std::string("conv") ? draw.coin() ? "binary" : kTernary : "binary";
      node.quantization["data_in_0"] = parse_quant_spec_text(input);
      node.quantization["weight"] = parse_quant_spec_text(draw.coin() ? "binary" : kTernary);
    }
    graph.node("conv").quantization["data_out_0"] = parse_quant_spec_text("binary");
    if (draw.coin())
      graph.node("last").quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.5");
    graph.set_requantization(Requantization::kFloat);
    expect_equal_to_reference(graph, draw.tensor({2, channels, side, side}), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels[", signs"], fewer_under_sanitizers(10));
  EXPECT_GT(kernels[", bits"], fewer_under_sanitizers(10));
}

Graph small_network(Draw& draw) {
  GraphBuilder builder("small");
  NodeInput x = builder.convolution("conv", builder.input("x", {3, 9, 9}), 3, 20, {3, 3}, {{"padding", 1}});
  x = builder.call("add", {builder.convolution("again", x, 20, 20, {3, 3}, {{"padding", 1}}), x});
  Graph graph = builder.finish(builder.call("relu", {x}));
  quantize_graph(draw, graph);
  return graph;
}

TEST_F(FastEngine, GivesTheSameFromManyThreadsAtOnce) {
  Draw draw(3);
  const Graph graph = small_network(draw);
  const FastProgram program(graph);
  const IntegerProgram reference(graph);
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < 8; ++i) inputs.push_back(draw.tensor({1 + i % 3, 3, 9, 9}));
  std::vector<Tensor> results(inputs.size());
  std::latch ready(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < inputs.size(); ++i) {
      threads.emplace_back([&, i] {
        ready.arrive_and_wait();
        for (int again = 0; again < 20; ++again) results[i] = program.run(std::span(&inputs[i], 1)).front();
      });
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(results[i].equals(reference.run(std::span(&inputs[i], 1)).front())) << i;
}

/// As sessions of Python do: each thread limits its own threads, some look inside, and there are more sizes
/// than plans are kept of.
TEST_F(FastEngine, GivesTheSameInSessionsOfManySizesAtOnce) {
  constexpr int64_t kSizes = 12;
  Draw draw(5);
  const Graph graph = small_network(draw);
  const FastProgram program(graph);
  const IntegerProgram reference(graph);
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  for (int64_t size = 1; size <= kSizes; ++size) {
    inputs.push_back(draw.tensor({size, 3, 9, 9}));
    expected.push_back(reference.run(std::span(&inputs.back(), 1)).front());
  }
  std::atomic<int> differences = 0;
  std::atomic<int> seen = 0;
  const auto session = [&](size_t index) {
    const LimitThreads limit(1 + static_cast<int>(index % 3));
    auto observation = Observation::of_none();
    observation.operands->emplace("conv", "data_out_0");
    observation.see = [&](const Node&, std::string_view, const Tensor&) { ++seen; };
    for (size_t again = 0; again < 24; ++again) {
      const size_t i = (again * (index + 1) + index) % kSizes;
      const bool looks = again % 2 == 0;
      const auto outputs = program.run(std::span(&inputs[i], 1), looks ? observation : Observation());
      Tensor mine(DType::kFloat32, expected[i].shape());
      std::ranges::copy(outputs.front().bytes(), mine.bytes().begin());
      differences += mine.equals(expected[i]) ? 0 : 1;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 6; ++i) threads.emplace_back(session, i);
  }
  EXPECT_EQ(differences, 0);
  EXPECT_EQ(seen, 6 * 12);
}

/// Equal nodes share their layers; one that differs packs its own.
TEST_F(FastEngine, GivesTheSameWhereItSharesLayers) {
  Draw draw(6);
  const Graph graph = small_network(draw);
  const FastProgram whole(graph);
  const Tensor x = draw.tensor({2, 3, 9, 9});
  for (const bool changes_weights : {false, true}) {
    Graph other = graph;
    if (changes_weights) {
      Tensor& weight = other.node("conv").find_parameter("weight")->tensor;
      weight = weight.clone();
      for (float& value : weight.values<float>()) value = -value;
    }
    const FastProgram shared(other, graph, whole);
    const Tensor result = shared.run(std::span(&x, 1)).front();
    EXPECT_TRUE(result.equals(FastProgram(other).run(std::span(&x, 1)).front()));
    EXPECT_EQ(result.equals(whole.run(std::span(&x, 1)).front()), !changes_weights);
  }
}

/// Values of a sample, sorted.
std::vector<std::vector<float>> sorted_samples(const Tensor& value) {
  std::vector<std::vector<float>> samples;
  for (int64_t i = 0; i < value.dim(0); ++i) {
    const Tensor sample = value.rows(i, i + 1);
    const auto values = sample.values<float>();
    std::ranges::sort(samples.emplace_back(values.begin(), values.end()));
  }
  return samples;
}

TEST_F(FastEngine, ShowsEachSamplesValuesInAnyOrder) {
  GraphBuilder b("joined");
  const auto convolution = [&](const std::string& name, const NodeInput& x, int64_t outputs, int64_t kernel) {
    return b.call("relu", {b.convolution(name, x, 16, outputs, {kernel, kernel}, {{"padding", kernel / 2}})});
  };
  const NodeInput x = convolution("first", b.input("x", {16, 7, 9}), 16, 3);
  const NodeInput joined =
      b.call("cat", {convolution("left", x, 32, 1), convolution("right", x, 16, 3)}, {{"dim", int64_t{1}}});
  const NodeInput pooled = b.call("max_pool2d", {joined}, {{"kernel_size", int64_t{2}}});
  const Graph graph = b.finish(b.linear("fc", b.call("flatten", {pooled}), 48 * 3 * 4, 10));
  const FastProgram program(graph);
  Draw draw(8);
  const Tensor input = draw.tensor({3, 16, 7, 9});
  std::array<std::map<std::string, std::vector<std::vector<float>>>, 2> seen;
  for (const bool in_any_order : {false, true}) {
    Observation observation;
    observation.in_any_order = in_any_order;
    observation.see = [&](const Node& node, std::string_view operand, const Tensor& value) {
      seen[in_any_order ? 1 : 0][fmt::format("{}.{}", node.name, operand)] = sorted_samples(value);
    };
    program.run(std::span(&input, 1), observation);
  }
  EXPECT_GT(seen[0].size(), 15);
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(FastEngine, RefusesWhatTheReferenceRefuses) {
  Draw draw(4);
  const FastProgram program(small_network(draw));
  const auto error_of = [&](const Tensor& x) -> std::string {
    return detent::error_of([&] { program.run(std::span(&x, 1)); });
  };
  EXPECT_THROW(program.run({}), Error);
  EXPECT_THAT(error_of(Tensor(DType::kUInt8, {1, 3, 9, 9})), HasSubstr("got uint8 of shape"));
  EXPECT_THAT(error_of(Tensor(DType::kFloat32, {1, 3, 9})), HasSubstr("expected float32 [N, 3, 9, 9]"));
  Tensor x = draw.tensor({2, 3, 9, 9});
  x.values<float>()[300] = NAN;
  EXPECT_THAT(error_of(x), HasSubstr("element 300 of its input is NaN"));
}

/// Layers are packed by several threads, in any order.
TEST_F(FastEngine, NamesTheFirstLayerThatDoesNotFit) {
  GraphBuilder builder("biases");
  NodeInput x = builder.input("x", {64, 32, 32});
  for (int i = 0; i < 12; ++i)
    x = builder.convolution(fmt::format("conv{}", i), x, 64, 64, {3, 3}, {{"padding", int64_t{1}}}, true);
  Graph graph = builder.finish(x);
  Draw draw(7);
  quantize_graph(draw, graph);
  for (int i = 0; i < 12; ++i) {
    Node& node = graph.node(fmt::format("conv{}", i));
    for (const char* operand : {"data_in_0", "data_out_0"})
      node.quantization[operand] = parse_quant_spec_text("affine:scale=0.1");
    node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.1");
    if (i >= 3) std::ranges::fill(node.find_parameter("bias")->tensor.values<float>(), 1e12F);
  }
  for (const int threads : {1, 2, 4, 8}) {
    set_thread_count(threads);
    for (int again = 0; again < 5; ++again)
      EXPECT_THAT(error_of([&] { FastProgram{graph}; }), HasSubstr("node \"conv3\""));
  }
}

TEST_F(FastEngine, ShowsWhatEachStepComputes) {
  Draw draw(5);
  Graph graph = small_network(draw);
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      if (operand.starts_with("data_")) quantizer = parse_quant_spec_text("affine:scale=0.1");
    }
  }
  graph.set_requantization(Requantization::kFloat);
  const FastProgram program(graph);
  const Tensor x = draw.tensor({1, 3, 9, 9});
  std::vector<std::string> nodes;
  for (const StepProfile& step : program.profile(std::span(&x, 1), 2)) {
    nodes.push_back(step.nodes);
    EXPECT_GT(step.seconds, 0) << step.nodes;
    EXPECT_NE(step.kernel, "");
  }
  EXPECT_THAT(nodes, testing::Contains("again, add, relu"));
}

TEST_F(FastEngine, ObservedRunsAreThoseOfTheReference) {
  Draw draw(6);
  const FastProgram program(small_network(draw));
  const Tensor x = draw.tensor({1, 3, 9, 9});
  size_t seen = 0;
  program.run(std::span(&x, 1), {[&](const Node&, std::string_view, const Tensor&) { ++seen; }});
  EXPECT_GT(seen, 6U);
}

/// A layer's weights go as soon as it has packed them, those that another one reads too do not. In float all
/// read what is packed once.
TEST_F(FastEngine, PacksTiedWeights) {
  constexpr int64_t kBytesOfOne = int64_t{16} * 16 * sizeof(float);
  for (const bool in_float : {false, true}) {
    Draw draw(8);
    GraphBuilder builder("tied");
    NodeInput x = builder.input("x", {16, 6, 6});
    for (int i = 0; i < 6; ++i) x = builder.convolution(fmt::format("conv{}", i), x, 16, 16, {1, 1});
    Graph graph = builder.finish(x);
    for (auto& [name, parameter] : graph.node("conv0").parameters)
      parameter->tensor = draw.tensor(parameter->tensor.shape());
    if (!in_float) quantize_graph(draw, graph);
    for (int i = 1; i < 6; ++i) {
      Node& node = graph.node(fmt::format("conv{}", i));
      for (auto& [name, parameter] : node.parameters) {
        for (auto& [other, shared] : graph.node("conv0").parameters) {
          if (name == other) parameter = shared;
        }
      }
      if (!in_float) node.quantization["weight"] = graph.node("conv0").quantization.at("weight");
    }
    const Tensor input = draw.tensor({1, 16, 6, 6});
    const std::vector<Tensor> wanted = IntegerProgram(graph).run(std::span(&input, 1));
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      Graph moved = graph;
      const FastProgram program(std::move(moved));
      EXPECT_TRUE(program.run(std::span(&input, 1)).front().equals(wanted.front())) << in_float;
      EXPECT_EQ(program.weight_bytes() == kBytesOfOne, in_float) << program.weight_bytes();
    }
  }
}

/// Tensors of the network are brought to the layout of what reads them once, whatever runs at once.
TEST_F(FastEngine, ConvertsConstantsOnce) {
  Draw draw(3);
  GraphBuilder builder("constants");
  const NodeInput x =
      builder.convolution("conv", builder.input("x", {3, 6, 7}), 3, 20, {3, 3}, {{"padding", 1}});
  const NodeInput map = builder.parameter("map", {1, 20, 6, 7});
  const NodeInput product = builder.call("mul", {x, map});
  const NodeInput sum = builder.call("add", {product, builder.parameter("row", {7})});
  Graph graph = builder.finish({builder.convolution("last", sum, 20, 5, {3, 3}, {{"padding", 1}}), map});
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters)
      parameter->tensor = draw.tensor(parameter->tensor.shape());
  }
  const FastProgram program(graph);
  const IntegerProgram reference(graph);
  std::atomic<int> differences = 0;
  const auto run = [&](int64_t batch, uint32_t seed) {
    const Tensor input = Draw(seed).tensor({batch, 3, 6, 7});
    const std::vector<Tensor> wanted = reference.run(std::span(&input, 1));
    for (int again = 0; again < 3; ++again) {
      const std::vector<Tensor> got = program.run(std::span(&input, 1));
      for (size_t i = 0; i < wanted.size(); ++i) differences += got[i].equals(wanted[i]) ? 0 : 1;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < 4; ++i) threads.emplace_back(run, 1 + i % 2, i);
  }
  EXPECT_EQ(differences, 0);
  const Tensor input = draw.tensor({1, 3, 6, 7});
  for (const StepProfile& step : program.profile(std::span(&input, 1), 2))
    EXPECT_FALSE(step.kernel == "copy" && !step.nodes.starts_with("conv")) << step.nodes;
}

/// The packed weights are all that is left; the reference gets them back from there.
TEST_F(FastEngine, PackedWeightsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Shape sample;
    const Graph graph = random_network(draw, sample);
    sample.insert(sample.begin(), 1);
    const Tensor x = draw.tensor(sample);
    ObservedFloats wanted;
    try {
      wanted = values_before_rounding(IntegerProgram(graph), x);
    } catch (const Error&) {
      continue;
    }
    for (const std::string& target : engine_targets()) {
      set_engine_target(target);
      EXPECT_EQ(values_before_rounding(FastProgram(graph), x), wanted) << target;
    }
  }
}

/// Indices that are moved before rows are gathered: where their shapes are known when the plan is made, and
/// where they depend on values.
TEST(FastExecutor, MovesIndices) {
  GraphBuilder b("indices");
  const auto list = [](const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); };
  const NodeInput edges = b.input("edges", TensorType{DType::kInt64, {kBatchName, 2, 6}});
  const NodeInput turned = b.call("permute", {edges}, {{"dims", Value(std::vector<int64_t>{1, 0, 2})}});
  const NodeInput second = b.call("slice", {turned}, {{"dims", 0}, {"starts", 1}, {"ends", 2}});
  const NodeInput both = b.call("cat", {second, turned}, {{"dim", 0}});
  const NodeInput from = b.call(
      "flatten", {b.call("slice", {both}, {{"dims", 0}, {"starts", 0}, {"ends", 1}})}, {{"start_dim", 0}});
  const NodeInput used = b.call("nonzero", {b.call("gt", {from, NodeInput::of_constant(Value(2))})});
  const NodeInput some =
      b.call("squeeze", {b.call("transpose", {used}, {{"dim0", 0}, {"dim1", 1}}), list({1})});
  const NodeInput rows = b.layer("embedding", "words", {from}, {{"weight", {9, 4}}});
  Graph graph = b.finish({rows, b.layer("embedding", "places", {some}, {{"weight", {40, 3}}}), both});
  Draw draw(3);
  for (const char* name : {"words", "places"})
    for (float& x : graph.node(name).find_parameter("weight")->tensor.values<float>())
      x = static_cast<float>(draw.of(-50, 50));
  const FastProgram engine(graph);
  for (const int64_t batch : {1, 3, 1, 2}) {
    Tensor ids(DType::kInt64, {batch, 2, 6});
    for (int64_t& id : ids.values<int64_t>()) id = draw.of(0, 8);
    const std::vector<Tensor> expected = IntegerProgram(graph).run(std::span(&ids, 1));
    const std::vector<Tensor> results = engine.run(std::span(&ids, 1));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(results[i].equals(expected[i])) << batch << " " << i;
  }
}

/// Rows are added to those that an index names, as in graph networks, which repeat it for each element; in
/// some rows one index differs.
TEST(FastExecutor, ScattersRows) {
  Draw draw(4);
  const std::map<std::string, float (*)(float, float)> reductions = {
      {"none", [](float /*there*/, float x) { return x; }},
      {"add", [](float there, float x) { return there + x; }},
      {"mul", [](float there, float x) { return there * x; }},
      {"max", [](float there, float x) { return std::max(there, x); }},
      {"min", [](float there, float x) { return std::min(there, x); }}};
  for (const auto& [reduction, put] : reductions) {
    GraphBuilder b("rows");
    const NodeInput x = b.input("x", {4, 5});
    const NodeInput indices = b.input("indices", TensorType{DType::kInt64, {kBatchName, 3, 5}});
    const NodeInput updates = b.input("updates", {3, 5});
    const Graph graph =
        b.finish(b.call("scatter_elements", {x, indices, updates}, {{"dim", 1}, {"reduction", reduction}}));
    const Tensor rows = draw.tensor({2, 4, 5});
    const Tensor added = draw.tensor({2, 3, 5});
    Tensor places(DType::kInt64, {2, 3, 5});
    Tensor wanted = rows.clone();
    for (int64_t i = 0; i < 30; ++i) {
      const int64_t row = i / 5;
      const int64_t index = i == 12 ? 0 : (row * row + 1) % 4;
      places.values<int64_t>()[static_cast<size_t>(i)] = row % 2 == 0 ? index : index - 4;
      float& there = wanted.values<float>()[static_cast<size_t>((row / 3 * 4 + index) * 5 + i % 5)];
      there = put(there, added.values<float>()[static_cast<size_t>(i)]);
    }
    const Tensor inputs[] = {rows, places, added};
    EXPECT_TRUE(FastProgram(graph).run(inputs).front().equals(wanted)) << reduction;
    EXPECT_TRUE(IntegerProgram(graph).run(inputs).front().equals(wanted)) << reduction;
  }
}

/// Tokens whose number a run decides: rows of two tables, heads by shapes that the network computes, a mask.
Graph network_of_tokens() {
  GraphBuilder b("tokens");
  const auto list = [](const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); };
  const NodeInput ids = b.input("ids", TensorType{DType::kInt64, {kBatchName, "length"}});
  const NodeInput sizes = b.call("shape_of", {ids});
  const NodeInput batch = b.call("slice", {sizes}, {{"dims", 0}, {"starts", 0}, {"ends", 1}});
  const NodeInput length = b.call("slice", {sizes}, {{"dims", 0}, {"starts", 1}, {"ends", 2}});
  const NodeInput places = b.call("range", {NodeInput::of_constant(Value(0)), b.call("squeeze", {length}),
                                            NodeInput::of_constant(Value(1))});
  const NodeInput rows = b.layer("embedding", "words", {ids}, {{"weight", {9, 12}}});
  const NodeInput positions = b.layer("embedding", "positions", {places}, {{"weight", {7, 12}}});
  const NodeInput x = b.call("add", {rows, positions});
  const auto heads = [&](const NodeInput& of) {
    const NodeInput shape =
        b.call("cat", {batch, length, b.call("full", {list({1})}, {{"value", 3.0}, {"dtype", "int64"}}),
                       b.call("full", {list({1})}, {{"value", 4.0}, {"dtype", "int64"}})});
    return b.call("transpose", {b.call("dynamic_reshape", {of, shape})}, {{"dim0", 1}, {"dim1", 2}});
  };
  const NodeInput keys =
      b.call("transpose", {heads(b.linear("keys", x, 12, 12))}, {{"dim0", 2}, {"dim1", 3}});
  const NodeInput scores = b.call("matmul", {heads(b.linear("queries", x, 12, 12)), keys});
  const NodeInput is_word = b.call("gt", {ids, NodeInput::of_constant(Value(0))});
  const NodeInput hidden = b.call(
      "where", {b.call("unsqueeze", {is_word, list({1, 2})}), scores, NodeInput::of_constant(Value(-100.0))});
  const NodeInput mixed =
      b.call("matmul", {b.call("softmax", {hidden}), heads(b.linear("values", x, 12, 12))});
  const NodeInput last = b.call("mean", {mixed, list({1, 2})});
  return b.finish({b.linear("out", last, 4, 3), b.call("argmax", {last}, {{"dim", -1}, {"keepdim", false}})});
}

TEST(FastExecutor, PlansTheSizesThatNetworksOfTokensCompute) {
  Draw draw(5);
  Graph graph = network_of_tokens();
  for (const char* name : {"words", "positions", "keys", "queries", "values", "out"})
    for (float& x : graph.node(name).find_parameter("weight")->tensor.values<float>())
      x = static_cast<float>(draw.of(-50, 50)) * 0.01F;
  const IntegerProgram reference(graph);
  const FastProgram engine(graph);
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 7), {3, 2}, {2, 5}, {1, 1}}) {
    Tensor ids(DType::kInt64, {batch, length});
    for (int64_t& id : ids.values<int64_t>()) id = draw.of(0, 8);
    const std::span<const Tensor> inputs(&ids, 1);
    const std::vector<Tensor> expected = reference.run(inputs);
    const std::vector<Tensor> results = engine.run(inputs);
    ASSERT_EQ(results.size(), 2U);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(results[i].equals(expected[i])) << batch << " x " << length;
    for (const StepProfile& step : engine.profile(inputs, 1)) {
      for (const char* computed : {"shape_of", "slice", "range", "cat", "full", "dynamic_reshape"})
        EXPECT_FALSE(step.kernel != "known" && step.nodes.starts_with(computed))
            << step.nodes << ": " << step.kernel;
      EXPECT_FALSE(step.nodes.starts_with("matmul") && step.kernel == "float") << step.kernel;
    }
  }
  const Tensor many(DType::kInt64, {1, 8});
  EXPECT_THAT(error_of([&] { engine.run(std::span(&many, 1)); }), HasSubstr("node \"positions\""));
}

}  // namespace
}  // namespace detent
