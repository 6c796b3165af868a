#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

namespace detent {
namespace {

NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }
NodeInput last() { return NodeInput::of_constant(Value(std::vector<int64_t>{-1})); }

/// As PyTorch's exporters before opset 17 wrote it; `square` by pow or by mul.
NodeInput layer_norm(GraphBuilder& builder, const NodeInput& x, bool by_pow) {
  const NodeInput mean = builder.call("mean", {x, last()}, {{"keepdim", true}});
  const NodeInput centred = builder.call("sub", {x, mean});
  const NodeInput square =
      by_pow ? builder.call("pow", {centred, number(2)}) : builder.call("mul", {centred, centred});
  const NodeInput variance = builder.call("mean", {square, last()}, {{"keepdim", true}});
  const NodeInput deviation = builder.call("sqrt", {builder.call("add", {variance, number(1e-5)})});
  const NodeInput quotient = builder.call("div", {centred, deviation});
  const NodeInput scaled = builder.call("mul", {quotient, builder.parameter("norm.weight", {8})});
  return builder.call("add", {scaled, builder.parameter("norm.bias", {8})});
}

NodeInput gelu(GraphBuilder& builder, const NodeInput& x, bool half_first) {
  const NodeInput erf = builder.call("erf", {builder.call("div", {x, number(1.4142135381698608)})});
  const NodeInput shifted = builder.call("add", {erf, number(1)});
  if (half_first) return builder.call("mul", {builder.call("mul", {x, number(0.5)}), shifted});
  return builder.call("mul", {builder.call("mul", {x, shifted}), number(0.5)});
}

void fill(Graph& graph) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0.5F, 1.5F);
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      for (float& value : parameter->tensor.values<float>()) value = uniform(random);
    }
  }
}

std::vector<std::string> computing_operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kComputes) names.push_back(node.op);
  }
  return names;
}

/// The graph without nodes that nothing reads.
Graph live_part(Graph graph) {
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (role_of(node) == OperatorRole::kOutput || role_of(node) == OperatorRole::kInput) continue;
    bool is_read = false;
    for (const Node& reader : graph.nodes()) {
      for (const NodeInput& input : reader.inputs) is_read = is_read || input.node == node.name;
    }
    if (!is_read) graph.erase(std::string(node.name));
  }
  return graph;
}

void expect_fused(Graph graph, const std::string& op) {
  fill(graph);
  Graph fused = graph.deep_copy();
  recognize_norms(fused);
  recognize_activations(fused);
  fused = live_part(fused);
  verify(fused);
  EXPECT_THAT(computing_operators(fused), testing::ElementsAre(op));
  Tensor x(DType::kFloat32, {3, 8});
  for (size_t i = 0; i < 24; ++i) x.values<float>()[i] = static_cast<float>(i * i % 11) - 5;
  const IntegerExecutor executor;
  const Tensor expected = executor.run(graph, std::span(&x, 1));
  const Tensor actual = executor.run(fused, std::span(&x, 1));
  EXPECT_THAT(actual.values<float>(),
              testing::Pointwise(testing::FloatNear(1e-5F), expected.values<float>()));
}

TEST(OnnxPatterns, LayerNormalizationBecomesOneNode) {
  for (const bool by_pow : {true, false}) {
    GraphBuilder builder("g");
    expect_fused(builder.finish(layer_norm(builder, builder.input("x", {8}), by_pow)), "layer_norm");
  }
}

/// (x - mean) / deviation over one dimension.
NodeInput standardized(GraphBuilder& builder, const NodeInput& x, int64_t dim) {
  const NodeInput dims = NodeInput::of_constant(Value(std::vector<int64_t>{dim}));
  const NodeInput centred = builder.call("sub", {x, builder.call("mean", {x, dims}, {{"keepdim", true}})});
  const NodeInput variance =
      builder.call("mean", {builder.call("pow", {centred, number(2)}), dims}, {{"keepdim", true}});
  const NodeInput deviation = builder.call("sqrt", {builder.call("add", {variance, number(1e-5)})});
  return builder.call("div", {centred, deviation});
}

TEST(OnnxPatterns, LayerNormalizationWithoutWeightBecomesOneNode) {
  for (const int64_t dim : {-1, 1}) {
    GraphBuilder builder("g");
    expect_fused(builder.finish(standardized(builder, builder.input("x", {8}), dim)), "layer_norm");
  }
}

