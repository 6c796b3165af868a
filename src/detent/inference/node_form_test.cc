#include "detent/inference/node_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A graph of one node of `op` with operands of these specs ("data_in_0", text).
Node quantized(Graph graph, const std::string& name,
               const std::vector<std::pair<std::string, std::string>>& specs) {
  Node node = graph.node(name);
  for (const auto& [operand, text] : specs) node.quantization[operand] = parse_quant_spec_text(text);
  return node;
}

Graph convolution(const Shape& input, int64_t in, int64_t out, const Shape& kernel, Table attributes) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", input);
  return builder.finish(builder.convolution("conv", x, in, out, kernel, std::move(attributes)));
}

std::string form_error(const Node& node, Requantization way) {
  return detent::error_of([&] { node_form(node, way); });
}

TEST(NodeForm, SumsHoldCodesBiasesAndMultipliers) {
  Node node = quantized(convolution({1, 3, 3}, 1, 2, {1, 2}, {}), "conv",
                        {{"data_in_0", "affine:signed=false,scale=0.5,zero_point=10"},
                         {"weight", "affine:symmetric=true,width=4,granularity=channel,scale=0.25x2"},
                         {"data_out_0", "affine:scale=4,zero_point=-3"}});
  node.find_parameter("weight")->tensor =
      Tensor::from<float>({2, 1, 1, 2}, std::vector<float>{0.6F, -9, 3, 5});
  node.find_parameter("bias")->tensor = Tensor::from<float>({2}, std::vector<float>{1, -2.5F});
  const auto form = std::get<SumForm>(node_form(node, Requantization::kFloat).value());
  EXPECT_THAT(form.weight.values<int32_t>(), ElementsAre(2, -8, 2, 2));  // 1.5 and 2.5 tie to even
  EXPECT_THAT(form.scale, ElementsAre(0.125F, 1.0F));
  EXPECT_THAT(form.bias, ElementsAre(8, -2));
  EXPECT_THAT(form.multiplier, ElementsAre(0.03125F, 0.25F));
  // Inputs count from -10 to 245: channel 0 reaches 8 + 2 * 245 + 80 and -20 - 8 * 245, channel 1 more.
  EXPECT_EQ(form.bound, 1980);
  EXPECT_EQ(form.requantized(48, 0), -1);  // 1.5 ties to 2
  EXPECT_EQ(form.requantized(1 << 20, 0), 127);
  EXPECT_EQ(form.result(6, 1), 8.0F);  // 1.5 ties to 2 steps of 4
}

TEST(NodeForm, WithoutAnOutputTypeTheSumsValueIsTheResult) {
  const Node node = quantized(convolution({1, 3, 3}, 1, 2, {1, 2}, {}), "conv",
                              {{"data_in_0", "affine:scale=0.5"}, {"weight", "affine:scale=0.25"}});
  EXPECT_EQ(std::get<SumForm>(node_form(node, Requantization::kFloat).value()).result(-3, 0), -0.375F);
}

TEST(NodeForm, OperandsWithoutCodesHaveNoForm) {
  const Graph graph = convolution({1, 3, 3}, 1, 2, {1, 2}, {});
  const auto has_form = [&](const std::vector<std::pair<std::string, std::string>>& specs) {
    return node_form(quantized(graph, "conv", specs), Requantization::kFloat).has_value();
  };
  EXPECT_FALSE(has_form({}));
  EXPECT_FALSE(has_form({{"data_in_0", "affine:scale=1"}}));
  EXPECT_FALSE(has_form({{"data_in_0", "affine:scale=1"}, {"weight", "affine"}}));
  EXPECT_FALSE(has_form({{"data_in_0", "affine:scale=1"}, {"weight", "fixed:width=8,frac_width=4"}}));
  EXPECT_FALSE(
      has_form({{"data_in_0", "affine:scale=1"}, {"weight", "affine:scale=1x1,granularity=channel,axis=3"}}));
  EXPECT_FALSE(has_form(
      {{"data_in_0", "affine:scale=1"}, {"weight", "affine:scale=1x1x1x1,granularity=group,group_size=1"}}));
  EXPECT_FALSE(
      has_form({{"data_in_0", "affine:scale=1"}, {"weight", "affine:scale=1"}, {"data_out_0", "log"}}));
  EXPECT_TRUE(has_form({{"data_in_0", "affine:scale=1"}, {"weight", "affine:scale=1"}}));
  // Groups that hold whole channels.
  EXPECT_TRUE(has_form(
      {{"data_in_0", "affine:scale=1"}, {"weight", "affine:scale=1x1,granularity=group,group_size=2"}}));
}

