#include "detent/inference/integer_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <cmath>
#include <numeric>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// x [1, 1, 2, 2], times 2 and minus 1 in codes of a half; then relu.
Graph small_network() {
  GraphBuilder builder("small");
  const NodeInput x = builder.input("x", {1, 2, 2});
  const NodeInput y = builder.convolution("conv", x, 1, 1, {1, 1}, {});
  Graph graph = builder.finish(builder.call("relu", {y}));
  Node& conv = graph.node("conv");
  conv.find_parameter("weight")->tensor.values<float>()[0] = 2;
  conv.find_parameter("bias")->tensor.values<float>()[0] = -1;
  conv.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
  conv.quantization["weight"] = parse_quant_spec_text("affine:scale=0.25");
  conv.quantization["data_out_0"] = parse_quant_spec_text("affine:width=4,scale=0.5,zero_point=-2");
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

TEST(IntegerExecutor, ComputesOnCodes) {
  const Graph graph = small_network();
  IntegerProgram executor(graph);
  const Tensor x = Tensor::from<float>({1, 1, 2, 2}, std::vector<float>{0.2F, 1.3F, 9, -4});
  std::vector<std::string> seen;
  const auto observe = [&](const Node& node, std::string_view operand, const Tensor& value) {
    seen.push_back(fmt::format("{} {} {}", node.name, operand, value.values<float>()[1]));
  };
  const Tensor y = executor.run(std::span(&x, 1), {observe}).front();
  // Inputs become 0, 1.5, 9, -4; 2 x - 1 saturates at (7 + 2) / 2 = 4.5.
  EXPECT_THAT(y.values<float>(), ElementsAre(0, 2, 4.5, 0));
  EXPECT_THAT(seen, ElementsAre("x data_out_0 1.3", "conv data_in_0 1.5", "conv data_out_0 2",
                                "relu data_in_0 2", "relu data_out_0 2", "output data_in_0 2"));
  EXPECT_EQ(executor.sum_bound("conv"), 8 * 128 + 8);
  EXPECT_EQ(executor.sum_bound("relu"), 0);
}

TEST(IntegerExecutor, RoundsOperandsOfOtherFormatsToTheirValues) {
  Graph graph = small_network();
  graph.node("relu").quantization["data_out_0"] = parse_quant_spec_text("fixed:width=3,frac_width=0");
  const Tensor x = Tensor::from<float>({1, 1, 2, 2}, std::vector<float>{0.2F, 1.3F, 9, -4});
  EXPECT_THAT(error_of([&] { check_integer_execution(graph); }),
              HasSubstr("node \"relu\" (relu): operand \"data_out_0\" has the format fixed"));
  const Tensor y = IntegerProgram(graph).run(std::span(&x, 1)).front();
  EXPECT_THAT(y.values<float>(), ElementsAre(0, 2, 3, 0));  // of 0, 2, 4.5, 0 in integers to 3
  graph.set_requantization(std::nullopt);
  EXPECT_THAT(IntegerProgram(graph).run(std::span(&x, 1)).front().values<float>(), ElementsAre(0, 2, 3, 0));
}

TEST(IntegerExecutor, ShowsWhatIsAskedForBeforeAndAfterRounding) {
  Graph graph = small_network();
  graph.node("relu").quantization["data_in_0"] = parse_quant_spec_text("fixed:width=3,frac_width=0");
  const IntegerProgram program(graph);
  const Tensor x = Tensor::from<float>({1, 1, 2, 2}, std::vector<float>{0.2F, 1.3F, 9, -4});
  const auto seen = [&](ObservedValues values, const Observation::Operands& operands) {
    std::vector<float> shown;
    const auto observe = [&](const Node&, std::string_view, const Tensor& value) {
      shown.insert(shown.end(), value.values<float>().begin(), value.values<float>().end());
    };
    program.run(std::span(&x, 1), {observe, values, operands});
    return shown;
  };
  constexpr auto kBefore = ObservedValues::kBeforeQuantization;
  constexpr auto kAfter = ObservedValues::kAfterQuantization;
  EXPECT_THAT(seen(kBefore, {{"conv", "data_in_0"}}), ElementsAre(0.2F, 1.3F, 9, -4));
  EXPECT_THAT(seen(kBefore, {{"conv", "data_out_0"}}), ElementsAre(-1, 2, 17, -9));
  EXPECT_THAT(seen(kAfter, {{"conv", "data_out_0"}}), ElementsAre(-1, 2, 4.5F, -3));
  EXPECT_THAT(seen(kBefore, {{"relu", "data_in_0"}}), ElementsAre(-1, 2, 4.5F, -3));
  EXPECT_THAT(seen(kAfter, {{"relu", "data_in_0"}}), ElementsAre(-1, 2, 3, -3));
  EXPECT_THAT(seen(kAfter, {}), IsEmpty());
}

TEST(IntegerExecutor, WantsAsManyInputsAsTheGraph) {
  const Graph graph = small_network();
  IntegerProgram executor(graph);
  EXPECT_THROW(executor.run({}), Error);
  const auto error_of = [&](const Tensor& x) -> std::string {
    return detent::error_of([&] { executor.run(std::span(&x, 1)); });
  };
  EXPECT_EQ(error_of(Tensor(DType::kFloat32, {3, 1, 2, 2})), "");
  EXPECT_THAT(error_of(Tensor(DType::kUInt8, {1, 1, 2, 2})), HasSubstr("got uint8 of shape [1, 1, 2, 2]"));
  EXPECT_THAT(error_of(Tensor(DType::kFloat32, {1, 1, 2})), HasSubstr("expected float32 [N, 1, 2, 2]"));
}

TEST(IntegerExecutor, SaysWhichSizesEarlierInputsGave) {
  GraphBuilder builder("two");
  const NodeInput x = builder.input("x", {3});
  Graph graph = builder.finish(builder.call("add", {x, builder.input("y", {3})}));
  const IntegerProgram executor(graph);
  const std::vector<Tensor> inputs = {Tensor(DType::kFloat32, {2, 3}), Tensor(DType::kFloat32, {4, 3})};
  EXPECT_EQ(
      error_of([&] { executor.run(inputs); }),
      "input \"y\": got float32 of shape [4, 3], expected float32 [N, 3] where N is 2 as in earlier inputs");
}

TEST(IntegerExecutor, RefusesTensorsOfDifferentTypes) {
  GraphBuilder builder("bytes");
  const NodeInput x = builder.input("x", {10, 10});
  const NodeInput moved =
      builder.call("transpose", {builder.parameter("table", {1, 10, 10})}, {{"dim0", 1}, {"dim1", 2}});
  Graph graph = builder.finish(builder.call("cat", {x, moved}));
  graph.set_requantization(Requantization::kFloat);
  const IntegerProgram executor(graph);
  graph.node("table").find_parameter("value")->tensor = Tensor(DType::kUInt8, {1, 10, 10});
  EXPECT_THROW(IntegerProgram{graph}, Error);
}

TEST(IntegerExecutor, MultipliesPartsOfATensor) {
  GraphBuilder builder("parts");
  const NodeInput parts =
      builder.call("split", {builder.input("x", {2, 4})}, {{"dim", 2}, {"sizes", List{Value(2), Value(2)}}});
  Graph graph = builder.finish(builder.call("matmul", {parts, NodeInput::of(parts.node, 1)}));
  Node& product = graph.node("matmul");
  product.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
  product.quantization["data_in_1"] = parse_quant_spec_text("affine:scale=0.25,zero_point=1");
  product.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=1,zero_point=-2");
  graph.set_requantization(Requantization::kFloat);
  const Tensor x = Tensor::from<float>({1, 2, 4}, std::vector<float>{1, -2, 0.5F, 3, 0.25F, 4, -1, 2});
  // 0.25 becomes 0, and 1 * 0.5 + -2 * -1 = 2.5 becomes 2.
  EXPECT_THAT(IntegerProgram(graph).run(std::span(&x, 1)).front().values<float>(), ElementsAre(2, -1, -4, 8));
}

/// Codes become values for what has no integer form, and its results codes again.
TEST(IntegerExecutor, ComputesInFloatWhatHasNoIntegerForm) {
  GraphBuilder builder("norm");
  NodeInput x = builder.linear("fc1", builder.input("x", {2}), 2, 2, false);
  x = builder.call("sinh", {x});
  Graph graph = builder.finish(builder.linear("fc2", x, 2, 1, false));
  for (const char* name : {"fc1", "fc2"}) {
    Node& node = graph.node(name);
    std::ranges::fill(node.find_parameter("weight")->tensor.values<float>(), 1.0F);
    node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
    node.quantization["weight"] = parse_quant_spec_text("affine:scale=0.25");
  }
  graph.node("fc1").quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.25");
  graph.node("sinh").quantization.clear();
  graph.set_requantization(Requantization::kFloat);
  std::vector<float> seen;
  const auto observe = [&](const Node& node, std::string_view operand, const Tensor& values) {
    if (node.name == "sinh" && operand == "data_in_0")
      seen.assign(values.values<float>().begin(), values.values<float>().end());
  };
  const Tensor input = Tensor::from<float>({1, 2}, std::vector<float>{1.1F, 0.6F});
  // 1 + 0.5 twice; sinh(1.5) = 2.13 becomes 2.
  EXPECT_THAT(IntegerProgram(graph).run(std::span(&input, 1), {observe}).front().values<float>(),
              ElementsAre(4));
  EXPECT_THAT(seen, ElementsAre(1.5F, 1.5F));
}

TEST(IntegerExecutor, TakesIndicesAndGivesPositions) {
  GraphBuilder builder("tokens");
  const NodeInput tokens = builder.input("tokens", TensorType{DType::kInt64, {kBatchName, 3}});
  const NodeInput rows = builder.layer("embedding", "rows", {tokens}, {{"weight", {4, 2}}});
  Graph graph = builder.finish({builder.call("argmax", {rows}, {{"dim", 2}, {"keepdim", false}}), rows});
  const auto weight = graph.node("rows").find_parameter("weight")->tensor.values<float>();
  std::ranges::copy(std::vector<float>{1, 2, 4, 3, 5, 6, 8, 7}, weight.begin());
  const Tensor input = Tensor::from<int64_t>({1, 3}, std::vector<int64_t>{3, 0, 1});
  const std::vector<Tensor> results = IntegerProgram(graph).run(std::span(&input, 1));
  EXPECT_THAT(results.at(0).values<int64_t>(), ElementsAre(0, 1, 0));
  EXPECT_THAT(results.at(1).values<float>(), ElementsAre(8, 7, 1, 2, 4, 3));
  const Tensor beyond = Tensor::from<int64_t>({1, 3}, std::vector<int64_t>{3, 4, 1});
  EXPECT_THAT(error_of([&] { IntegerProgram(graph).run(std::span(&beyond, 1)); }),
              HasSubstr("node \"rows\" (embedding): got the index 4 of a dimension of 4"));
}

/// How many indices there are only the run knows: too many would read and write beyond the tensors.
TEST(IntegerExecutor, RefusesMoreIndicesThanElements) {
  const auto error = [](const std::string& op, const Shape& of, Table attributes, const Shape& updates,
                        const std::vector<float>& values) {
    GraphBuilder builder("positions");
    const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {std::ssize(values)}});
    const NodeInput found = builder.call("nonzero", {x});
    const NodeInput rows = builder.call("permute", {found}, {{"dims", std::vector<int64_t>{1, 0}}});
    std::vector<NodeInput> inputs = {builder.parameter("of", of), rows};
    if (!updates.empty()) inputs.push_back(builder.parameter("updates", updates));
    const IntegerProgram program(builder.finish(builder.call(op, inputs, std::move(attributes))));
    const Tensor input = Tensor::from(Shape{std::ssize(values)}, values);
    return error_of([&] { program.run(std::span(&input, 1)); });
  };
  const std::vector<float> two = {1, 0, 1, 0};
  const std::vector<float> none = {0, 0, 0, 0};
  const char* const indices = "got indices of shape [2, 1] for a tensor of shape [1, 4]";
  EXPECT_THAT(error("gather_elements", {1, 4}, {{"dim", 1}}, {}, two), HasSubstr(indices));
  EXPECT_THAT(error("scatter_elements", {1, 4}, {{"dim", 1}}, {2, 1}, two), HasSubstr(indices));
  EXPECT_THAT(error("scatter_elements", {4, 1}, {{"dim", 0}}, {1, 1}, two),
              HasSubstr("got elements of shape [1, 1], expected 2 of them"));
  EXPECT_THAT(error("scatter_nd", {4}, {}, {1}, two),
              HasSubstr("got elements of shape [1], expected 2 of them"));
  EXPECT_THAT(error("gather_nd", {3, 4}, {{"batch_dims", 1}}, {}, none),
              HasSubstr("got indices of shape [0, 1] for a tensor of shape [3, 4]"));
}

TEST(IntegerExecutor, NamesTheNodeWhoseOperandsCannotBe) {
  GraphBuilder builder("quotients");
  const NodeInput x = builder.input("x", TensorType{DType::kInt64, {kBatchName, 2}});
  const NodeInput y = builder.input("y", TensorType{DType::kInt64, {kBatchName, 2}});
  const IntegerProgram program(builder.finish(builder.call("div", {x, y})));
  const std::vector<int64_t> least = {-7, std::numeric_limits<int64_t>::min()};
  std::vector<Tensor> inputs = {Tensor::from<int64_t>({1, 2}, least),
                                Tensor::from<int64_t>({1, 2}, std::vector<int64_t>{2, -1})};
  EXPECT_THAT(program.run(inputs).front().values<int64_t>(), ElementsAre(-3, least[1]));
  inputs[1].values<int64_t>()[0] = 0;
  EXPECT_EQ(error_of([&] { program.run(inputs); }), "node \"div\" (div): division of integers by zero");
}

}  // namespace
}  // namespace detent
