#include "detent/graph/operators.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/element_movement.h"

#include "operator_cases_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Operators, EveryOneThatComputesHasACase) {
  std::set<std::string> covered;
  for (const OperatorCase& c : operator_cases()) covered.insert(c.op);
  for (const OperatorSchema& schema : all_operators()) {
    EXPECT_TRUE(schema.role != OperatorRole::kComputes || covered.contains(schema.name)) << schema.name;
  }
}

void expect_shape(const at::Tensor& result, const Shape& inferred) {
  ASSERT_EQ(static_cast<size_t>(result.dim()), inferred.size());
  for (size_t d = 0; d < inferred.size(); ++d) {
    if (inferred[d] == kOpenSize) continue;
    EXPECT_EQ(result.size(static_cast<int64_t>(d)), inferred[d]) << d;
  }
}

void expect_close(const at::Tensor& result, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(result.scalar_type(), expected.scalar_type());
  if (result.is_floating_point()) {
    EXPECT_TRUE(at::allclose(result, expected, tolerance, tolerance));
  } else {
    EXPECT_TRUE(result.equal(expected));
  }
}

TEST(Operators, ResultsAndGradientsAreThoseOfDirectCalls) {
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(c.op);
    seed_everything(1);
    Graph graph = one_operator_graph(c);
    const Graph copy = graph.deep_copy();
    Interpreter interpreter(graph);
    std::vector<at::Tensor> inputs = random_inputs(c, 2);
    std::vector<at::Tensor> copies;
    std::vector<std::pair<std::string, at::Tensor>> parameters;
    for (at::Tensor& input : inputs) {
      const bool has_gradient = c.has_gradient(copies.size());
      copies.push_back(input.clone().set_requires_grad(has_gradient));
      input.set_requires_grad(has_gradient);
    }
    for (const auto& [name, parameter] : copy.node("layer").parameters) {
      parameters.emplace_back(name, to_torch(parameter->tensor).set_requires_grad(parameter->trainable));
    }
    const at::Tensor expected = c.reference(copies, [&](const char* name) {
      for (const auto& [key, tensor] : parameters) {
        if (key == name) return tensor;
      }
      return at::Tensor();
    });
    const at::Tensor result = interpreter.run(inputs);
    const Operand inferred = infer_shapes(graph, 2).at(value_name("layer", c.result));
    expect_shape(result, inferred.shape);
    EXPECT_EQ(dtype_of(result), inferred.dtype);
    expect_close(result, expected, 1e-6);
    if (c.gradient == CaseGradient::kNone) continue;

    const at::Tensor weights = at::randn(result.sizes());
    result.backward(weights);
    expected.backward(weights);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!c.has_gradient(i)) continue;
      EXPECT_TRUE(at::allclose(inputs[i].grad(), copies[i].grad(), 1e-5, 1e-5));
    }
    size_t index = 0;
    const std::vector<at::Tensor> trained = interpreter.trainable_parameters();
    for (const auto& [name, tensor] : parameters) {
      if (!tensor.requires_grad()) continue;
      EXPECT_TRUE(at::allclose(trained.at(index++).grad(), tensor.grad(), 1e-5, 1e-5)) << name;
    }
    EXPECT_EQ(index, trained.size());
  }
}

/// Along a random direction of all inputs and parameters.
TEST(Operators, GradientsAreThoseOfFiniteDifferences) {
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(c.op);
    if (c.gradient != CaseGradient::kSmooth) continue;
    seed_everything(2);
    Graph graph = one_operator_graph(c);
    Interpreter interpreter(graph);
    std::vector<at::Tensor> inputs = random_inputs(c, 2);
    std::vector<at::Tensor> leaves = interpreter.trainable_parameters();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (c.has_gradient(i)) leaves.push_back(inputs[i].set_requires_grad(true));
    }
    const at::Tensor weights = at::randn(interpreter.run(inputs).sizes());
    const auto loss = [&] { return interpreter.run(inputs).mul(weights).sum(); };
    loss().backward();
    double slope = 0;
    std::vector<at::Tensor> directions;
    for (const at::Tensor& leaf : leaves) {
      directions.push_back(at::randn(leaf.sizes()));
      slope += leaf.grad().mul(directions.back()).sum().item<double>();
    }
    constexpr double kStep = 1e-3;
    const auto moved_loss = [&](double step) {
      for (size_t i = 0; i < leaves.size(); ++i) leaves[i].detach().add_(directions[i], step);
      return loss().item<double>();
    };
    const double above = moved_loss(kStep);
    const double below = moved_loss(-2 * kStep);
    EXPECT_NEAR((above - below) / (2 * kStep), slope, 0.02 * std::abs(slope) + 0.05);
  }
}

