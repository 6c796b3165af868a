#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"

// Differences between versions of ONNX's operators and of its files.

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr int64_t kNewest = 26;

std::string import_error(const OnnxModelForTest& model) {
  return error_of([&] { import_onnx(model.write()); });
}

/// Standard error of an import.
std::string import_log(const OnnxModelForTest& model) {
  set_up_logging("warning");
  testing::internal::CaptureStderr();
  import_onnx(model.write());
  return testing::internal::GetCapturedStderr();
}

Floats result_of(const OnnxModelForTest& model, const std::vector<Tensor>& inputs) {
  const Tensor y = IntegerExecutor().compile(import_onnx(model.write()))->run(inputs).at(0);
  return {y.values<float>().begin(), y.values<float>().end()};
}

/// Neg of two numbers.
void negate(OnnxModelForTest& model) {
  model.input("x", {2});
  model.output("y");
  model.node("Neg", {"x"}, {"y"});
}

std::string error_with(auto change) {
  OnnxModelForTest model(17);
  negate(model);
  change(model.proto);
  return import_error(model);
}

TEST(OnnxVersions, AllUpToTheNewestOneAreReadWithoutWarnings) {
  for (int64_t opset = 1; opset <= kNewest; ++opset) {
    OnnxModelForTest model(opset);
    negate(model);
    EXPECT_EQ(import_log(model), "") << opset;
    EXPECT_EQ(result_of(model, {Tensor::from({2}, Floats{1, -2})}), (Floats{-1, 2})) << opset;
  }
}