/// Over the channels of images, signals and volumes.
TEST(OnnxPatterns, LeaveNormsOverOpenSizes) {
  for (const int64_t rows : {4, -2}) {
    OnnxModelForTest model(17);
    model.constant<float>("two", {}, {2});
    model.constant<float>("epsilon", {}, {0});
    model.input("x", {rows, -1});
    model.output("y");
    const std::vector<int64_t> last = {-1};
    model.node("ReduceMean", {"x"}, {"mean"}, {{"axes", last}});
    model.node("Sub", {"x", "mean"}, {"centred"});
    model.node("Pow", {"centred", "two"}, {"square"});
    model.node("ReduceMean", {"square"}, {"variance"}, {{"axes", last}});
    model.node("Add", {"variance", "epsilon"}, {"shifted"});
    model.node("Sqrt", {"shifted"}, {"deviation"});
    model.node("Div", {"centred", "deviation"}, {"y"});
    const Graph graph = import_onnx(model.write());
    EXPECT_THAT(computing_operators(graph), testing::Not(testing::Contains("layer_norm")));
    const Tensor x = Tensor::from(Shape{4, 2}, std::vector<float>{1, 3, 2, 0, 5, 7, 9, 1});
    expect_near(IntegerExecutor().compile(graph)->run({{x}}).front(), {-1, 1, 1, -1, -1, 1, 1, -1});
  }
}

TEST(OnnxPatterns, LayerNormalizationOfChannelsMovesThemLast) {
  for (const Shape& sample : {Shape{6, 4, 5}, Shape{6, 20}, Shape{6, 2, 2, 5}}) {
    for (const bool has_batch : {false, true}) {
      Shape of_channels(sample.size(), 1);
      of_channels[0] = 6;
      if (has_batch) of_channels.insert(of_channels.begin(), 1);
      GraphBuilder builder("g");
      const NodeInput quotient = standardized(builder, builder.input("x", sample), 1);
      const NodeInput scaled = builder.call("mul", {builder.parameter("norm.weight", of_channels), quotient});
      Graph graph =
          builder.finish(builder.call("add", {scaled, builder.parameter("norm.bias", of_channels)}));
      fill(graph);
      Graph fused = graph.deep_copy();
      recognize_norms(fused);
      fused = live_part(fused);
      verify(fused);
      EXPECT_THAT(computing_operators(fused), testing::ElementsAre("permute", "layer_norm", "permute"));
      Shape shape = sample;
      shape.insert(shape.begin(), 2);
      Tensor x(DType::kFloat32, shape);
      for (size_t i = 0; i < 240; ++i) x.values<float>()[i] = static_cast<float>(i * i % 11) - 5;
      const Tensor expected = IntegerExecutor().run(graph, std::span(&x, 1));
      EXPECT_THAT(IntegerExecutor().run(fused, std::span(&x, 1)).values<float>(),
                  testing::Pointwise(testing::FloatNear(1e-5F), expected.values<float>()));
    }
  }
}

TEST(OnnxPatterns, LeaveNormsOfOtherDimensions) {
  for (const int64_t dim : {1, 2}) {
    GraphBuilder builder("g");
    const NodeInput quotient = standardized(builder, builder.input("x", {6, 4, 6}), dim);
    const NodeInput scaled = builder.call("mul", {quotient, builder.parameter("weight", {6})});
    Graph graph = builder.finish(builder.call("add", {scaled, builder.parameter("bias", {6})}));
    recognize_norms(graph);
    EXPECT_THAT(computing_operators(graph), testing::Not(testing::Contains("layer_norm"))) << dim;
  }
}

/// In the spellings of exporters: the root's reciprocal, 1 / root, a quotient, a power; the weight on either
/// side.
TEST(OnnxPatterns, RootMeanSquareNormBecomesOneNode) {
  for (const int spelling : {0, 1, 2, 3}) {
    GraphBuilder builder("g");
    const NodeInput x = builder.input("x", {8});
    const NodeInput square = spelling < 2 ? builder.call("pow", {x, number(2)}) : builder.call("mul", {x, x});
    const NodeInput mean = builder.call("mean", {square, last()}, {{"keepdim", true}});
    const NodeInput shifted = builder.call("add", {mean, number(1e-3)});
    const NodeInput weight = builder.parameter("norm.weight", {8});
    if (spelling == 3) {
      const NodeInput inverse = builder.call("pow", {shifted, number(-0.5)});
      expect_fused(builder.finish(builder.call("mul", {builder.call("mul", {inverse, x}), weight})),
                   "rms_norm");
      continue;
    }
    const NodeInput root = builder.call("sqrt", {shifted});
    NodeInput normed;
    if (spelling == 0) normed = builder.call("mul", {x, builder.call("reciprocal", {root})});
    if (spelling == 1) normed = builder.call("mul", {builder.call("div", {number(1), root}), x});
    if (spelling == 2) normed = builder.call("div", {x, root});
    expect_fused(builder.finish(builder.call("mul", {weight, normed})), "rms_norm");
  }
}

