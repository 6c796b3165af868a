#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "detent/core/error_of_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Operators of ONNX that a few others compute.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

Tensor result_of(const OnnxModelForTest& model, const std::vector<Tensor>& inputs) {
  return IntegerExecutor().compile(import_onnx(model.write()))->run(inputs).at(0);
}

Tensor counting(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  float next = 0;
  for (float& value : tensor.values<float>()) value = next++;
  return tensor;
}

void expect_result(const OnnxModelForTest& model, const std::vector<Tensor>& inputs, const Shape& shape,
                   const Floats& expected) {
  const Tensor y = result_of(model, inputs);
  EXPECT_TRUE(y.equals(Tensor::from(shape, expected))) << shape_text(y.shape());
}

TEST(OnnxComposed, LocalResponseNormalizationSumsSquaresOfChannelsAround) {
  for (const int64_t size : {2, 3}) {
    OnnxModelForTest model(13);
    model.input("x", {-1, 4, 2});
    model.output("y");
    model.node("LRN", {"x"}, {"y"}, {{"size", size}, {"alpha", 0.5F}, {"beta", 0.25F}, {"bias", 2.0F}});
    const Tensor x = counting({1, 4, 2});
    std::vector<double> expected;
    for (int64_t c = 0; c < 4; ++c) {
      for (int64_t i = 0; i < 2; ++i) {
        double sum = 0;
        const int64_t first = std::max<int64_t>(0, c - (size - 1) / 2);
        const int64_t last = std::min<int64_t>(3, c + size / 2);
        for (int64_t other = first; other <= last; ++other)
          sum += std::pow(static_cast<double>(2 * other + i), 2);
        const auto value = static_cast<double>(2 * c + i);
        expected.push_back(value / std::pow(2 + 0.5 / static_cast<double>(size) * sum, 0.25));
      }
    }
    expect_near(result_of(model, {x}), expected);
  }
}

TEST(OnnxComposed, WindowsOfCosines) {
  const auto window = [](const char* op, int periodic) {
    OnnxModelForTest model(17);
    model.constant("size", {}, Ints{5});
    model.input("x", {5});
    model.output("y");
    model.node(op, {"size"}, {"w"}, {{"periodic", periodic}});
    model.node("Mul", {"x", "w"}, {"y"});
    return result_of(model, {Tensor::from({5}, Floats(5, 1))});
  };
  const auto cosine = [](double turns) { return std::cos(2 * std::numbers::pi * turns); };
  std::vector<double> hann;
  std::vector<double> hamming;
  std::vector<double> blackman;
  for (int i = 0; i < 5; ++i) {
    hann.push_back(0.5 - 0.5 * cosine(i / 5.0));
    hamming.push_back(25.0 / 46 - 21.0 / 46 * cosine(i / 4.0));
    blackman.push_back(0.42 - 0.5 * cosine(i / 5.0) + 0.08 * cosine(2 * i / 5.0));
  }
  expect_near(window("HannWindow", 1), hann);
  expect_near(window("HammingWindow", 0), hamming);
  expect_near(window("BlackmanWindow", 1), blackman);
}

TEST(OnnxComposed, EyeLikeHasOnesOnADiagonal) {
  OnnxModelForTest model(22);
  model.input("x", {2, 3}, onnx::TensorProto::INT32);
  model.output("y");
  model.node("EyeLike", {"x"}, {"y"}, {{"k", 1}, {"dtype", 1}});
  expect_result(model, {Tensor(DType::kInt32, {2, 3})}, {2, 3}, {0, 1, 0, 0, 0, 1});
}

TEST(OnnxComposed, AffineGridTurnsPositionsOfPixels) {
  const auto grid = [](int align_corners) {
    OnnxModelForTest model(20);
    model.input("theta", {1, 2, 3});
    model.input("size", {4}, kOnnxInt64);
    model.output("y");
    model.node("AffineGrid", {"theta", "size"}, {"y"}, {{"align_corners", align_corners}});
    const Tensor theta = Tensor::from({1, 2, 3}, Floats{1, 10, 100, 2, 20, 200});
    return result_of(model, {theta, Tensor::from({4}, Ints{1, 1, 2, 3})});
  };
  EXPECT_EQ(grid(0).shape(), (Shape{1, 2, 3, 2}));
  std::vector<double> edges;
  std::vector<double> centres;
  for (const double y : {-1, 1}) {
    for (const double x : {-1, 0, 1}) {
      for (const double scale : {1, 2}) {
        centres.push_back(scale * (x + 10 * y + 100));
        edges.push_back(scale * (x * 2 / 3 + 10 * y / 2 + 100));
      }
    }
  }
  expect_near(grid(0), edges);
  expect_near(grid(1), centres);
}