TEST(NodeForm, ChannelsOfTransposedConvolutionsLieInTheSecondDimension) {
  GraphBuilder builder("g");
  NodeInput x = builder.input("x", {4, 2, 2});
  x = builder.layer("convtranspose2d", "up", {x}, {{"weight", {4, 3, 1, 1}}, {"bias", {6}}}, {{"groups", 2}});
  Node node = quantized(builder.finish(x), "up",
                        {{"data_in_0", "affine:scale=1,narrow_range=true"},
                         {"weight", "affine:scale=1x2x4,granularity=channel,axis=1"}});
  std::vector<float> weights = {1, 2, 4, 2, 4, 8, 3, 6, 12, 40, 8, 16};
  node.find_parameter("weight")->tensor = Tensor::from<float>({4, 3, 1, 1}, weights);
  const auto form = std::get<SumForm>(node_form(node, Requantization::kFloat).value());
  EXPECT_THAT(form.weight.values<int32_t>(), ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 40, 4, 4));
  EXPECT_THAT(form.scale, ElementsAre(1, 2, 4, 1, 2, 4));
  EXPECT_EQ(form.bound, 43 * 127);  // channel 3: inputs 2 and 3
}

TEST(NodeForm, SumsThatCouldOverflowAreRefused) {
  Node node = quantized(convolution({70, 40, 40}, 70, 1, {5, 5}, {}), "conv",
                        {{"data_in_0", "affine:width=16,scale=1"}, {"weight", "affine:width=16,scale=1"}});
  for (float& w : node.find_parameter("weight")->tensor.values<float>()) w = 30000;
  EXPECT_THAT(form_error(node, Requantization::kFloat),
              HasSubstr("node \"conv\" (conv2d): sums of output channel 0 could reach"));
  for (float& w : node.find_parameter("weight")->tensor.values<float>()) w = 1;
  EXPECT_EQ(form_error(node, Requantization::kFloat), "");
  node.find_parameter("bias")->tensor.values<float>()[0] = 3e9F;
  EXPECT_THAT(form_error(node, Requantization::kFloat),
              HasSubstr("a bias of 3000000000 is 3000000000 steps of 1"));
}

TEST(NodeForm, TablesHoldTheFunctionOfEachCode) {
  GraphBuilder builder("g");
  const Graph graph = builder.finish(builder.call("tanh", {builder.input("x", {4})}));
  const Node node = quantized(
      graph, "tanh",
      {{"data_in_0", "affine:width=4,scale=0.3,zero_point=1"}, {"data_out_0", "affine:scale=0.01"}});
  const auto form = std::get<TableForm>(node_form(node, Requantization::kFloat).value());
  ASSERT_EQ(form.codes.size(), 16U);
  for (int code = -8; code < 8; ++code) {
    EXPECT_EQ(form.codes[static_cast<size_t>(code + 8)], std::lround(std::tanh((code - 1) * 0.3) / 0.01))
        << code;
  }
}

/// Half a step; in fixed point half as much again, because the high product rounds before the shift does.
double tolerance(Requantization way) { return way == Requantization::kFloat ? 0.5001 : 0.7501; }

/// Every pair of codes, against exact arithmetic.
TEST(NodeForm, PairsAreTheRoundedResults) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {4});
  const NodeInput y = builder.input("y", {4});
  const Graph graph =
      builder.finish(builder.call("add", {builder.call("mul", {x, y}), builder.call("sub", {x, y})}));
  for (const char* op : {"add", "sub", "mul"}) {
    const Node node = quantized(graph, op,
                                {{"data_in_0", "affine:scale=0.11,zero_point=5"},
                                 {"data_in_1", "affine:signed=false,scale=0.07,zero_point=99"},
                                 {"data_out_0", "affine:signed=false,scale=0.2,zero_point=128"}});
    for (const Requantization way : {Requantization::kFloat, Requantization::kFixedPoint}) {
      const auto form = std::get<PairForm>(node_form(node, way).value());
      for (int a = -128; a <= 127; ++a) {
        for (int b = 0; b <= 255; ++b) {
          const double u = (a - 5) * 0.11;
          const double v = (b - 99) * 0.07;
          const double exact = op == std::string("add") ? u + v : op == std::string("sub") ? u - v : u * v;
          const double steps = std::clamp(exact / 0.2, -128.0, 127.0);
          ASSERT_NEAR(form.code(a, b) - 128, steps, tolerance(way)) << op << " " << a << " " << b;
        }
      }
    }
  }
}

