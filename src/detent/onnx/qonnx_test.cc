#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/elements/affine.h"
#include "detent/formats/quant_spec.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Operators of QONNX in each spelling of its domain, against what their definitions say.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

/// A model of one operator of QONNX that reads x.
class Qonnx : public testing::Test {
 protected:
  explicit Qonnx(const Shape& shape = {2, 3}) : shape_(shape) {
    model.input("x", {shape.begin(), shape.end()});
    model.output("y");
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& names,
                        const std::vector<OnnxAttribute>& attributes = {},
                        const std::string& domain = "qonnx.custom_op.general") {
    auto& import = *model.proto.add_opset_import();
    import.set_domain(domain);
    import.set_version(1);
    onnx::NodeProto& added = model.node(op, names, {"y"}, attributes);
    added.set_domain(domain);
    return added;
  }
  Graph graph() const { return import_onnx(model.write(), {.shapes = {}, .frees_batch = false}); }
  std::vector<float> run(const Floats& x) const {
    const Tensor y = IntegerExecutor().compile(graph())->run(std::vector{Tensor::from(shape_, x)}).at(0);
    return {y.values<float>().begin(), y.values<float>().end()};
  }
  void numbers(const std::vector<std::pair<std::string, float>>& constants) {
    for (const auto& [name, value] : constants) model.constant<float>(name, {}, {value});
  }

  OnnxModelForTest model{17};

 private:
  Shape shape_;
};

/// The rounding of the network's result, if it has one.
const QuantSpec* rounding_of_result(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (const Quantizer* quantizer = node.find_quantizer("data_out_0")) return &quantizer->spec;
  }
  return nullptr;
}

class QonnxDomain : public Qonnx, public testing::WithParamInterface<const char*> {};

TEST_P(QonnxDomain, HasQuantWithoutIntegerExecution) {
  numbers({{"s", 0.5F}, {"z", 0}, {"bits", 3}});
  node("IntQuant", {"x", "s", "z", "bits"}, {{"signed", 1}, {"narrow", 0}, {"rounding_mode", "ROUND"}},
       GetParam());
  EXPECT_THAT(run({-9, -0.8F, -0.2F, 0.3F, 0.75F, 9}), testing::ElementsAre(-2, -1, -0.0F, 0.5, 1, 1.5));
  const Graph network = graph();
  ASSERT_NE(rounding_of_result(network), nullptr);
  EXPECT_EQ(std::get<Affine>(rounding_of_result(network)->format).width, 3);
  EXPECT_FALSE(network.requantization().has_value());
}