TEST(OnnxComposed, CompressKeepsWhereTheConditionHolds) {
  for (const bool has_axis : {false, true}) {
    OnnxModelForTest model(11);
    model.input("x", {2, 3});
    model.input("condition", {2}, kOnnxBool);
    model.output("y");
    auto& node = model.node("Compress", {"x", "condition"}, {"y"});
    if (has_axis) OnnxAttribute("axis", -1).write(*node.add_attribute());
    Tensor condition(DType::kBool, {2});
    condition.values<bool>()[1] = true;
    expect_result(model, {counting({2, 3}), condition}, has_axis ? Shape{2, 1} : Shape{1},
                  has_axis ? Floats{1, 4} : Floats{1});
  }
}

TEST(OnnxComposed, ReverseSequenceTurnsAsManyAsEachSampleHas) {
  OnnxModelForTest model(10);
  model.input("x", {3, 2});
  model.input("lengths", {2}, kOnnxInt64);
  model.output("y");
  model.node("ReverseSequence", {"x", "lengths"}, {"y"});
  expect_result(model, {counting({3, 2}), Tensor::from({2}, Ints{2, 3})}, {3, 2}, {2, 5, 0, 3, 4, 1});
}

TEST(OnnxComposed, CenterCropPadKeepsTheMiddle) {
  OnnxModelForTest model(18);
  model.input("x", {1, 4, 2});
  model.constant("size", {2}, Ints{1, 5});
  model.output("y");
  model.node("CenterCropPad", {"x", "size"}, {"y"}, {{"axes", Ints{1, -1}}});
  expect_result(model, {counting({1, 4, 2})}, {1, 1, 5}, {0, 2, 3, 0, 0});
}

TEST(OnnxComposed, MaxUnpoolPutsElementsWhereTheyWere) {
  OnnxModelForTest model(22);
  model.input("x", {1, 1, 2});
  model.input("places", {1, 1, 2}, kOnnxInt64);
  model.output("y");
  model.node("MaxUnpool", {"x", "places"}, {"y"}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  const std::vector<Tensor> inputs = {Tensor::from({1, 1, 2}, Floats{5, 7}),
                                      Tensor::from({1, 1, 2}, Ints{1, 2})};
  expect_result(model, inputs, {1, 1, 4}, {0, 5, 7, 0});
  model.constant("shape", {3}, Ints{1, 1, 5});
  model.graph().mutable_node(0)->add_input("shape");
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("an output_shape that is not [1, 1, 4], which is not supported"));
}

TEST(OnnxComposed, LargestAndSmallestOfTruthsAreAnyAndAll) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    OnnxModelForTest model(20);
    model.input("x", {2}, kOnnxBool);
    model.output("y");
    model.node(op, {"x"}, {"y"});
    Tensor x(DType::kBool, {2});
    x.values<bool>()[0] = true;
    EXPECT_EQ(result_of(model, {x}).values<bool>()[0], op == std::string("ReduceMax")) << op;
  }
}

/// Windows that overlap add up; those in a border have no part in it. The batch may be open.
TEST(OnnxComposed, ColumnsBecomeAnImage) {
  OnnxModelForTest model(18);
  model.input("x", {-1, 2, 2});
  model.constant("image", {1}, Ints{3});
  model.constant("window", {1}, Ints{2});
  model.output("y");
  model.node("Col2Im", {"x", "image", "window"}, {"y"});
  expect_result(model, {Tensor::from({1, 2, 2}, Floats{1, 2, 3, 4})}, {1, 1, 3}, {1, 5, 4});
  const Floats both = {1, 2, 3, 4, 10, 20, 30, 40};
  expect_result(model, {Tensor::from({2, 2, 2}, both)}, {2, 1, 3}, {1, 5, 4, 10, 50, 40});
  OnnxModelForTest padded(18);
  padded.input("x", {1, 4, 9});
  padded.constant("image", {2}, Ints{2, 2});
  padded.constant("window", {2}, Ints{2, 2});
  padded.output("y");
  padded.node("Col2Im", {"x", "image", "window"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}});
  expect_result(padded, {Tensor::from({1, 4, 9}, Floats(36, 1))}, {1, 1, 2, 2}, {4, 4, 4, 4});
}