TEST(Operators, DefinitionsOfFunctionsAreWhatIsEvaluated) {
  size_t functions = 0;
  for (const OperatorCase& c : operator_cases()) {
    const Graph graph = one_operator_graph(c);
    const auto* unary = trait<Unary>(graph.node("layer"));
    if (unary == nullptr) continue;
    SCOPED_TRACE(c.op);
    ++functions;
    const Unary::Function function = unary->function(graph.node("layer"));
    const at::Tensor x = random_inputs(c, 50)[0].mul(c.input(0).is_bounded ? 1 : 4);
    const Tensor result = from_torch(torch_output(graph, x));
    const Tensor inputs = from_torch(x);
    for (int64_t i = 0; i < inputs.numel(); ++i) {
      const auto at = static_cast<size_t>(i);
      const double expected = function(double{inputs.values<float>()[at]});
      EXPECT_NEAR(result.values<float>()[at], expected, 1e-6 * (1 + std::abs(expected)));
      if (unary->clamp) {
        EXPECT_EQ(result.values<float>()[at], static_cast<float>(expected));
      }
    }
  }
  EXPECT_GE(functions, 12U);
}

/// One element of the weight at a time is 1, and one channel of the input: the result is 0 but in the channel
/// that the element belongs to, and everywhere where the input's is another.
TEST(Operators, WeightsConnectTheChannelsThatTheTraitSays) {
  size_t layers = 0;
  for (const OperatorCase& c : operator_cases()) {
    const Graph graph = one_operator_graph(c).deep_copy();
    const Node& node = graph.node("layer");
    if (!is_weighted_sum(node)) continue;
    SCOPED_TRACE(c.op);
    ++layers;
    if (const Parameter* bias = node.find_parameter("bias")) to_torch(bias->tensor).zero_();
    const at::Tensor weight = to_torch(node.find_parameter("weight")->tensor);
    const WeightChannels channels(node);
    const at::Tensor x = at::ones(random_inputs(c, 1)[0].sizes());
    const auto axis = static_cast<int64_t>(channel_axis(node, static_cast<size_t>(x.dim())));
    for (int64_t i = 0; i < weight.numel(); ++i) {
      weight.zero_();
      weight.view(-1)[i] = 1;
      const at::Tensor result = torch_output(graph, x);
      EXPECT_EQ(result.size(axis), channels.outputs());
      const at::Tensor others = result.clone();
      others.select(axis, channels.output(i)).zero_();
      EXPECT_GT(result.abs().sum().item<float>(), 0) << i;
      EXPECT_EQ(others.abs().sum().item<float>(), 0) << i;
      at::Tensor without = x.clone();
      without.select(axis, channels.input(i)).zero_();
      EXPECT_EQ(torch_output(graph, without).abs().sum().item<float>(), 0) << i;
    }
  }
  EXPECT_GE(layers, 5U);
}

TEST(Operators, ElementsMoveAsTheyAreEvaluated) {
  size_t movements = 0;
  for (const OperatorCase& c : operator_cases()) {
    const Graph graph = one_operator_graph(c);
    const Node& node = graph.node("layer");
    if (trait<Movement>(node) == nullptr) continue;
    SCOPED_TRACE(c.op);
    ++movements;
    const std::vector<at::Tensor> inputs = random_inputs(c, 3);
    const Tensor expected = from_torch(torch_output(graph, inputs).contiguous());
    std::vector<Tensor> tensors;
    for (const at::Tensor& input : inputs) tensors.push_back(from_torch(input));
    EXPECT_TRUE(moved_elements(node, tensors, expected.shape(), 0, c.result).equals(expected));
  }
  EXPECT_GE(movements, 7U);
}

