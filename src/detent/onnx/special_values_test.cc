#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"

// Faults that random graphs (make differential) found in operators that get NaN, infinities and the ends of
// float32, in each engine.

namespace detent {
namespace {

using testing::Pointwise;
using Floats = std::vector<float>;
using Limits = std::numeric_limits<float>;

constexpr float kNaN = Limits::quiet_NaN();
constexpr float kInfinity = Limits::infinity();

MATCHER(IsSame, "") {
  return std::get<0>(arg) == std::get<1>(arg) ||
         (std::isnan(std::get<0>(arg)) && std::isnan(std::get<1>(arg)));
}

/// Runs one node in each engine.
void expect_results(const char* op, int64_t opset, const Floats& x, const Floats& expected,
                    const std::vector<OnnxAttribute>& attributes = {}) {
  SCOPED_TRACE(op);
  OnnxModelForTest model(opset);
  model.input("x", {std::ssize(x)});
  model.output("y");
  model.node(op, {"x"}, {"y"}, attributes);
  const Graph graph = import_onnx(model.write());
  const Tensor input = Tensor::from({std::ssize(x)}, x);
  const IntegerExecutor reference;
  const FastExecutor fast;
  for (const Executor* executor : std::initializer_list<const Executor*>{&reference, &fast}) {
    const Tensor result = executor->run(graph, {&input, 1});
    EXPECT_THAT(result.values<float>(), Pointwise(IsSame(), expected));
  }
}

TEST(OnnxSpecialValues, SignKeepsNaN) {
  expect_results("Sign", 13, {kNaN, -kInfinity, 0, 2}, {kNaN, -1, 0, 1});
}

TEST(OnnxSpecialValues, WhatIsNotAboveAThresholdIsZero) {
  expect_results("ThresholdedRelu", 13, {kNaN, 1, 1.5, kInfinity}, {0, 0, 1.5, kInfinity});
}

TEST(OnnxSpecialValues, HardSwishDoesNotOverflow) {
  expect_results("HardSwish", 14, {Limits::max(), 3, kNaN, -3}, {Limits::max(), 3, kNaN, 0});
}

TEST(OnnxSpecialValues, ClipCutsInfinitiesToTheEndsOfTheType) {
  const Floats x = {-kInfinity, -2, kNaN, kInfinity};
  expect_results("Clip", 10, x, {-1, -1, kNaN, Limits::max()}, {{"min", -1.0F}});
  expect_results("Clip", 13, x, {Limits::lowest(), -2, kNaN, Limits::max()});
}

/// Places in the input, 0 to `from` - 1, that the elements of the result stand for.
Floats nearest(int64_t from, float scale, const char* coordinates, const char* rounding) {
  OnnxModelForTest model(17);
  model.input("x", {from});
  model.constant<float>("scales", {1}, {scale});
  model.output("y");
  model.node(
      "Resize", {"x", "", "scales"}, {"y"},
      {{"mode", "nearest"}, {"coordinate_transformation_mode", coordinates}, {"nearest_mode", rounding}});
  Tensor x(DType::kFloat32, {from});
  for (float next = 0; float& value : x.values<float>()) value = next++;
  const Tensor y = IntegerExecutor().run(import_onnx(model.write()), {&x, 1});
  return {y.values<float>().begin(), y.values<float>().end()};
}

/// ONNX Runtime computes places in float32: 13 / float32(26 / 34) and 3.5 / float32(7 / 18) are 17 and 9
/// there.
TEST(OnnxSpecialValues, PlacesOfTheNearestAreThoseInFloat32) {
  EXPECT_EQ(nearest(34, 26.0F / 34, "asymmetric", "floor").at(13), 17);
  EXPECT_EQ(nearest(18, 7.0F / 18, "tf_half_pixel_for_nn", "floor").at(3), 9);
  EXPECT_EQ(nearest(13, 3.0F / 13, "half_pixel", "floor").at(1), 6);
  EXPECT_EQ(nearest(20, 18.0F / 20, "half_pixel_symmetric", "round_prefer_floor").at(13), 14);
}

/// The least float64 stands for minus infinity in masks: a row that is masked as a whole still has a mean.
TEST(OnnxSpecialValues, Float64BeyondFloat32IsTheLastOne) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2});
  model.input("mask", {1, 2}, onnx::TensorProto::BOOL);
  model.output("y");
  onnx::TensorProto least;
  least.set_name("least");
  least.set_data_type(onnx::TensorProto::DOUBLE);
  least.add_double_data(std::numeric_limits<double>::lowest());
  *model.graph().add_initializer() = least;
  model.node("Cast", {"x"}, {"wide"}, {{"to", 11}});
  model.node("Where", {"mask", "wide", "least"}, {"masked"});
  model.node("Softmax", {"masked"}, {"y"});
  testing::internal::CaptureStderr();
  set_up_logging("warning");
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("constant \"least\" has float64 numbers beyond 3.4028235e+38"));
  const std::vector<Tensor> inputs = {Tensor::from({1, 2}, Floats{1, 2}), Tensor(DType::kBool, {1, 2})};
  const Tensor result = IntegerExecutor().run(graph, inputs);
  EXPECT_THAT(result.values<float>(), testing::ElementsAre(0.5F, 0.5F));
}

TEST(OnnxSpecialValues, SaysWhichFloat64BecomeZero) {
  OnnxModelForTest model(17);
  model.input("x", {2}, onnx::TensorProto::DOUBLE);
  model.output("y");
  onnx::TensorProto least;
  least.set_name("least");
  least.set_data_type(onnx::TensorProto::DOUBLE);
  least.add_double_data(1e-300);
  *model.graph().add_initializer() = least;
  model.node("Add", {"x", "least"}, {"y"});
  testing::internal::CaptureStderr();
  set_up_logging("warning");
  import_onnx(model.write());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("constant \"least\" has float64 numbers too small for float32"));
}

/// The number that fills was written as an integer where what follows it is a list of integers.
TEST(OnnxSpecialValues, PadFillsWithTheTypeOfItsElements) {
  OnnxModelForTest model(18);
  model.input("x", {2});
  model.input("pads", {2}, onnx::TensorProto::INT64);
  model.constant<float>("value", {}, {2});
  model.output("y");
  model.node("Pad", {"x", "pads", "value"}, {"y"});
  const Graph graph = import_onnx(model.write());
  const std::filesystem::path path = model.folder / "exported.onnx";
  export_onnx(graph, path);
  onnx::ModelProto exported;
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(exported.ParseFromIstream(&file));
  for (const onnx::TensorProto& tensor : exported.graph().initializer()) {
    EXPECT_EQ(tensor.data_type(), onnx::TensorProto::FLOAT) << tensor.name();
  }
}

}  // namespace
}  // namespace detent