TEST(OnnxPatterns, LeaveNormsOfOtherValues) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {8});
  const NodeInput other = builder.call("tanh", {x});
  const NodeInput mean =
      builder.call("mean", {builder.call("mul", {other, other}), last()}, {{"keepdim", true}});
  const NodeInput root = builder.call("sqrt", {builder.call("add", {mean, number(1e-3)})});
  const NodeInput normed = builder.call("div", {x, root});
  Graph graph = builder.finish(builder.call("mul", {normed, builder.parameter("norm.weight", {8})}));
  recognize_norms(graph);
  EXPECT_THAT(computing_operators(graph), testing::Not(testing::Contains("rms_norm")));
}

/// A norm of groups as PyTorch's exporters write it.
Graph group_norm_in_steps(int64_t groups, const Shape& of_channels, int64_t spread) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {6, 4, 5});
  const auto size = [](int64_t given) { return NodeInput::of_constant(Value(given)); };
  const auto list = [](int64_t given) { return NodeInput::of_constant(Value(std::vector<int64_t>{given})); };
  const NodeInput apart = builder.call("view", {x, size(-1), size(groups), size(120 / groups)});
  const NodeInput image = builder.call("unsqueeze", {apart, list(3)});
  const NodeInput norm = builder.layer("instance_norm2d", "norm", {image},
                                       {{"weight", {groups}}, {"bias", {groups}}}, {{"eps", 1e-3}});
  const NodeInput back = builder.call("view", {builder.call("squeeze", {norm, list(3)}), size(-1), size(6),
                                               size(4 * spread), size(5 / spread)});
  const NodeInput scaled = builder.call("mul", {back, builder.parameter("weight", of_channels)});
  Graph graph = builder.finish(builder.call("add", {builder.parameter("bias", of_channels), scaled}));
  fill(graph);
  std::ranges::fill(graph.node("norm").find_parameter("weight")->tensor.values<float>(), 1.0F);
  std::ranges::fill(graph.node("norm").find_parameter("bias")->tensor.values<float>(), 0.0F);
  return graph;
}

TEST(OnnxPatterns, NormOfGroupsBecomesOneNode) {
  for (const int64_t groups : {1, 2, 6}) {
    for (const Shape& of_channels : {Shape{6, 1, 1}, Shape{1, 6, 1, 1}}) {
      const Graph graph = group_norm_in_steps(groups, of_channels, 1);
      Graph fused = graph.deep_copy();
      recognize_norms(fused);
      fused = live_part(fused);
      verify(fused);
      EXPECT_THAT(computing_operators(fused), testing::ElementsAre("group_norm"));
      Tensor x(DType::kFloat32, {2, 6, 4, 5});
      for (size_t i = 0; i < 240; ++i) x.values<float>()[i] = static_cast<float>(i * i % 11) - 5;
      const Tensor expected = IntegerExecutor().run(graph, std::span(&x, 1));
      EXPECT_THAT(IntegerExecutor().run(fused, std::span(&x, 1)).values<float>(),
                  testing::Pointwise(testing::FloatNear(1e-5F), expected.values<float>()));
    }
  }
}

TEST(OnnxPatterns, LeaveNormsOfGroupsThatAreNone) {
  const auto operators = [](Graph graph) {
    recognize_norms(graph);
    return computing_operators(graph);
  };
  const auto none = testing::Not(testing::Contains("group_norm"));
  EXPECT_THAT(operators(group_norm_in_steps(3, {6, 1, 1}, 5)), none) << "another shape";
  EXPECT_THAT(operators(group_norm_in_steps(4, {6, 1, 1}, 1)), none) << "groups of parts of channels";
  EXPECT_THAT(operators(group_norm_in_steps(3, {4, 5}, 1)), none) << "a weight for each position";
  Graph scaled = group_norm_in_steps(3, {6, 1, 1}, 1);
  scaled.node("norm").find_parameter("weight")->tensor.values<float>()[0] = 2;
  EXPECT_THAT(operators(std::move(scaled)), none) << "a factor of each group";
}

TEST(OnnxPatterns, GeluBecomesOneNode) {
  for (const bool half_first : {true, false}) {
    GraphBuilder builder("g");
    expect_fused(builder.finish(gelu(builder, builder.input("x", {8}), half_first)), "gelu");
  }
}

TEST(OnnxPatterns, ProductsWithAGateBecomeOneNode) {
  for (const bool gate_first : {true, false}) {
    for (const auto& [gate, activation] : {std::pair("sigmoid", "silu"), {"hardsigmoid", "hardswish"}}) {
      GraphBuilder builder("g");
      const NodeInput x = builder.input("x", {8});
      const NodeInput share = builder.call(gate, {x});
      expect_fused(
          builder.finish(gate_first ? builder.call("mul", {share, x}) : builder.call("mul", {x, share})),
          activation);
    }
  }
}