TEST(Operators, InstanceNormUsesRunningStatisticsInInference) {
  const auto with_running = std::ranges::find_if(operator_cases(), [](const OperatorCase& c) {
    return c.op == "instance_norm2d" && !c.parameters.empty();
  });
  Graph graph = one_operator_graph(*with_running);
  const auto parameter = [&](const char* name) {
    return to_torch(graph.node("layer").find_parameter(name)->tensor).view({1, 4, 1, 1});
  };
  const at::Tensor x = random_inputs(*with_running, 2)[0];
  const at::Tensor expected =
      (x - parameter("running_mean")) / (parameter("running_var") + 0.25).sqrt() * parameter("weight") +
      parameter("bias");
  EXPECT_TRUE(at::allclose(torch_output(graph, x), expected, 1e-5, 1e-5));
}

Graph embedding_graph(Table attributes) {
  GraphBuilder builder("words");
  const NodeInput x = builder.input("x", {3});
  return builder.finish(
      builder.layer("embedding", "words", {x}, {{"weight", {4, 2}}}, std::move(attributes)));
}

TEST(Operators, EmbeddingTakesIntegersAsFloatOrInt64AndNothingElse) {
  Graph graph = embedding_graph({});
  initialize_parameters(graph);
  const at::Tensor indices = to_torch(Tensor::from<float>({1, 3}, std::vector<float>{3, 0, 1}));
  Interpreter interpreter(graph);
  const at::Tensor rows = interpreter.run(indices);
  EXPECT_TRUE(rows[0][0].equal(to_torch(graph.node("words").find_parameter("weight")->tensor)[3]));
  GraphBuilder builder("whole");
  const NodeInput words = builder.input("words", TensorType{DType::kInt64, {kBatchName, 3}});
  Graph whole = builder.finish(builder.layer("embedding", "table", {words}, {{"weight", {4, 2}}}));
  const Tensor& table = graph.node("words").find_parameter("weight")->tensor;
  whole.node("table").find_parameter("weight")->tensor = table;
  EXPECT_TRUE(rows.equal(torch_output(whole, indices.to(at::kLong))));
  const auto operator_error = [&](const at::Tensor& wrong) -> std::string {
    return detent::error_of([&] { interpreter.run(wrong); });
  };
  EXPECT_THAT(operator_error(indices + 0.5), HasSubstr("node \"words\": input 0: an index is no integer"));
  EXPECT_THAT(operator_error(indices + 1),
              HasSubstr("node \"words\": input 0: got indices 1 to 4 of 4 rows"));
  EXPECT_EQ(operator_error(indices - 1), "") << "negative ones count from the end";
  EXPECT_THAT(operator_error(indices - 5), HasSubstr("got indices -5 to -2 of 4 rows"));
}

TEST(Operators, EmbeddingsPaddingRowIsZeroAndStaysSo) {
  Graph graph = embedding_graph({{"padding_idx", -1}});
  initialize_parameters(graph);
  EXPECT_EQ(to_torch(graph.node("words").find_parameter("weight")->tensor)[3].abs().sum().item<float>(), 0);
  Interpreter interpreter(graph);
  interpreter.run(to_torch(Tensor::from<float>({1, 3}, std::vector<float>{3, 0, 1}))).sum().backward();
  const at::Tensor gradient = interpreter.trainable_parameters()[0].grad();
  EXPECT_EQ(gradient[3].sum().item<float>(), 0);
  EXPECT_EQ(gradient[0].sum().item<float>(), 2);
}

Graph expand_graph(std::vector<NodeInput> sizes) {
  GraphBuilder builder("expand");
  const NodeInput x = builder.input("x", {3});
  const NodeInput batch = builder.call("size", {x, constant(0)});
  sizes.insert(sizes.begin(), {builder.parameter("token", {1, 2, 1}), batch});
  return builder.finish(builder.call("expand", std::move(sizes)));
}

