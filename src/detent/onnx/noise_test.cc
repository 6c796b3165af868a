#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"

// Import of operators that draw at random.

namespace detent {
namespace {

constexpr int64_t kDraws = 20000;

/// A model whose only node draws for x [N, 20000].
class NoiseModel : public OnnxModelForTest {
 public:
  NoiseModel(const std::string& op, const std::vector<OnnxAttribute>& attributes) : OnnxModelForTest(17) {
    input("x", {-1, kDraws});
    output("y");
    node(op, {"x"}, {"y"}, attributes);
  }
};

std::vector<Tensor> samples(int64_t count, float value) {
  const auto numbers = static_cast<size_t>(count * kDraws);
  return {Tensor::from<float>({count, kDraws}, std::vector<float>(numbers, value))};
}

/// The results of reference, engine and of the model that the graph is exported as, which are the same.
Tensor drawn(const OnnxModelForTest& model, const std::vector<Tensor>& inputs) {
  const Graph graph = import_onnx(model.write());
  const Tensor expected = IntegerExecutor().compile(graph)->run(inputs).at(0);
  EXPECT_TRUE(FastProgram(graph).run(inputs).at(0).equals(expected));
  const std::filesystem::path written = model.folder / "written.onnx";
  std::filesystem::remove(written);
  export_onnx(graph, written);
  EXPECT_TRUE(FastProgram(import_onnx(written)).run(inputs).at(0).equals(expected));
  return expected;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(const Tensor& tensor) {
  Moments m;
  const auto count = static_cast<double>(tensor.numel());
  for (const double value : tensor.values<float>()) m.mean += value / count;
  for (const double value : tensor.values<float>())
    m.deviation += (value - m.mean) * (value - m.mean) / count;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(OnnxNoise, IsNormal) {
  const Tensor y = drawn(NoiseModel("RandomNormalLike", {{"mean", 3.0F}, {"scale", 2.0F}}), samples(1, 0));
  EXPECT_NEAR(moments(y).mean, 3, 0.06);
  EXPECT_NEAR(moments(y).deviation, 2, 0.05);
  const auto is_far = [](float value) { return std::fabs(value - 3) > 4; };
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(y.values<float>(), is_far)) / kDraws, 0.0455, 0.006);
}

TEST(OnnxNoise, IsUniform) {
  const Tensor y = drawn(NoiseModel("RandomUniformLike", {{"low", -1.0F}, {"high", 5.0F}}), samples(1, 0));
  EXPECT_NEAR(moments(y).mean, 2, 0.06);
  EXPECT_NEAR(moments(y).deviation, 6 / std::sqrt(12), 0.05);
  EXPECT_GT(*std::ranges::min_element(y.values<float>()), -1);
  EXPECT_LT(*std::ranges::max_element(y.values<float>()), 5);
}

TEST(OnnxNoise, HasTheProbabilityOfTheInput) {
  const Tensor y = drawn(NoiseModel("Bernoulli", {}), samples(1, 0.3F));
  EXPECT_NEAR(moments(y).mean, 0.3, 0.02);
  EXPECT_NEAR(moments(y).deviation, std::sqrt(0.3 * 0.7), 0.02);
}

TEST(OnnxNoise, DropsElementsInTraining) {
  OnnxModelForTest model(17);
  model.input("x", {-1, kDraws});
  model.output("y");
  model.constant<float>("ratio", {}, {0.25F});
  model.constant<int64_t>("one", {}, {1});
  model.node("Cast", {"one"}, {"trains"}, {{"to", onnx::TensorProto::BOOL}});
  model.node("Dropout", {"x", "ratio", "trains"}, {"y"});
  const Tensor y = drawn(model, samples(1, 3));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(y.values<float>(), 0.0F)) / kDraws, 0.25, 0.02);
  EXPECT_EQ(*std::ranges::max_element(y.values<float>()), 4);
}

TEST(OnnxNoise, DrawsClassesWithTheirProbabilities) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 3});
  model.output("y", {}, onnx::TensorProto::INT32);
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  model.node("Multinomial", {"x"}, {"y"}, {{"sample_size", kDraws}});
  const float low = std::log(0.2F);
  const Tensor y =
      drawn(model, {Tensor::from(Shape{2, 3}, std::vector<float>{low, std::log(0.8F), -100, 7, -9, -9})});
  ASSERT_EQ(y.shape(), (Shape{2, kDraws}));
  const auto counted = [&](int64_t row, int32_t value) {
    return static_cast<double>(std::ranges::count(y.rows(row, row + 1).values<int32_t>(), value)) / kDraws;
  };
  EXPECT_NEAR(counted(0, 0), 0.2, 0.02);
  EXPECT_NEAR(counted(0, 1), 0.8, 0.02);
  EXPECT_EQ(counted(1, 0), 1);
}

TEST(OnnxNoise, IsTheSameForAllSamples) {
  const NoiseModel model("RandomNormalLike", {});
  const Tensor one = drawn(model, samples(1, 0));
  const Tensor three = drawn(model, samples(3, 0));
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(three.rows(i, i + 1).equals(one));
}

TEST(OnnxNoise, FollowsTheSeedAndTheNode) {
  const auto with_seed = [](float seed) {
    return drawn(NoiseModel("RandomUniformLike", {{"seed", seed}}), samples(1, 0));
  };
  EXPECT_TRUE(with_seed(1).equals(with_seed(1)));
  EXPECT_FALSE(with_seed(1).equals(with_seed(2)));

  OnnxModelForTest model(17);
  model.input("x", {-1, kDraws});
  model.output("y");
  model.node("RandomUniformLike", {"x"}, {"a"});
  model.node("RandomUniformLike", {"x"}, {"b"});
  model.node("Mul", {"a", "b"}, {"y"});
  EXPECT_NEAR(moments(drawn(model, samples(1, 0))).mean, 0.25, 0.01) << "they are independent";
}

TEST(OnnxNoise, MayBeOfOneDimensionOrOfNone) {
  for (const Shape& shape : {Shape{5}, Shape{2, 0}, Shape()}) {
    OnnxModelForTest model(17);
    Shape open = shape;
    if (!open.empty()) open[0] = -1;
    model.input("x", open);
    model.output("y");
    model.node("RandomUniformLike", {"x"}, {"y"});
    const Tensor y = drawn(model, {Tensor(DType::kFloat32, shape)});
    EXPECT_EQ(y.shape(), shape);
    if (shape.size() == 1) {
      EXPECT_NE(y.values<float>()[0], y.values<float>()[1]);
    }
  }
}

TEST(OnnxNoise, OfAKnownShapeIsAConstant) {
  OnnxModelForTest model(17);
  model.input("x", {-1, kDraws});
  model.output("y");
  model.node("RandomNormal", {}, {"n"}, {{"shape", std::vector<int64_t>{1, kDraws}}});
  model.node("Add", {"x", "n"}, {"y"});
  EXPECT_NEAR(moments(drawn(model, samples(1, 1))).mean, 1, 0.03);
  EXPECT_EQ(import_onnx(model.write()).nodes().size(), 4) << "x, n, their sum and the output";
}

}  // namespace
}  // namespace detent