TEST(OnnxComposed, UniqueElementsAndSlices) {
  const auto results = [](const Tensor& x, const std::vector<OnnxAttribute>& attributes) {
    OnnxModelForTest model(11);
    model.input("x", {x.shape().begin(), x.shape().end()});
    for (const char* name : {"y", "first", "which", "count"}) model.output(name);
    model.node("Unique", {"x"}, {"y", "first", "which", "count"}, attributes);
    return FastExecutor().compile(import_onnx(model.write()))->run({&x, 1});
  };
  const auto expect_lists = [](const std::vector<Tensor>& got, const std::vector<Ints>& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(got[i + 1].equals(Tensor::from({std::ssize(expected[i])}, expected[i]))) << i;
  };
  const Tensor list = Tensor::from({6}, Floats{2, 1, 1, 3, 4, 3});
  const std::vector<Tensor> sorted = results(list, {});
  EXPECT_TRUE(sorted[0].equals(Tensor::from({4}, Floats{1, 2, 3, 4})));
  expect_lists(sorted, {{1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}});
  const std::vector<Tensor> as_they_come = results(list, {{"sorted", 0}});
  EXPECT_TRUE(as_they_come[0].equals(Tensor::from({4}, Floats{2, 1, 3, 4})));
  expect_lists(as_they_come, {{0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}});
  const std::vector<Tensor> rows = results(Tensor::from({3, 2}, Floats{2, 3, 1, 9, 2, 3}), {{"axis", 0}});
  EXPECT_TRUE(rows[0].equals(Tensor::from({2, 2}, Floats{1, 9, 2, 3})));
  expect_lists(rows, {{1, 0}, {1, 0, 1}, {1, 2}});
  const float no_number = std::nanf("");
  const std::vector<Tensor> numbers = results(Tensor::from({3}, Floats{no_number, 1, no_number}), {});
  EXPECT_EQ(numbers[0].values<float>()[0], 1);
  expect_lists(numbers, {{1, 0}, {1, 0, 1}, {1, 2}});
}

TEST(OnnxComposed, ProductsOfIntegersWrap) {
  OnnxModelForTest model(13);
  model.input("x", {2, 2}, kOnnxInt64);
  model.constant<int64_t>("w", {2}, {3, int64_t{1} << 62});
  model.output("y");
  model.node("MatMul", {"x", "w"}, {"y"});
  const Tensor y = result_of(model, {Tensor::from({2, 2}, Ints{1, 4, -2, 1})});
  EXPECT_TRUE(y.equals(Tensor::from({2}, Ints{3, (int64_t{1} << 62) - 6})));
}

/// Before opset 13 of all dimensions from the axis on.
TEST(OnnxComposed, HardmaxOfRows) {
  OnnxModelForTest model(11);
  model.input("x", {2, 2, 2});
  model.output("y");
  model.node("Hardmax", {"x"}, {"y"});
  const Tensor x = Tensor::from({2, 2, 2}, Floats{0, 3, 2, 1, 5, 4, 6, 7});
  expect_result(model, {x}, {2, 2, 2}, {0, 1, 0, 0, 0, 0, 0, 1});
}

TEST(OnnxComposed, GatedActivation) {
  OnnxModelForTest model(28);
  model.input("a", {2});
  model.input("b", {2});
  model.output("y");
  model.node("SwiGLU", {"a", "b"}, {"y"}, {{"alpha", 2.0F}});
  expect_near(result_of(model, {Tensor::from({2}, Floats{0, 1}), Tensor::from({2}, Floats{3, 2})}),
              {0, 2 / (1 + std::exp(-2))});
}

/// Positions before the first are those of the state, or zeros.
TEST(OnnxComposed, CausalConvolutionCarriesItsLastPositions) {
  for (const bool has_past : {false, true}) {
    OnnxModelForTest model(27);
    model.input("x", {1, 1, 3});
    model.constant("w", {1, 1, 2}, Floats{10, 1});
    model.constant("past", {1, 1, 1}, Floats{7});
    model.output("y");
    model.output("present");
    model.node("CausalConvWithState", {"x", "w", "", has_past ? "past" : ""}, {"y", "present"});
    const Tensor x = Tensor::from({1, 1, 3}, Floats{1, 2, 3});
    const std::vector<Tensor> results = IntegerExecutor().compile(import_onnx(model.write()))->run({&x, 1});
    EXPECT_TRUE(results[0].equals(Tensor::from({1, 1, 3}, Floats{has_past ? 71.0F : 1.0F, 12, 23})));
    EXPECT_TRUE(results[1].equals(Tensor::from({1, 1, 1}, Floats{3})));
  }
}