TEST(Operators, ExpandRepeatsATensorOfTheNetworkForEachSample) {
  Graph graph = expand_graph({constant(-1), constant(4)});
  EXPECT_EQ(graph.node("token").parameter_key("value"), "token");
  EXPECT_EQ(infer_shapes(graph, 5).at("expand").shape, (Shape{5, 2, 4}));
  seed_everything(6);
  initialize_parameters(graph);
  Interpreter interpreter(graph);
  const at::Tensor result = interpreter.run(at::randn({5, 3}));
  const at::Tensor token = to_torch(graph.node("token").find_parameter("value")->tensor);
  EXPECT_GT(token.abs().max().item<float>(), 0);
  EXPECT_LT(token.abs().max().item<float>(), 0.2F);
  EXPECT_EQ(result.sizes().vec(), (Shape{5, 2, 4}));
  EXPECT_TRUE(result[3].select(1, 2).equal(token[0].select(1, 0)));
  result.sum().backward();
  EXPECT_EQ(interpreter.trainable_parameters().at(0).grad()[0][1][0].item<float>(), 20);
  EXPECT_THROW(expand_graph({constant(3), constant(4)}), Error);
  EXPECT_THROW(expand_graph({constant(2)}), Error);
}

TEST(Operators, InitialValuesAreThoseOfPyTorch) {
  // torch.manual_seed(0); torch.nn.Embedding(4, 2).weight[0]
  seed_everything(0);
  Graph words = embedding_graph({});
  initialize_parameters(words);
  const auto weight = words.node("words").find_parameter("weight")->tensor.values<float>();
  EXPECT_FLOAT_EQ(weight[0], 1.5409961F);
  EXPECT_FLOAT_EQ(weight[1], -0.2934289F);

  for (const OperatorCase& c : operator_cases()) {
    if (c.op != "convtranspose2d" && c.op != "layer_norm") continue;
    Graph graph = one_operator_graph(c);
    initialize_parameters(graph);
    const auto values = graph.node("layer").find_parameter("weight")->tensor.values<float>();
    const auto bias = graph.node("layer").find_parameter("bias")->tensor.values<float>();
    if (c.op == "layer_norm") {
      EXPECT_THAT(values, testing::Each(1.0F));
      EXPECT_THAT(bias, testing::Each(0.0F));
    } else {
      const float bound = 1 / std::sqrt(3.0F * 3 * 2);  // fan_in is weight.size(1) * kh * kw
      EXPECT_THAT(values, testing::Each(testing::AllOf(testing::Ge(-bound), testing::Le(bound))));
      EXPECT_GT(*std::ranges::max_element(values), 0.9F * bound);
    }
  }
}

/// The error of a network of one node.
std::string operator_error(const char* op, std::vector<Shape> inputs,
                           std::vector<std::pair<std::string, Shape>> parameters, Table attributes) {
  return detent::error_of([&] {
    one_operator_graph({op, {inputs.begin(), inputs.end()}, std::move(parameters), std::move(attributes)});
  });
}

