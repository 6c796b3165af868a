#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/convert.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"

// Functions of a model's own, and the types of floats that nodes pass on.

namespace detent {
namespace {

using testing::ElementsAre;

constexpr int64_t kOpsetOfFunctions = 17;
constexpr int kOverloadOfNodes = 8;
constexpr int kOverloadOfFunctions = 13;

/// A model of x and y with functions in the domain "own".
class OnnxFunctions : public testing::Test {
 protected:
  OnnxFunctions() {
    auto& own = *model.proto.add_opset_import();
    own.set_domain("own");
    own.set_version(1);
    model.input("x", {3});
    model.output("y");
  }

  onnx::FunctionProto& function(const std::string& name, const std::vector<std::string>& inputs) {
    onnx::FunctionProto& added = *model.proto.add_functions();
    added.set_domain("own");
    added.set_name(name);
    for (const std::string& input : inputs) added.add_input(input);
    added.add_output("result");
    added.add_opset_import()->set_version(kOpsetOfFunctions);
    auto& own = *added.add_opset_import();
    own.set_domain("own");
    own.set_version(1);
    return added;
  }

  onnx::NodeProto& call(const std::string& name, const std::vector<std::string>& inputs,
                        const std::vector<OnnxAttribute>& attributes = {}) {
    onnx::NodeProto& node = model.node(name, inputs, {"y"}, attributes);
    node.set_domain("own");
    return node;
  }

  std::vector<float> result(const std::vector<float>& x) const {
    const Graph graph = import_onnx(model.write());
    const std::vector<Tensor> inputs = {Tensor::from({std::ssize(x)}, x)};
    const Tensor y = IntegerExecutor().compile(graph)->run(inputs).at(0);
    const Tensor numbers = to_dtype(y, DType::kFloat32);
    return {numbers.values<float>().begin(), numbers.values<float>().end()};
  }

  OnnxModelForTest model{kOpsetOfFunctions};
};

onnx::AttributeProto float_attribute(const std::string& name, float number) {
  onnx::AttributeProto attribute;
  OnnxAttribute(name, number).write(attribute);
  return attribute;
}

/// A LeakyRelu whose slope is the function's attribute.
onnx::NodeProto leaky_relu(const std::string& input, const std::string& output, const std::string& slope) {
  onnx::NodeProto node = onnx_node("LeakyRelu", {input}, {output});
  onnx::AttributeProto& reference = *node.add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name(slope);
  reference.set_type(onnx::AttributeProto::FLOAT);
  return node;
}

TEST_F(OnnxFunctions, TakeDefaultsForAttributesThatTheCallDoesNotGive) {
  onnx::FunctionProto& leaky = function("Leaky", {"a"});
  add_default_attribute(leaky, float_attribute("slope", 0.5F));
  *leaky.add_node() = leaky_relu("a", "result", "slope");
  call("Leaky", {"x"});
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(-0.5F, 0, 2));
  *model.graph().mutable_node(0)->add_attribute() = float_attribute("slope", 0.25F);
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(-0.25F, 0, 2));
}

TEST_F(OnnxFunctions, OfOneNameAreToldApartByTheirOverload) {
  for (const auto& [overload, op] : {std::pair("first", "Neg"), std::pair("second", "Abs")}) {
    onnx::FunctionProto& either = function("Either", {"a"});
    set_overload(either, kOverloadOfFunctions, overload);
    *either.add_node() = onnx_node(op, {"a"}, {"result"});
  }
  set_overload(call("Either", {"x"}), kOverloadOfNodes, "second");
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(1, 0, 2));
}

TEST_F(OnnxFunctions, GiveAttributesToTheNodesOfTheirBranchesToo) {
  onnx::GraphProto branch;
  branch.set_name("taken");
  *branch.add_node() = leaky_relu("a", "leaky", "slope");
  branch.add_output()->set_name("leaky");
  onnx::FunctionProto& leaky = function("Leaky", {"a", "truth"});
  leaky.add_attribute("slope");
  *leaky.add_node() =
      onnx_node("If", {"truth"}, {"result"}, {{"then_branch", branch}, {"else_branch", branch}});
  onnx::TensorProto truth = onnx_tensor<uint8_t>("truth", {}, {1});
  truth.set_data_type(onnx::TensorProto::BOOL);
  *model.graph().add_initializer() = truth;
  call("Leaky", {"x", "truth"}, {{"slope", 0.5F}});
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(-0.5F, 0, 2));
}

TEST_F(OnnxFunctions, ReadNothingFromInputsThatTheCallLeavesOut) {
  model.constant<float>("one", {}, {1});
  onnx::FunctionProto& clip = function("OwnClip", {"a", "low", "high"});
  *clip.add_node() = onnx_node("Clip", {"a", "low", "high"}, {"result"});
  call("OwnClip", {"x", "one"});
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(1, 1, 2));
  onnx::NodeProto& node = *model.graph().mutable_node(0);
  *node.mutable_input(1) = "";
  node.add_input("one");
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(-1, 0, 1));
  onnx::FunctionProto& outer = function("Outer", {"a", "bound"});
  *outer.add_node() = onnx_node("OwnClip", {"a", "bound"}, {"result"});
  outer.mutable_node(0)->set_domain("own");
  model.graph().clear_node();
  call("Outer", {"x"});
  EXPECT_THAT(result({-1, 0, 2}), ElementsAre(-1, 0, 2));
}

class OnnxFloatTypes : public OnnxFunctions {
 protected:
  /// As float16 after a node that keeps the type.
  std::string half_negated() {
    model.node("Cast", {"x"}, {"half"}, {{"to", int64_t{onnx::TensorProto::FLOAT16}}});
    model.node("Neg", {"half"}, {"negated"});
    return "negated";
  }
};

TEST_F(OnnxFloatTypes, ClipOfConstantsMayLackABound) {
  model.constant<float>("constant", {3}, {-2, 0, 2});
  model.constant<float>("one", {}, {1});
  model.node("Clip", {"constant", "", "one"}, {"bounded"});
  model.node("Add", {"x", "bounded"}, {"y"});
  EXPECT_THAT(result({0, 0, 0}), ElementsAre(-2, 0, 1));
}

TEST_F(OnnxFloatTypes, CastLikeRoundsToTheTypeOfItsSecondInput) {
  model.node("CastLike", {"x", half_negated()}, {"short"});
  model.node("Cast", {"short"}, {"y"}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  EXPECT_THAT(result({1.0001F, 70000, -2}), ElementsAre(1, std::numeric_limits<float>::infinity(), -2));
}

TEST_F(OnnxFloatTypes, ClipWithoutABoundEndsWhereTheTypeDoes) {
  model.node("Clip", {half_negated()}, {"bounded"});
  model.node("Cast", {"bounded"}, {"y"}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  EXPECT_THAT(result({-INFINITY, INFINITY, 1}), ElementsAre(65504, -65504, -1));
}

}  // namespace
}  // namespace detent
