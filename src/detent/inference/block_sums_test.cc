#include "detent/inference/block_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "detent/formats/groups/given_parameters.h"
#include "detent/graph/builder.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

void draw_and_quantize(Node& node, uint32_t seed, const char* weight, const char* input) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (auto& [name, parameter] : node.parameters) {
    for (float& value : parameter->tensor.values<float>()) value = normal(generator);
  }
  node.quantization["data_in_0"] = parse_quant_spec_text(input);
  QuantSpec rounding = parse_quant_spec_text(weight);
  if (rounding.granularity == Granularity::kGroup)
    rounding = with_given_parameters(rounding, node.find_parameter("weight")->tensor);
  node.quantization["weight"] = rounding;
}

Graph layer(const char* weight, const char* input, int64_t inputs = 40) {
  GraphBuilder builder("layer");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {inputs}), inputs, 3, true));
  draw_and_quantize(graph.node("fc"), 7, weight, input);
  return graph;
}

constexpr const char* kCodes = "affine:scale=0.125,zero_point=-3";

/// The scales and integers are the rounded weights, and the sums theirs, but for the last bits of float32.
TEST(BlockSums, AreSumsOfTheRoundedWeights) {
  for (const char* format : {"mx:element=e2m1", "mx:element=int8", "block_fp:width=6", "mx:element=e2m3",
                             "int4_g16", "uint4_g9", "int8_g40"}) {
    SCOPED_TRACE(format);
    const Graph graph = layer(format, kCodes);
    const Node& node = graph.node("fc");
    const auto form = block_sum_form(node);
    ASSERT_TRUE(form.has_value());
    const Tensor weight = fake_quantize(*node.rounding("weight"), node.find_parameter("weight")->tensor);
    Tensor codes(DType::kInt32, {2, form->inputs()});
    std::mt19937 generator(8);
    for (int32_t& code : codes.values<int32_t>()) code = static_cast<int32_t>(generator() % 256) - 128;
    const Tensor steps = block_sum_steps(*form, node, codes);
    for (size_t row = 0; row < 2; ++row) {
      for (size_t c = 0; c < 3; ++c) {
        auto exact = static_cast<double>(node.find_parameter("bias")->tensor.values<float>()[c]);
        for (size_t i = 0; i < 40; ++i) {
          const auto at = c * 40 + i;
          const float scale =
              form->scale[c * static_cast<size_t>(form->blocks()) + i / static_cast<size_t>(form->block)];
          ASSERT_EQ(static_cast<float>(form->weight.values<int32_t>()[at]) * scale,
                    weight.values<float>()[at]);
          exact += static_cast<double>(form->input.value(codes.values<int32_t>()[row * 40 + i])) *
                   static_cast<double>(weight.values<float>()[at]);
        }
        EXPECT_NEAR(steps.values<float>()[row * 3 + c], exact, 1e-4 * (1 + std::fabs(exact)));
      }
    }
  }
}

/// Where blocks have scales that are no powers of two, the weights' own products with the tensor's scale are
/// rounded, and the sums are not: they differ by that.
TEST(BlockSums, AreSumsOfElementsTimesTheScalesOfBlocksAndTensor) {
  for (const char* format : {"nvfp4", "nvfp4:tensor_scale=0.001"}) {
    SCOPED_TRACE(format);
    const Graph graph = layer(format, kCodes);
    const Node& node = graph.node("fc");
    const auto form = block_sum_form(node);
    ASSERT_TRUE(form.has_value());
    const Tensor weight = fake_quantize(*node.rounding("weight"), node.find_parameter("weight")->tensor);
    const float tensor_scale = form->multiplier / form->input.scale;
    for (size_t i = 0; i < 120; ++i) {
      const auto blocks = static_cast<size_t>(form->blocks());
      const float scale = form->scale[i / 40 * blocks + i % 40 / 16];
      const float value = weight.values<float>()[i];
      EXPECT_NEAR(static_cast<float>(form->weight.values<int32_t>()[i]) * scale * tensor_scale, value,
                  3e-7F * std::fabs(value));
    }
    Tensor codes(DType::kInt32, {1, 40});
    std::mt19937 generator(8);
    for (int32_t& code : codes.values<int32_t>()) code = static_cast<int32_t>(generator() % 256) - 128;
    const Tensor steps = block_sum_steps(*form, node, codes);
    for (size_t c = 0; c < 3; ++c) {
      auto exact = static_cast<double>(node.find_parameter("bias")->tensor.values<float>()[c]);
      for (size_t i = 0; i < 40; ++i)
        exact += static_cast<double>(form->input.value(codes.values<int32_t>()[i])) *
                 static_cast<double>(weight.values<float>()[c * 40 + i]);
      EXPECT_NEAR(steps.values<float>()[c], exact, 1e-4 * (1 + std::fabs(exact)));
    }
  }
}

struct Convolved {
  int64_t inputs, outputs, groups, kernel, stride, padding, dilation;
};
constexpr int64_t kHeight = 7;
constexpr int64_t kWidth = 6;

Graph block_convolution(const Convolved& of, const char* weight, const char* input) {
  GraphBuilder builder("convolution");
  Graph graph = builder.finish(builder.convolution(
      "conv", builder.input("x", {of.inputs, kHeight, kWidth}), of.inputs, of.outputs, {of.kernel, of.kernel},
      {{"stride", of.stride}, {"padding", of.padding}, {"dilation", of.dilation}, {"groups", of.groups}},
      true));
  draw_and_quantize(graph.node("conv"), 9, weight, input);
  return graph;
}