TEST(Operators, SayWhatDoesNotFit) {
  EXPECT_THAT(
      operator_error("gelu", {{3}}, {}, {{"approximate", "erf"}}),
      HasSubstr("node \"layer\" (gelu): attribute \"approximate\": got \"erf\", expected one of none, tanh"));
  EXPECT_THAT(operator_error("softplus", {{3}}, {}, {{"beta", 0}}), HasSubstr("attribute \"beta\": got 0"));
  EXPECT_THAT(operator_error("bmm", {{3, 4}, {3, 4}}, {}, {}),
              HasSubstr("got shapes [1, 3, 4] and [1, 3, 4], expected [b, m, k]"));
  EXPECT_THAT(operator_error("layer_norm", {{3, 4}}, {}, {{"normalized_shape", 3}}),
              HasSubstr("attribute \"normalized_shape\": got [3], expected the last dimensions of the "
                        "input's shape [1, 3, 4]"));
  EXPECT_THAT(operator_error("layer_norm", {{3, 4}}, {}, {}),
              HasSubstr("attribute \"normalized_shape\": got NA"));
  EXPECT_THAT(operator_error("rms_norm", {{4}}, {{"weight", {3}}}, {{"normalized_shape", 4}}),
              HasSubstr("parameter \"weight\": got shape [3], expected [4]"));
  EXPECT_THAT(operator_error("group_norm", {{4, 3}}, {}, {{"num_groups", 3}}),
              HasSubstr("attribute \"num_groups\": got 3, expected a divisor of the 4 channels"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 1}, {"steps", 0}}),
              HasSubstr("attribute \"steps\": got 0, expected at least 1"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 1}, {"starts", 3}}),
              HasSubstr("nothing is left of dimension 1"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 3}}),
              HasSubstr("dimension 3 of a tensor of rank 3"));
  EXPECT_THAT(operator_error("select", {{3, 4}}, {}, {{"dim", 1}, {"index", 3}}),
              HasSubstr("attribute \"index\": got 3, expected -3 to 2"));
  EXPECT_THAT(operator_error("pad", {{3, 4}}, {}, {{"pad", List{Value(1)}}}),
              HasSubstr("attribute \"pad\": got [1], expected two numbers a dimension"));
  EXPECT_THAT(operator_error("pad", {{3, 4}}, {}, {{"pad", List{Value(1), Value(-1)}}}),
              HasSubstr("attribute \"pad\": got -1, expected 0 to 2147483648"));
  EXPECT_THAT(operator_error("cat", {{3, 4}, {3, 5}}, {}, {{"dim", 1}}),
              HasSubstr("got shapes [1, 3, 4] and [1, 3, 5], expected equal ones but for dimension 1"));
  EXPECT_THAT(operator_error("permute", {{3, 4}}, {}, {{"dims", List{Value(0), Value(1), Value(1)}}}),
              HasSubstr("attribute \"dims\": got [0, 1, 1], expected each of 3 dimensions once"));
  EXPECT_THAT(operator_error("instance_norm2d", {{4, 3}}, {}, {}), HasSubstr("expected 4 dimensions"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 1}, {"steps", 0}}),
              HasSubstr("attribute \"steps\": got 0, expected at least 1"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 1}, {"starts", 3}}),
              HasSubstr("nothing is left of dimension 1"));
  EXPECT_THAT(operator_error("slice", {{3, 4}}, {}, {{"dims", 3}}),
              HasSubstr("dimension 3 of a tensor of rank 3"));
  EXPECT_THAT(operator_error("select", {{3, 4}}, {}, {{"dim", 1}, {"index", 3}}),
              HasSubstr("attribute \"index\": got 3, expected -3 to 2"));
  EXPECT_THAT(operator_error("pad", {{3, 4}}, {}, {{"pad", List{Value(1)}}}),
              HasSubstr("attribute \"pad\": got [1], expected two numbers a dimension"));
  EXPECT_THAT(operator_error("pad", {{3, 4}}, {}, {{"pad", List{Value(1), Value(-1)}}}),
              HasSubstr("attribute \"pad\": got -1, expected 0 to 2147483648"));
  EXPECT_THAT(operator_error("cat", {{3, 4}, {3, 5}}, {}, {{"dim", 1}}),
              HasSubstr("got shapes [1, 3, 4] and [1, 3, 5], expected equal ones but for dimension 1"));
  EXPECT_THAT(operator_error("permute", {{3, 4}}, {}, {{"dims", List{Value(0), Value(1), Value(1)}}}),
              HasSubstr("attribute \"dims\": got [0, 1, 1], expected each of 3 dimensions once"));
  EXPECT_THAT(operator_error("instance_norm2d", {{4, 3, 3}}, {{"running_mean", {4}}}, {}),
              HasSubstr("only one of"));
  EXPECT_THAT(operator_error("embedding", {{4}}, {{"weight", {4, 2}}}, {{"padding_idx", 4}}),
              HasSubstr("attribute \"padding_idx\": got 4, expected -4 to 3"));
  EXPECT_THAT(operator_error("convtranspose2d", {{4, 3, 3}}, {{"weight", {3, 4, 2, 2}}}, {}),
              HasSubstr("expected [N, C, ...] and [C, O / groups, ...]"));
  EXPECT_THAT(
      operator_error("convtranspose2d", {{4, 3, 3}}, {{"weight", {4, 4, 2, 2}}}, {{"output_padding", 1}}),
      HasSubstr("attribute \"output_padding\": got 1"));
  EXPECT_THAT(operator_error("convtranspose2d", {{4, 1, 1}}, {{"weight", {4, 4, 2, 2}}}, {{"padding", 1}}),
              HasSubstr("padding 1 leaves nothing"));
}

}  // namespace
}  // namespace detent
