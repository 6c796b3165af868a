#include "detent/onnx/open_sizes.h"

#include <gtest/gtest.h>

#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/graph/value_sizes.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"

namespace detent {
namespace {

Operand known(const std::vector<int64_t>& values) {
  const Tensor tensor = Tensor::from<int64_t>({std::ssize(values)}, values);
  return {tensor.shape(), Value(), tensor.dtype(), false, tensor};
}

bool depends(const Node& node, const std::vector<Operand>& first, const std::vector<Operand>& second) {
  return depends_on_open_sizes(node, first, second, infer_results(node, first).at(0),
                               infer_results(node, second).at(0));
}

TEST(OpenSizes, DecideWhatTwoOfThemDoNot) {
  const Node quotient{.name = "n", .op = "div"};
  EXPECT_TRUE(depends(quotient, {known({64}), known({100})}, {known({96}), known({100})}));
  EXPECT_FALSE(depends(quotient, {known({64}), known({64})}, {known({96}), known({96})})) << "1 for all";
  EXPECT_FALSE(depends(quotient, {known({64}), known({2})}, {known({64}), known({2})})) << "nothing is open";
}

/// Exporters give lists of ones as ConstantOfShape of the shape of a list of sizes.
TEST(OpenSizes, DoNotChangeHowManyThereAre) {
  const Node shape{.name = "n", .op = "shape_of", .attributes = {{"start", 0}, {"end", Value()}}};
  EXPECT_FALSE(depends(shape, {known({64, 1, 1})}, {known({96, 1, 1})}));
}

/// A list whose length is open lies on no line: what is read at an open place of it is not known.
TEST(OpenSizes, TakeListsOfOtherLengths) {
  const std::vector<int64_t> longer(100, 5);
  const std::vector<int64_t> shorter(9, 5);
  const Node gather{.name = "n", .op = "gather", .attributes = {{"dim", 0}}};
  EXPECT_TRUE(depends(gather, {known(longer), known({1})}, {known(shorter), known({2})}));
}

/// Windows of stride 4 round down: what they leave over is the same for multiples of 4 alone.
TEST(OpenSizes, OthersLeaveOtherRemainders) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {1, 1, Dimension("T", 64)}});
  const NodeInput windows = builder.convolution("conv", x, 1, 1, {4}, {{"stride", 4}});
  const NodeInput length = builder.call("shape_of", {x}, {{"start", 2}});
  const NodeInput count = builder.call("shape_of", {windows}, {{"start", 2}});
  const NodeInput four = NodeInput::of_constant(Value(4));
  const NodeInput rest = builder.call("sub", {length, builder.call("mul", {count, four})});
  const NodeInput none = builder.call("sub", {length, length});
  const Graph graph = builder.finish({rest, none});
  const NamedSizes first = {{"T", 64}};
  const ValueTypes tried = infer_shapes(graph, first);
  const ValueTypes second = infer_shapes(graph, NamedSizes{{"T", 96}});
  OtherSizes others;
  const auto differ = [&](const NodeInput& value) {
    return others.differ(graph, first, value.node, tried.at(value.node), second.at(value.node));
  };
  EXPECT_TRUE(differ(rest));
  EXPECT_FALSE(differ(none));
  EXPECT_FALSE(differ(length)) << "not the same for both";
}