/// Values times rounded weights over a window, in double.
double window_sum(const Convolved& of, const Tensor& values, const Tensor& weight, int64_t output, int64_t y,
                  int64_t x) {
  const int64_t inputs = of.inputs / of.groups;
  double sum = 0;
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t channel = output / (of.outputs / of.groups) * inputs + i;
    for (int64_t tap = 0; tap < of.kernel * of.kernel; ++tap) {
      const int64_t row = y * of.stride - of.padding + tap / of.kernel * of.dilation;
      const int64_t column = x * of.stride - of.padding + tap % of.kernel * of.dilation;
      if (row < 0 || row >= kHeight || column < 0 || column >= kWidth) continue;
      const float value =
          values.values<float>()[static_cast<size_t>((channel * kHeight + row) * kWidth + column)];
      const auto at = static_cast<size_t>((output * inputs + i) * of.kernel * of.kernel + tap);
      sum += static_cast<double>(value) * static_cast<double>(weight.values<float>()[at]);
    }
  }
  return sum;
}

void expect_convolution(const Convolved& of, const char* format, const char* input) {
  const Graph graph = block_convolution(of, format, input);
  const Node& node = graph.node("conv");
  const auto form = block_sum_form(node);
  ASSERT_TRUE(form.has_value());
  const Tensor weight = fake_quantize(*node.rounding("weight"), node.find_parameter("weight")->tensor);
  Tensor codes(DType::kInt32, {1, of.inputs, kHeight, kWidth});
  Tensor values(DType::kFloat32, codes.shape());
  std::mt19937 generator(8);
  std::uniform_int_distribution<int32_t> among(form->input.low, form->input.high);
  for (size_t i = 0; i < codes.values<int32_t>().size(); ++i) {
    codes.values<int32_t>()[i] = among(generator);
    values.values<float>()[i] = form->input.value(codes.values<int32_t>()[i]);
  }
  const Tensor steps = block_sum_steps(*form, node, codes);
  const auto bias = node.find_parameter("bias")->tensor.values<float>();
  const float* step = steps.values<float>().data();
  for (int64_t o = 0; o < of.outputs; ++o) {
    for (int64_t y = 0; y < steps.dim(2); ++y) {
      for (int64_t x = 0; x < steps.dim(3); ++x, ++step) {
        const double wanted =
            static_cast<double>(bias[static_cast<size_t>(o)]) + window_sum(of, values, weight, o, y, x);
        ASSERT_NEAR(*step, wanted, 2e-4 * (1 + std::fabs(wanted))) << o << " " << y << " " << x;
      }
    }
  }
}

/// A convolution's blocks are those of each position of its window.
TEST(BlockSums, AreSumsOverTheWindowsOfAConvolution) {
  const std::initializer_list<Convolved> layers = {
      {40, 3, 1, 3, 1, 1, 1}, {32, 17, 1, 3, 2, 1, 1}, {9, 5, 1, 5, 1, 2, 1}, {64, 6, 2, 2, 1, 0, 2}};
  for (const Convolved& of : layers) {
    for (const char* format : {"mx:element=e2m1,block_axis=1", "nvfp4:block_axis=1",
                               "block_fp:width=6,block_size=20,block_axis=1"}) {
      for (const char* input : {kCodes, "affine:width=16,scale=0.001,zero_point=77"}) {
        SCOPED_TRACE(testing::Message() << of.inputs << " " << format << " " << input);
        expect_convolution(of, format, input);
      }
    }
  }
}

TEST(BlockSums, AreNoFormOfWhatHasNoIntegerSums) {
  const auto has_form = [](const char* weight, const char* input, int64_t inputs = 40) {
    return block_sum_form(layer(weight, input, inputs).node("fc")).has_value();
  };
  EXPECT_TRUE(has_form("mx:element=e2m1", kCodes));
  EXPECT_FALSE(has_form("mx:element=e5m2", kCodes));  // 30 binary places
  EXPECT_TRUE(has_form("nvfp4", kCodes));
  const Convolved window = {32, 4, 1, 3, 1, 1, 1};
  EXPECT_TRUE(
      block_sum_form(block_convolution(window, "nvfp4:block_axis=1", kCodes).node("conv")).has_value());
  EXPECT_FALSE(
      block_sum_form(block_convolution(window, "nvfp4", kCodes).node("conv")).has_value());  // along a row
  const Convolved deep = {8, 8, 8, 3, 1, 1, 1};  // blocks of one weight
  EXPECT_FALSE(
      block_sum_form(block_convolution(deep, "nvfp4:block_axis=1", kCodes).node("conv")).has_value());
  EXPECT_TRUE(has_form("nvfp4", "affine:width=16,scale=0.1"));
  EXPECT_FALSE(has_form("mx:element=e2m1,block_size=2x32", kCodes));  // blocks across outputs
  EXPECT_FALSE(has_form("mx:element=e2m1", "fp8_e4m3fn"));            // inputs without codes
  EXPECT_FALSE(has_form("affine:scale=0.1", kCodes));                 // no blocks
  EXPECT_TRUE(has_form("mx:element=e2m1,block_size=-1", kCodes, 2000));
  EXPECT_FALSE(has_form("mx:element=e2m1,block_size=-1", "affine:width=16,scale=0.1", 2000));  // beyond 2^31
}

TEST(BlockSums, AreWhatALayerOfSuchWeightsComputes) {
  const Graph graph = layer("mx:element=e2m1", kCodes);
  const auto form = node_form(graph.node("fc"), Requantization::kFloat);
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(std::holds_alternative<BlockSumForm>(*form));
  EXPECT_FALSE(
      node_form(graph.node("fc"), Requantization::kFixedPoint).has_value());  // nothing in float there
}

}  // namespace
}  // namespace detent
