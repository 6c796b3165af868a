#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/onnx/import_onnx.h"
#include "detent/runtime/integer_executor.h"

#include "onnx_model_for_test.h"

// What differs between versions of ONNX's operators and of its files.

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

/// What an import writes to standard error.
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
  EXPECT_THAT(import_log(model), AllOf(HasSubstr("model.onnx: opset 99 (known: up to 26): operators are"),
                                       Not(HasSubstr("IR version"))));
  model.proto.set_ir_version(30);
  const std::string log = import_log(model);
  EXPECT_THAT(log, HasSubstr("opset 99 (known: up to 26) and IR version 30 (known: up to 13): operators"));
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