INSTANTIATE_TEST_SUITE_P(Spellings, QonnxDomain,
                         testing::Values("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general",
                                         "finn", "qonnx"),
                         [](const auto& domain) {
                           std::string name = domain.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST_F(Qonnx, FloatQuantIsAStandardFormat) {
  numbers({{"s", 1}, {"e", 4}, {"m", 3}, {"b", 7}, {"most", 448}});
  node("FloatQuant", {"x", "s", "e", "m", "b", "most"}, {{"has_subnormal", 1}, {"has_nan", 1}});
  EXPECT_THAT(run({1000, -18.9F, 0.00098F, 0.0009F, 3.4F, -1e-9F}),
              testing::ElementsAre(448, -18, 0x1p-9F, 0, 3.5, -0.0F));
  const Graph network = graph();
  ASSERT_NE(rounding_of_result(network), nullptr);
  EXPECT_EQ(quant_spec_text(*rounding_of_result(network)), "fp8_e4m3fn");
}

TEST_F(Qonnx, FloatQuantMovesTheBiasByAScaleOfAPowerOfTwo) {
  numbers({{"s", 0.25F}, {"e", 2}, {"m", 1}, {"b", 1}});
  node("FloatQuant", {"x", "s", "e", "m", "b"}, {{"has_subnormal", 1}});
  EXPECT_THAT(run({9, -1.2F, 0.1F, 0.3F, 0.6F, 0.87F}),
              testing::ElementsAre(1.5, -1, 0.125, 0.25, 0.5, 0.75));
  EXPECT_NE(rounding_of_result(graph()), nullptr);
}

TEST_F(Qonnx, FloatQuantScalesAndCutsWhatNoFormatHas) {
  model.constant<float>("s", {3}, {0.3F, 1, 3});
  numbers({{"e", 3}, {"m", 2}, {"b", 3}, {"most", 10}});
  node("FloatQuant", {"x", "s", "e", "m", "b", "most"}, {{"has_subnormal", 1}, {"signed", 0}});
  EXPECT_THAT(run({30, 30, 300, -1, 5.4F, 8}),
              testing::Pointwise(testing::FloatNear(1e-6F), {3.0F, 10.0F, 30.0F, 0.0F, 5.0F, 7.5F}));
}

/// With 3 bits of mantissa, of 1.99 steps of 1 / 8, of 8.5 of 1, of 0.011 of 2^-9.
TEST_F(Qonnx, FloatQuantRoundsInOtherWays) {
  numbers({{"s", 1}, {"e", 4}, {"m", 3}, {"b", 7}, {"most", 448}});
  onnx::NodeProto& quant =
      node("FloatQuant", {"x", "s", "e", "m", "b", "most"}, {{"rounding_mode", "FLOOR"}});
  const Floats x = {1.99F, -1.99F, 8.5F, 500, 0.011F, -2};
  EXPECT_THAT(run(x), testing::ElementsAre(1.875F, -2, 8, 448, 0.009765625F, -2));
  OnnxAttribute("rounding_mode", "ceil").write(*quant.mutable_attribute(0));
  EXPECT_THAT(run(x), testing::ElementsAre(2, -1.875F, 9, 448, 0.01171875F, -2));
}

TEST_F(Qonnx, FloatQuantGoesBeyondItsLargestValue) {
  numbers({{"s", 2}, {"e", 4}, {"m", 3}, {"b", 7}, {"most", 240}});
  onnx::NodeProto& quant =
      node("FloatQuant", {"x", "s", "e", "m", "b", "most"}, {{"saturation", 0}, {"has_inf", 1}});
  const Floats x = {480, -490, 500, -1000, 1.01F, 0};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(run(x), testing::ElementsAre(480, -480, kInfinity, -kInfinity, 1, 0));
  OnnxAttribute("has_nan", 1).write(*quant.mutable_attribute(1));
  EXPECT_THAT(run(x), testing::ElementsAre(480, -480, testing::IsNan(), testing::IsNan(), 1, 0));
  quant.mutable_attribute()->RemoveLast();
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("saturation 0 of floats without infinity and NaN"));
}

TEST_F(Qonnx, QuantTakesZeroPointsThatAreNoCodes) {
  numbers({{"s", 0.5F}, {"z", -2}, {"bits", 2}, {"one", 1}, {"half", 0.75F}});
  node("Quant", {"x", "s", "z", "bits"}, {{"signed", 0}, {"narrow", 0}});
  const Floats x = {-1, 0, 1, 1.4F, 2.1F, 9};
  EXPECT_THAT(run(x), testing::ElementsAre(1, 1, 1, 1.5F, 2, 2.5F));
  model.graph().mutable_node(0)->set_input(2, "half");
  model.graph().mutable_node(0)->set_input(3, "one");
  OnnxAttribute("signed", 1).write(*model.graph().mutable_node(0)->mutable_attribute(0));
  EXPECT_THAT(run({-1, -0.4F, -0.3F, 0, 1, 2}),
              testing::ElementsAre(-0.875F, -0.875F, 0.125F, 0.125F, 0.125F, 0.125F));
}

TEST_F(Qonnx, MultiThresholdCountsWhatIsReached) {
  model.constant<float>("t", {3, 2}, {0, 1, -1, 2, 5, 5});
  node("MultiThreshold", {"x", "t"}, {{"out_scale", 0.5F}, {"out_bias", -1.0F}, {"out_dtype", "INT4"}});
  EXPECT_THAT(run({0, -2, 5, 3, 1.5F, 4.9F}), testing::ElementsAre(-0.5, -1, 0, 0, -0.5, -1));
}

class QonnxRows : public Qonnx {
 protected:
  QonnxRows() : Qonnx({1, 2, 3}) {}
};

/// Without a layout the channels of three dimensions are the last one.
TEST_F(QonnxRows, MultiThresholdKnowsLayoutsByTheirRank) {
  model.constant<float>("t", {3, 1}, {0, 10, 20});
  model.constant<float>("u", {2, 1}, {0, 10});
  node("MultiThreshold", {"x", "t"});
  EXPECT_THAT(run({5, 5, 5, 25, 5, 25}), testing::ElementsAre(1, 0, 0, 1, 0, 1));
  model.graph().mutable_node(0)->set_input(1, "u");
  OnnxAttribute("data_layout", "NCW").write(*model.graph().mutable_node(0)->add_attribute());
  EXPECT_THAT(run({5, 5, 5, 25, 5, 25}), testing::ElementsAre(1, 1, 1, 1, 0, 1));
}

class QonnxImages : public Qonnx {
 protected:
  QonnxImages() : Qonnx({1, 2, 2, 2}) {}
  const Floats image = {0, 10, 2, 20, 4, 30, 6, 40};  // with its channels last: 0 2 4 6, and 10 20 30 40
};

TEST_F(QonnxImages, MultiThresholdFindsTheChannelsOfItsLayout) {
  model.constant<float>("t", {2, 1}, {3, 25});
  node("MultiThreshold", {"x", "t"}, {{"data_layout", "NHWC"}});
  EXPECT_THAT(run(image), testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  OnnxAttribute("data_layout", "NCHW").write(*model.graph().mutable_node(0)->mutable_attribute(0));
  EXPECT_THAT(run(image), testing::ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST_F(QonnxImages, PoolWithTheirChannelsLast) {
  node("MaxPoolNHWC", {"x"},
       {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}});
  EXPECT_THAT(run(image), testing::ElementsAre(6, 40));
}

TEST_F(QonnxImages, AverageWithoutTheLowestBits) {
  node("QuantAvgPool2d", {"x"},
       {{"kernel", 2}, {"stride", 2}, {"ibits", 6}, {"obits", 6}, {"data_layout", "NHWC"}});
  EXPECT_THAT(run(image), testing::ElementsAre(3, 25));  // 12 and 100, without two bits
}

TEST_F(QonnxImages, ConvolveWithTheirChannelsLast) {
  model.constant<float>("w", {1, 1, 2, 2}, {1, 100, 3, -100});  // of a row of two pixels
  node("Conv", {"x", "w"},
       {{"kernel_shape", Ints{1, 2}},
        {"strides", Ints{1, 1}},
        {"dilations", Ints{1, 1}},
        {"pads", Ints{0, 0, 0, 0}},
        {"group", 1}},
       "qonnx.custom_op.channels_last");
  EXPECT_THAT(run(image), testing::ElementsAre(1000 + 6 - 2000, 4 + 3000 + 18 - 4000));
  const Graph network = graph();
  EXPECT_TRUE(std::ranges::any_of(network.nodes(), [](const Node& node) { return node.op == "conv2d"; }));
}

TEST_F(Qonnx, XnorPopcountCountsEqualBits) {
  model.constant<float>("w", {3, 2}, {1, 0, 0, 0, 1, 1});
  node("XnorPopcountMatMul", {"x", "w"});
  EXPECT_THAT(run({1, 0, 1, 0, 1, 1}), testing::ElementsAre(3, 2, 1, 2));
}

/// As detent.torch writes it: weights, with learned scales and without, and activations.
TEST_F(Qonnx, FakeQuantizeOfDetentBecomesQuantizers) {
  auto& import = *model.proto.add_opset_import();
  import.set_domain("detent");
  import.set_version(1);
  model.constant<float>("w", {3, 2}, {0.3F, -0.9F, 1.4F, 0.1F, -5, 0.6F});
  model.constant<float>("s", {}, {0.5F});
  const auto round = [&](const std::vector<std::string>& inputs, const std::string& to, const char* format) {
    model.node("FakeQuantize", inputs, {to}, {{"format", format}}).set_domain("detent");
  };
  round({"x"}, "rounded_x", "fixed:width=8,frac_width=1");
  round({"w", "s"}, "rounded_w", "int4");
  model.node("MatMul", {"rounded_x", "rounded_w"}, {"h"});
  model.constant<float>("v", {2, 1}, {0.75F, 7});
  round({"v"}, "rounded_v", "int4");
  model.node("MatMul", {"h", "rounded_v"}, {"y"});
  const Graph read = graph();
  std::vector<std::string> weights;
  for (const Node& node : read.nodes())
    if (const QuantSpec* spec = node.find_quantization("weight")) weights.push_back(quant_spec_text(*spec));
  EXPECT_THAT(weights, testing::ElementsAre("affine:width=4,symmetric=true,scale=0.5x",
                                            "affine:width=4,symmetric=true,scale=1.0x"));
  // x rounds to 1, 0, 2; w to 0.5, -1, 1.5, 0, -4, 0.5; v to 1, 7.
  EXPECT_THAT(run({1.1F, 0.2F, 2, 0, 0, 0}), testing::ElementsAre(-7.5F, 0));
}

}  // namespace
}  // namespace detent