/// A gate of something else, of another slope, or that something else reads.
TEST(OnnxPatterns, LeaveOtherGates) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {8});
  const NodeInput y = builder.call("tanh", {x});
  const NodeInput read_twice = builder.call("sigmoid", {y});
  const NodeInput steep = builder.call("hardsigmoid", {x}, {{"alpha", 0.2}, {"beta", 0.5}});
  Graph graph =
      builder.finish({builder.call("mul", {y, builder.call("sigmoid", {x})}),
                      builder.call("mul", {y, read_twice}), read_twice, builder.call("mul", {x, steep})});
  const std::vector<std::string> before = computing_operators(graph);
  recognize_activations(graph);
  EXPECT_EQ(computing_operators(graph), before);
}

/// A value inside that something else reads keeps the pattern apart.
TEST(OnnxPatterns, LeaveValuesThatOthersRead) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {8});
  const NodeInput erf = builder.call("erf", {builder.call("div", {x, number(1.4142135381698608)})});
  const NodeInput shifted = builder.call("add", {erf, number(1)});
  const NodeInput result = builder.call("mul", {builder.call("mul", {x, shifted}), number(0.5)});
  Graph graph = builder.finish({result, shifted});
  const std::vector<std::string> before = computing_operators(graph);
  recognize_activations(graph);
  EXPECT_EQ(computing_operators(graph), before);
  GraphBuilder other("h");
  const NodeInput y = other.input("x", {8});
  const NodeInput wrong = other.call("erf", {other.call("div", {y, number(1.5)})});
  Graph near = other.finish(
      other.call("mul", {other.call("mul", {y, other.call("add", {wrong, number(1)})}), number(0.5)}));
  const std::vector<std::string> near_before = computing_operators(near);
  recognize_activations(near);
  EXPECT_EQ(computing_operators(near), near_before);
}

/// The network with a ReduceMean of x alone.
Graph mean_of(const Shape& shape, const std::vector<int64_t>& axes, int keepdims) {
  OnnxModelForTest model(13);
  model.input("x", shape);
  model.output("y");
  model.node("ReduceMean", {"x"}, {"y"}, {{"axes", axes}, {"keepdims", keepdims}});
  return import_onnx(model.write());
}

TEST(OnnxPatterns, MeansOfAllPlacesBecomePools) {
  const std::vector<std::vector<int64_t>> places = {{2, 3}, {-1, -2}, {2, 3, 4}};
  for (const std::vector<int64_t>& axes : places) {
    Shape shape(axes.size() + 2, 3);
    shape.front() = -1;
    shape.back() = 7;
    const std::string pool = axes.size() == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
    const Graph kept = mean_of(shape, axes, 1);
    const Graph flat = mean_of(shape, axes, 0);
    EXPECT_THAT(computing_operators(kept), testing::ElementsAre(pool));
    EXPECT_THAT(computing_operators(flat), testing::ElementsAre(pool, "flatten"));
    GraphBuilder builder("g");
    const Shape sample(shape.begin() + 1, shape.end());
    const NodeInput dims = NodeInput::of_constant(Value(axes));
    const Graph plain =
        builder.finish(builder.call("mean", {builder.input("x", sample), dims}, {{"keepdim", true}}));
    shape.front() = 2;
    const Tensor x = varied_numbers(shape, 5);
    const Tensor expected = IntegerExecutor().run(plain, {&x, 1});
    EXPECT_TRUE(IntegerExecutor().run(kept, {&x, 1}).equals(expected));
    EXPECT_TRUE(IntegerExecutor().run(flat, {&x, 1}).equals(expected.reshaped({2, 3})));
  }
}

TEST(OnnxPatterns, LeaveOtherMeans) {
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{3}, {1, 2}, {1, 2, 3}, {0, 2, 3}})
    EXPECT_THAT(computing_operators(mean_of({2, 3, 4, 5}, axes, 1)), testing::ElementsAre("mean")) << axes[0];
  OnnxModelForTest model(13);
  const std::vector<int64_t> places = {2, 3};
  model.constant<float>("two", {}, {2});
  model.input("x", {2, 3, 4, 5});
  model.output("variance");
  model.node("ReduceMean", {"x"}, {"mean"}, {{"axes", places}});
  model.node("Sub", {"x", "mean"}, {"centred"});
  model.node("Pow", {"centred", "two"}, {"square"});
  model.node("ReduceMean", {"square"}, {"variance"}, {{"axes", places}});
  EXPECT_THAT(computing_operators(import_onnx(model.write())),
              testing::ElementsAre("mean", "sub", "pow", "mean"));
}

}  // namespace
}  // namespace detent