/// Images [batch, 2] and texts [batch, length, 2], with a mask [batch, length], that are compared.
TEST(OpenSizes, OfOneNameMayBeIndependent) {
  OnnxModelForTest model(17);
  model.input("images", {-1, 2});
  model.input("texts", {-1, -2, 2});
  model.input("mask", {-1, -2});
  model.output("scores");
  model.constant<int64_t>("last", {1}, {-1});
  model.constant<int64_t>("middle", {1}, {1});
  model.node("Unsqueeze", {"mask", "last"}, {"column"});
  model.node("Mul", {"texts", "column"}, {"masked"});
  model.node("ReduceSum", {"masked", "middle"}, {"sums"}, {{"keepdims", 0}});
  model.node("Transpose", {"sums"}, {"columns"});
  model.node("MatMul", {"images", "columns"}, {"scores"});
  const Graph graph = import_onnx(model.write());
  const auto type_of = [&](const char* input) {
    return tensor_type_text(graph.input_types().find(input)->second);
  };
  EXPECT_EQ(type_of("images"), "float32 [N, 2]");
  EXPECT_EQ(type_of("texts"), "float32 [texts_0, open2, 2]");
  EXPECT_EQ(type_of("mask"), "float32 [texts_0, open2]");
  const Tensor images = Tensor::from(Shape{1, 2}, std::vector<float>{1, 2});
  const Tensor texts = Tensor::from(Shape{2, 1, 2}, std::vector<float>{3, 4, 5, 6});
  const Tensor mask = Tensor::from(Shape{2, 1}, std::vector<float>{1, 2});
  EXPECT_TRUE(FastProgram(graph).run({{images, texts, mask}})[0].equals(
      Tensor::from(Shape{1, 2}, std::vector<float>{11, 34})));
  // One of each is the same with both.
  model.node("Add", {"images", "sums"}, {"joined"});
  model.output("joined");
  EXPECT_EQ(tensor_type_text(import_onnx(model.write()).input_types().find("texts")->second),
            "float32 [N, open2, 2]");
}

/// Two networks in one, whose results are added, or joined along the features.
std::vector<std::string> sizes_of_inputs(const std::string& joining, const std::vector<std::string>& names) {
  OnnxModelForTest model(17);
  model.input("a", {-1, 2});
  model.input("b", {-1, 2});
  for (int i = 0; i < 2; ++i)
    model.graph()
        .mutable_input(i)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(names.at(static_cast<size_t>(i)));
  model.output("y");
  if (joining == "Concat") {
    model.node(joining, {"a", "b"}, {"y"}, {{"axis", 1}});
  } else {
    model.node(joining, {"a", "b"}, {"y"});
  }
  const Graph graph = import_onnx(model.write());
  return {tensor_type_text(graph.input_types().find("a")->second),
          tensor_type_text(graph.input_types().find("b")->second)};
}

TEST(OpenSizes, OfABatchWithSeveralNamesAreOne) {
  const std::vector<std::string> joined = {"float32 [N, 2]", "float32 [N, 2]"};
  EXPECT_EQ(sizes_of_inputs("Concat", {"batch_a", "batch_b"}), joined);
  EXPECT_EQ(sizes_of_inputs("Concat", {"unk__7", "unk__8"}), joined);
  EXPECT_EQ(sizes_of_inputs("Add", {"unk__7", "unk__8"}), joined);
  const std::vector<std::string> repeated = {"float32 [N, 2]", "float32 [batch_b, 2]"};
  EXPECT_EQ(sizes_of_inputs("Add", {"batch_a", "batch_b"}), repeated) << "one row serves all";
}

/// A sum ties one size of a product to the batch; the other is as free as before.
TEST(OpenSizes, OutputsHaveTheNamesOfTheirOwnSizes) {
  OnnxModelForTest model(17);
  model.input("x", {-1});
  model.input("row", {-2});
  model.input("rows", {-3, -2});
  model.output("product");
  model.output("sum");
  model.node("Mul", {"row", "rows"}, {"product"});
  model.node("Add", {"product", "x"}, {"sum"});
  const Graph graph = import_onnx(model.write());
  const auto& types = graph.input_types();
  EXPECT_EQ(types.at("rows").shape[1].size, types.at("row").shape[0].size) << "one usual size";
  const auto shapes = open_shapes(graph, graph.nodes().back().inputs);
  const std::string own = types.at("rows").shape[0].symbol;
  for (const std::vector<std::string>& shape : shapes)
    EXPECT_EQ(shape, (std::vector<std::string>{own, kBatchName}));
}

}  // namespace
}  // namespace detent
