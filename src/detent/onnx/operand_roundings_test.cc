#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

namespace detent {
namespace {

/// A layer [2, 2] between codes whose biases are these, as an exporter has cut them off.
void add_layer(OnnxModelForTest& model, const std::string& x, const std::string& y,
               const std::vector<int32_t>& bias) {
  model.constant<int8_t>(y + "_wq", {2, 2}, {100, -50, 25, 127});
  model.constant<int32_t>(y + "_bq", {2}, bias);
  model.node("DequantizeLinear", {y + "_wq", "scale", "zero8"}, {y + "_w"});
  model.node("DequantizeLinear", {y + "_bq", "scale2", "zero32"}, {y + "_b"});
  model.node("Gemm", {x, y + "_w", y + "_b"}, {y + "_sum"}, {{"transB", 1}});
  model.node("QuantizeLinear", {y + "_sum", "scale", "zero8"}, {y + "_q"});
  model.node("DequantizeLinear", {y + "_q", "scale", "zero8"}, {y});
}

/// The sums of one layer may not fit into 32 bits: it alone computes in float.
TEST(OperandRoundings, LeaveALayerInFloatWhoseBiasIsCutOff) {
  constexpr int32_t kCut = std::numeric_limits<int32_t>::max();
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.output("y");
  model.constant<float>("scale", {}, {0.01F});
  model.constant<float>("scale2", {}, {0.0001F});
  model.constant<int8_t>("zero8", {}, {0});
  model.constant<int32_t>("zero32", {}, {0});
  model.node("QuantizeLinear", {"x", "scale", "zero8"}, {"xq"});
  model.node("DequantizeLinear", {"xq", "scale", "zero8"}, {"xd"});
  add_layer(model, "xd", "first", {100, 200});
  add_layer(model, "first", "y", {kCut, -kCut});
  const Graph graph = import_onnx(model.write());
  ASSERT_TRUE(graph.requantization().has_value());
  EXPECT_NE(graph.node("first_sum_node").find_quantizer("weight"), nullptr);
  EXPECT_EQ(graph.node("y_sum_node").find_quantizer("weight"), nullptr);
  EXPECT_FLOAT_EQ(graph.node("y_sum_node").find_parameter("weight")->tensor.values<float>()[3], 1.27F);
  const Tensor x = Tensor::from<float>({1, 2}, std::vector<float>{0.5F, -0.25F});
  const Tensor y = FastProgram(graph).run({&x, 1}).at(0);
  EXPECT_TRUE(y.equals(IntegerProgram(graph).run({&x, 1}).at(0)));
  expect_near(y, {1.27, -1.28});
}

}  // namespace
}  // namespace detent