TEST(NodeForm, ProductsBeyond32BitsAreRefusedInFixedPoint) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {4});
  const Graph graph = builder.finish(builder.call("mul", {x, x}));
  const Node node = quantized(graph, "mul",
                              {{"data_in_0", "affine:width=16,signed=false,scale=1,zero_point=0"},
                               {"data_in_1", "affine:width=16,signed=false,scale=1,zero_point=0"},
                               {"data_out_0", "affine:width=16,scale=9"}});
  EXPECT_EQ(form_error(node, Requantization::kFloat), "");
  EXPECT_THAT(form_error(node, Requantization::kFixedPoint),
              HasSubstr("node \"mul\" (mul): products could reach 4294836225, beyond 32 bits"));
}

/// Means of every window, in double, over shapes and attributes.
TEST(Pooling, AveragesAreTheRoundedMeans) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {3, 9, 7});
  const NodeInput line = builder.input("line", {3, 11});
  builder.module("avg_pool2d", "padded", x, {{"kernel_size", 3}, {"padding", 1}, {"stride", 2}});
  builder.module("avg_pool2d", "uncounted", x,
                 {{"kernel_size", 3}, {"padding", 1}, {"count_include_pad", false}, {"ceil_mode", true}});
  builder.module("avg_pool_with_border", "bordered", x,
                 {{"kernel_size", 3},
                  {"stride", 2},
                  {"padding", List{Value(0), Value(1), Value(1), Value(2)}},
                  {"dilation", List{Value(2), Value(1)}},
                  {"count_include_pad", false}});
  builder.module("adaptive_avg_pool2d", "adaptive", x, {{"output_size", 4}});
  const NodeInput last = builder.module("avg_pool1d", "in_line", line, {{"kernel_size", 4}, {"stride", 3}});
  const Graph graph = builder.finish(last);
  for (const char* name : {"padded", "uncounted", "bordered", "adaptive", "in_line"}) {
    const Node node = quantized(
        graph, name,
        {{"data_in_0", "affine:scale=0.11,zero_point=5"}, {"data_out_0", "affine:scale=0.1,zero_point=-9"}});
    const bool two = std::string(name) != "in_line";
    Tensor codes(DType::kInt32, two ? Shape{2, 3, 9, 7} : Shape{2, 3, 11});
    for (int64_t i = 0; i < codes.numel(); ++i) {
      codes.values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 37 % 256 - 128);
    }
    const auto windows = pooling_windows(node, codes.shape());
    for (const Requantization way : {Requantization::kFloat, Requantization::kFixedPoint}) {
      const auto form = std::get<AverageForm>(node_form(node, way).value());
      const Tensor pooled = average_pool(form, node, codes);
      const std::vector<PoolingWindow> one = {{0, 1, 1, 1}};
      size_t index = 0;
      for (int64_t plane = 0; plane < 6; ++plane) {
        for (const PoolingWindow& h : two ? windows[0] : one) {
          for (const PoolingWindow& w : windows.back()) {
            double sum = 0;
            for (int64_t r = h.begin; r < h.end; r += h.step) {
              for (int64_t c = w.begin; c < w.end; c += w.step) {
                sum += codes.values<int32_t>()[static_cast<size_t>(
                           (plane * (two ? 9 : 1) + r) * (two ? 7 : 11) + c)] -
                       5;
              }
            }
            const double mean = sum * 0.11 / static_cast<double>(h.counted * w.counted);
            EXPECT_NEAR(pooled.values<int32_t>()[index++] + 9, std::clamp(mean / 0.1, -119.0, 136.0),
                        tolerance(way));
          }
        }
      }
      EXPECT_EQ(static_cast<int64_t>(index), pooled.numel()) << name;
    }
  }
}

Graph product(const Shape& a, const Shape& b) {
  GraphBuilder builder("g");
  const NodeInput left = builder.input("a", a);
  return builder.finish(builder.call("matmul", {left, builder.parameter("b", b)}));
}