/// S = exp(g) S + b k (v - exp(g) S k), y = scale q S.
TEST(OnnxComposed, LinearAttentionIsARecurrence) {
  const auto results = [](const char* rule, bool has_gates, bool has_rates) {
    OnnxModelForTest model(27);
    model.input("q", {1, 2, 1});
    model.constant("k", {1, 2, 1}, Floats{1, 2});
    model.constant("v", {1, 2, 1}, Floats{5, 7});
    model.constant("g", {1, 2, 1}, Floats{0, std::log(2.0F)});
    model.constant("b", {1, 2, 1}, Floats{0.5F, 0.5F});
    model.output("y");
    model.output("state");
    model.node("LinearAttention", {"q", "k", "v", "", has_gates ? "g" : "", has_rates ? "b" : ""},
               {"y", "state"},
               {{"q_num_heads", 1}, {"kv_num_heads", 1}, {"scale", 1.0F}, {"update_rule", rule}});
    const Tensor q = Tensor::from({1, 2, 1}, Floats{2, 3});
    return IntegerExecutor().compile(import_onnx(model.write()))->run({&q, 1});
  };
  const auto expect = [](const std::vector<Tensor>& got, double first, double second, double state) {
    expect_near(got[0], {first, second});
    expect_near(got[1], {state});
  };
  expect(results("linear", false, false), 10, 57, 19);
  expect(results("gated", true, false), 10, 72, 24);
  expect(results("delta", false, true), 5, 13.5, 4.5);
  expect(results("gated_delta", true, true), 5, 6, 2);
}

/// A scale for each block of an axis of what a run gives.
TEST(OnnxComposed, BlocksOfCodesOfValues) {
  OnnxModelForTest model(21);
  model.input("x", {1, 5});
  model.constant("s", {1, 2}, Floats{0.5F, 2});
  model.constant<uint8_t>("z", {1, 2}, {10, 20});
  model.output("y");
  const std::vector<OnnxAttribute> blocks = {{"axis", 1}, {"block_size", 3}};
  model.node("QuantizeLinear", {"x", "s", "z"}, {"q"}, blocks);
  model.node("DequantizeLinear", {"q", "s", "z"}, {"y"}, blocks);
  expect_result(model, {Tensor::from({1, 5}, Floats{-100, 0.75F, 1.25F, 3, -5})}, {1, 5}, {-5, 1, 1, 4, -4});
}

/// Signals, images and volumes, of which a model may leave the last size open.
TEST(OnnxComposed, InstanceNormsOfAnyRankAreOneNode) {
  for (const Shape& shape :
       {Shape{2, 3, 8}, Shape{2, 3, 2, 4}, Shape{2, 3, 2, 2, 2}, Shape{2, 3, 1, 2, 2, 2}}) {
    for (const bool is_open : {false, true}) {
      Shape dims = shape;
      dims[0] = -1;
      if (is_open) dims.back() = -2;
      OnnxModelForTest model(17);
      model.input("x", dims);
      model.output("y");
      model.constant("scale", {3}, Floats{1, 2, 4});
      model.constant("bias", {3}, Floats{0, 5, -1});
      model.node("InstanceNormalization", {"x", "scale", "bias"}, {"y"}, {{"epsilon", 0.25F}});
      const Graph graph = import_onnx(model.write());
      EXPECT_EQ(std::ranges::count(graph.nodes(), "instance_norm2d", &Node::op), 1);
      EXPECT_LE(graph.nodes().size(), 6U);
      const Tensor x = counting(shape);
      const Tensor y = FastProgram(graph).run(std::vector{x}).at(0);
      ASSERT_EQ(y.shape(), shape);
      EXPECT_TRUE(IntegerExecutor().compile(graph)->run(std::vector{x}).at(0).equals(y));
      // Eight numbers in turn: their mean is 3.5 above the first, their variance 5.25.
      for (int64_t i = 0; i < x.numel(); ++i) {
        const auto channel = static_cast<size_t>(i / 8 % 3);
        const double standard = (static_cast<double>(i % 8) - 3.5) / std::sqrt(5.25 + 0.25);
        const double expected = standard * std::array{1, 2, 4}[channel] + std::array{0, 5, -1}[channel];
        EXPECT_NEAR(y.values<float>()[static_cast<size_t>(i)], expected, 1e-5) << i;
      }
    }
  }
}

}  // namespace
}  // namespace detent