TEST(OnnxVersions, NewerOnesAreReadWithOneWarning) {
  OnnxModelForTest model(99);
  negate(model);
  EXPECT_THAT(import_log(model), AllOf(HasSubstr("model.onnx: opset 99 (known: up to 28): operators are"),
                                       Not(HasSubstr("IR version"))));
  model.proto.set_ir_version(30);
  const std::string log = import_log(model);
  EXPECT_THAT(log, HasSubstr("opset 99 (known: up to 28) and IR version 30 (known: up to 14): operators"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1);
}

TEST(OnnxVersions, WhatANewerOneAddsToAnOperatorIsRefused) {
  OnnxModelForTest model(99);
  negate(model);
  model.graph().mutable_node(0)->add_input("x");
  EXPECT_THAT(import_error(model), HasSubstr("(Neg): input 1 of opset 99, which is not supported"));
  OnnxModelForTest attribute(99);
  negate(attribute);
  OnnxAttribute("novelty", 1).write(*attribute.graph().mutable_node(0)->add_attribute());
  EXPECT_THAT(import_error(attribute),
              HasSubstr("(Neg): attribute \"novelty\" of opset 99, which is not supported"));
}

TEST(OnnxVersions, HaveToBeGiven) {
  EXPECT_EQ(error_with([](onnx::ModelProto&) {}), "");
  EXPECT_THAT(error_with([](onnx::ModelProto& m) { m.clear_opset_import(); }), HasSubstr("no opset import"));
  EXPECT_THAT(error_with([](onnx::ModelProto& m) { m.mutable_opset_import(0)->set_domain("own"); }),
              HasSubstr("\"y_node\" (Neg): no opset import"));
  EXPECT_THAT(error_with([](onnx::ModelProto& m) { m.mutable_opset_import(0)->set_version(0); }),
              HasSubstr("opset 0, expected at least 1"));
  EXPECT_THAT(error_with([](onnx::ModelProto& m) { m.set_ir_version(0); }),
              HasSubstr("IR version 0, expected at least 1"));
  EXPECT_THAT(error_with([](onnx::ModelProto& m) { m.clear_graph(); }), HasSubstr("it has no graph"));
}

TEST(OnnxVersions, FilesOfTheFirstHaveNeitherOpsetsNorTypesOfAttributes) {
  OnnxModelForTest model(1);
  model.proto.set_ir_version(1);
  model.proto.clear_opset_import();
  model.input("x", {2});
  model.output("y");
  model.node("Constant", {}, {"c"}, {{"value", onnx_tensor("c", {2}, Floats{3, 5})}});
  model.node("Mul", {"x", "c"}, {"y"});
  model.graph().mutable_node(0)->mutable_attribute(0)->clear_type();
  EXPECT_EQ(result_of(model, {Tensor::from({2}, Floats{1, 2})}), (Floats{3, 10}));
}

/// One node of so old an opset, of x and a constant y, whose result is z.
OnnxModelForTest& old_pair(OnnxModelForTest& model, const char* op, const Ints& shape, const Ints& second,
                           const std::vector<OnnxAttribute>& attributes) {
  model.input("x", shape);
  Floats values(static_cast<size_t>(element_count(second)));
  std::iota(values.begin(), values.end(), 1.0F);
  model.constant("y", second, values);
  model.output("z");
  model.node(op, {"x", "y"}, {"z"}, attributes);
  return model;
}

TEST(OnnxVersions, OperandsOfOldOnesBeginAtAnAxis) {
  for (const char* op : {"Add", "Mul", "Pow"}) {
    OnnxModelForTest model(6);
    const Tensor x = Tensor::from({1, 2, 2}, Floats{2, 2, 2, 2});
    old_pair(model, op, {1, 2, 2}, {2}, {{"broadcast", 1}, {"axis", 1}});
    const Floats expected = op == std::string("Add") ? Floats{3, 3, 4, 4} : Floats{2, 2, 4, 4};
    EXPECT_EQ(result_of(model, {x}), expected) << op;
  }
  OnnxModelForTest from_the_end(6);
  old_pair(from_the_end, "Sub", {1, 2, 2}, {2}, {{"broadcast", 1}});
  EXPECT_EQ(result_of(from_the_end, {Tensor::from({1, 2, 2}, Floats{2, 2, 2, 2})}), (Floats{1, 0, 1, 0}));
  OnnxModelForTest beyond(6);
  old_pair(beyond, "Sub", {1, 2, 2}, {2}, {{"broadcast", 1}, {"axis", 3}});
  EXPECT_THAT(import_error(beyond), HasSubstr("axis 3 of 3 dimensions for an operand of 1"));
}

TEST(OnnxVersions, SlopesOfOldOnesAreOfChannels) {
  OnnxModelForTest model(6);
  old_pair(model, "PRelu", {1, 2, 2}, {2}, {});
  EXPECT_EQ(result_of(model, {Tensor::from({1, 2, 2}, Floats{-1, 1, -1, -1})}), (Floats{-1, 1, -2, -2}));
}

TEST(OnnxVersions, AttributesOfOldOnes) {
  OnnxModelForTest cast(1);
  cast.input("x", {2});
  cast.output("y");
  cast.node("Cast", {"x"}, {"integers"}, {{"to", "INT32"}});
  cast.node("Cast", {"integers"}, {"y"}, {{"to", "FLOAT"}});
  EXPECT_EQ(result_of(cast, {Tensor::from({2}, Floats{1.5, -2.5})}), (Floats{1, -2}));
  OnnxModelForTest upsample(1);
  upsample.input("x", {1, 1, 1, 2});
  upsample.output("y");
  upsample.node("Upsample", {"x"}, {"y"}, {{"width_scale", 2.0F}, {"height_scale", 1.0F}});
  EXPECT_EQ(result_of(upsample, {Tensor::from({1, 1, 1, 2}, Floats{1, 2})}), (Floats{1, 1, 2, 2}));
  OnnxModelForTest tile(1);
  tile.input("x", {1, 2});
  tile.constant("tiles", {1}, Floats{2});
  tile.constant("axis", {1}, Floats{1});
  tile.output("y");
  tile.node("Tile", {"x", "tiles", "axis"}, {"y"});
  EXPECT_EQ(result_of(tile, {Tensor::from({1, 2}, Floats{1, 2})}), (Floats{1, 2, 1, 2}));
  OnnxModelForTest selu(1);
  selu.input("x", {1});
  selu.output("y");
  selu.node("Selu", {"x"}, {"y"});
  EXPECT_EQ(result_of(selu, {Tensor::from({1}, Floats{2})}), (Floats{2 * 1.0507F}));
}

TEST(OnnxVersions, SpaceToDepthKnowsColumnsFirst) {
  OnnxModelForTest model(28);
  model.input("x", {1, 2, 2, 2});
  model.output("y");
  model.node("SpaceToDepth", {"x"}, {"y"}, {{"blocksize", 2}, {"mode", "CRD"}});
  Floats x(8);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(result_of(model, {Tensor::from({1, 2, 2, 2}, x)}), x);
}

}  // namespace
}  // namespace detent