TEST(NodeForm, ProductsOfTwoInputsCountFromBothZeroPoints) {
  const Node node = quantized(product({2, 3}, {3, 2}), "matmul",
                              {{"data_in_0", "affine:signed=false,scale=0.5,zero_point=10"},
                               {"data_in_1", "affine:scale=0.25,zero_point=-8"},
                               {"data_out_0", "affine:scale=4,zero_point=-3"}});
  const auto form = std::get<ProductForm>(node_form(node, Requantization::kFloat).value());
  EXPECT_EQ(form.scale, 0.125F);
  EXPECT_EQ(form.largest_product, 245 * 135);
  EXPECT_EQ(form.requantized(48), -1);  // 1.5 steps of 4 tie to 2
  EXPECT_EQ(form.result(1 << 20), 4.0F * (127 + 3));
  const auto fixed = std::get<ProductForm>(node_form(node, Requantization::kFixedPoint).value());
  EXPECT_EQ(fixed.requantized(48), -1);
  EXPECT_NO_THROW(form.check_depth(node, 1 << 15));
  EXPECT_THROW(form.check_depth(node, 1 << 16), Error);
}

TEST(NodeForm, ProductsWhoseSumsNeedMoreThan32BitsHaveNone) {
  const Node node =
      quantized(product({2, 3}, {3, 2}), "matmul",
                {{"data_in_0", "affine:width=16,scale=0.5"}, {"data_in_1", "affine:scale=0.25"}});
  EXPECT_FALSE(node_form(node, Requantization::kFloat));
}

TEST(NodeForm, PairsWithANumberAreTables) {
  GraphBuilder builder("g");
  const NodeInput number = NodeInput::of_constant(Value(3));
  const NodeInput x = builder.input("x", {4});
  const Graph graph = builder.finish(builder.call("sub", {number, builder.call("div", {x, number})}));
  const std::vector<std::pair<std::string, std::string>> of_quotient = {
      {"data_in_0", "affine:width=3,scale=1"}, {"data_out_0", "affine:width=3,scale=0.5"}};
  const auto quotient =
      std::get<TableForm>(node_form(quantized(graph, "div", of_quotient), Requantization::kFloat).value());
  EXPECT_THAT(quotient.codes, ElementsAre(-3, -2, -1, -1, 0, 1, 1, 2));
  const std::vector<std::pair<std::string, std::string>> of_difference = {
      {"data_in_1", "affine:width=3,scale=1"}, {"data_out_0", "affine:width=4,scale=1"}};
  const auto difference = std::get<TableForm>(
      node_form(quantized(graph, "sub", of_difference), Requantization::kFixedPoint).value());
  EXPECT_THAT(difference.codes, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(NodeForm, ClampsToNumbersAreTables) {
  const auto form_of = [](const NodeInput& low, const NodeInput& high) {
    GraphBuilder builder("g");
    const NodeInput x = builder.input("x", {2});
    Graph graph = builder.finish(builder.call("clamp", {x, low, high}));
    const Node node = quantized(std::move(graph), "clamp",
                                {{"data_in_0", "affine:scale=0.5"}, {"data_out_0", "affine:scale=0.25"}});
    return node_form(node, Requantization::kFloat);
  };
  const auto number = [](double value) { return NodeInput::of_constant(Value(value)); };
  const auto form = std::get<TableForm>(form_of(number(-1), number(2)).value());
  const auto code = [&](int32_t input) { return form.codes[static_cast<size_t>(input - form.input.low)]; };
  EXPECT_THAT((std::vector{code(-128), code(-2), code(-1), code(3), code(4), code(127)}),
              ElementsAre(-4, -4, -2, 6, 8, 8));
  EXPECT_TRUE(form_of(NodeInput::absent(), number(2)));
  EXPECT_FALSE(form_of(NodeInput::of("x"), number(2)));
}

TEST(NodeForm, SlopesApplyBelowZero) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {4});
  const Graph graph = builder.finish(builder.call("prelu", {x, builder.parameter("slope", {1})}));
  const Node node = quantized(graph, "prelu",
                              {{"data_in_0", "affine:scale=1,zero_point=5"},
                               {"data_in_1", "affine:scale=0.25"},
                               {"data_out_0", "affine:scale=0.5,zero_point=-2"}});
  for (const Requantization way : {Requantization::kFloat, Requantization::kFixedPoint}) {
    const auto form = std::get<PairForm>(node_form(node, way).value());
    EXPECT_EQ(form.code(8, 2), -2 + 6);  // 3
    EXPECT_EQ(form.code(1, 2), -2 - 4);  // -4 times 0.5
    EXPECT_EQ(form.code(5, 100), -2);
  }
}

}  // namespace
}  // namespace detent
