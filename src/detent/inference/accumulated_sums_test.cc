#include "detent/inference/accumulated_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "detent/graph/builder.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Exact numbers of the plain computations: multiples of 2^-kPlaces.
__extension__ using Wide = __int128;
constexpr int kPlaces = 70;

Wide wide_of(double x) {
  int exponent = 0;
  const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  const int shift = exponent - 53 + kPlaces;
  return shift >= 0 ? Wide{digits} * (Wide{1} << shift) : Wide{digits} / (Wide{1} << -shift);
}

double double_of(Wide x) { return std::ldexp(static_cast<double>(x), -kPlaces); }

/// The float next to x, ties to even, by trying the neighbours at the distance that floats of its size have.
Wide nearest_float(const Accumulator& floats, Wide x) {
  const Wide magnitude = x < 0 ? -x : x;
  int exponent = 2 - (1 << (floats.exponent_bits - 1));
  while (exponent < 50 && magnitude >= wide_of(std::ldexp(2.0, exponent))) ++exponent;
  const int places = exponent - floats.fraction_bits() + kPlaces;
  if (places <= 0) return x;
  const Wide unit = Wide{1} << places;
  Wide below = magnitude / unit;
  const Wide twice_rest = 2 * (magnitude - below * unit);
  if (twice_rest > unit || (twice_rest == unit && below % 2 == 1)) ++below;
  return (x < 0 ? -1 : 1) * below * unit;
}

/// One addition, as the words of graph/accumulator.h say; whether the sum is beyond what there is.
Wide added(const Accumulator& accumulator, Wide sum, bool& is_beyond) {
  const Wide unit = Wide{1} << kPlaces;
  if (accumulator.is_float()) {
    const Wide rounded = nearest_float(accumulator, sum);
    if (accumulator.largest() > 0x1p50) return rounded;  // which no test here reaches
    const Wide largest = wide_of(accumulator.largest());
    is_beyond = rounded > largest || rounded < -largest;
    return rounded > largest ? largest : rounded < -largest ? -largest : rounded;
  }
  const Wide high = ((Wide{1} << (accumulator.width - 1)) - 1) * unit;
  const Wide low = -high - unit;
  is_beyond = sum > high || sum < low;
  if (accumulator.overflow == Accumulator::Overflow::kSaturate)
    return sum > high ? high : sum < low ? low : sum;
  while (sum > high) sum -= (Wide{1} << accumulator.width) * unit;
  while (sum < low) sum += (Wide{1} << accumulator.width) * unit;
  return sum;
}

class AddedOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

template <class T>
void expect_added_in_order(const Accumulator& accumulator, const std::vector<T>& factors,
                           const std::vector<T>& values, bool overflows) {
  constexpr int64_t kColumns = 2 * kAddedColumns;
  std::vector<T> sums(kColumns);
  const AccumulatorOverflows found =
      add_products(accumulator, std::span(factors), values.data(), kColumns, sums.data());
  AccumulatorOverflows wanted;
  for (size_t i = 0; i < kColumns; ++i) {
    Wide sum = 0;
    int64_t beyond = 0;
    for (size_t k = 0; k < factors.size(); ++k) {
      bool is_beyond = false;
      const Wide product =
          wide_of(static_cast<double>(factors[k]) * static_cast<double>(values[k * kColumns + i]));
      sum = added(accumulator, sum + product, is_beyond);
      beyond += is_beyond ? 1 : 0;
    }
    wanted += {beyond, beyond > 0 ? 1 : 0};
    ASSERT_EQ(static_cast<double>(sums[i]), double_of(sum)) << accumulator.text() << ", column " << i;
  }
  EXPECT_EQ(found.additions, wanted.additions) << accumulator.text();
  EXPECT_EQ(found.sums, wanted.sums) << accumulator.text();
  EXPECT_EQ(wanted.additions > 0, overflows) << accumulator.text();
}

TEST_P(AddedOnEveryTarget, IntegersSaturateOrWrapAtEachStep) {
  constexpr size_t kDepth = 60;
  std::mt19937 generator(1);
  std::uniform_int_distribution<int32_t> weights(-128, 127);
  std::uniform_int_distribution<int32_t> inputs(-37, 218);
  std::vector<int32_t> factors(kDepth);
  std::vector<int32_t> values(kDepth * 2 * kAddedColumns);
  for (int32_t& factor : factors) factor = weights(generator);
  for (int32_t& value : values) value = inputs(generator);
  for (const char* text : {"int2", "int2:wrap", "int12", "int12:wrap", "int16", "int16:wrap", "int17"})
    expect_added_in_order<int32_t>(Accumulator::parse(text), factors, values, true);
  for (const char* text : {"int24", "int24:wrap", "int31", "int31:wrap", "int32"})
    expect_added_in_order<int32_t>(Accumulator::parse(text), factors, values, false);
}

TEST_P(AddedOnEveryTarget, FloatsRoundAtEachStep) {
  constexpr size_t kDepth = 40;
  std::mt19937 generator(2);
  std::uniform_real_distribution<float> digits(-2, 2);
  std::uniform_int_distribution<int> exponents(-11, 6);  // products need no place beyond kPlaces
  std::vector<float> factors(kDepth);
  std::vector<float> values(kDepth * 2 * kAddedColumns);
  const auto drawn = [&](int divisor) {
    const float number = digits(generator);
    return std::ldexp(number, exponents(generator) / divisor);
  };
  for (float& factor : factors) factor = drawn(2);
  for (float& value : values) value = drawn(1);
  for (const char* text : {"fp16", "bf16", "fp22", "fp32", "fp_e8m1", "fp_e6m9"})
    expect_added_in_order<float>(Accumulator::parse(text), factors, values, false);
  expect_added_in_order<float>(Accumulator::parse("fp_e4m3"), factors, values, true);
  expect_added_in_order<float>(Accumulator::parse("fp_e4m7"), factors, values, true);
  for (float& value : values)
    value = std::ldexp(value, -14);  // subnormal numbers of 4 and 5 bits of exponent
  for (float& value : values) value = std::nearbyint(value * 0x1p30F) * 0x1p-30F;
  for (const char* text : {"fp16", "fp_e4m3", "bf16"})
    expect_added_in_order<float>(Accumulator::parse(text), factors, values, false);
}

/// 2^40 + 2^17 + 2^16 is in the middle of two numbers of fp32. The sum is 2^-20 less, which double has no
/// place for.
TEST_P(AddedOnEveryTarget, SumsAreRoundedOnce) {
  for (const float sign : {1.0F, -1.0F}) {
    const std::array factors = {0x1p17F, 0x1p16F * (1 + 0x1p-18F)};
    std::vector<float> values(2 * kAddedColumns);
    std::fill_n(values.begin(), kAddedColumns, sign * (0x1p23F + 1));
    std::fill_n(values.begin() + kAddedColumns, kAddedColumns, sign * (1 - 0x1p-18F));
    std::vector<float> sums(kAddedColumns);
    add_products(Accumulator::parse("fp32"), factors, values.data(), kAddedColumns, sums.data());
    EXPECT_EQ(sums[0], sign * (0x1p40F + 0x1p17F));
  }
}

TEST_P(AddedOnEveryTarget, WhatIsNoNumberStaysSoAndInfinityIsCutOff) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(2 * kAddedColumns, 1);
  values[0] = kInfinity;
  values[1] = std::numeric_limits<float>::quiet_NaN();
  values[2] = -kInfinity;
  std::vector<float> sums(kAddedColumns);
  const AccumulatorOverflows overflows = add_products(Accumulator::parse("fp16"), std::array{1.0F, 1.0F},
                                                      values.data(), kAddedColumns, sums.data());
  EXPECT_EQ(sums[0], 65504.0F);
  EXPECT_TRUE(std::isnan(sums[1]));
  EXPECT_EQ(sums[2], -65504.0F + 0.0F);
  EXPECT_EQ(sums[3], 2.0F);
  EXPECT_EQ(overflows.sums, 2);
}

INSTANTIATE_TEST_SUITE_P(Targets, AddedOnEveryTarget, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

/// A layer of one node with codes drawn at random, and its form.
struct RandomLayer {
  Graph graph;
  SumForm form;
  Tensor codes;

  const Node& node() const { return graph.node("layer"); }
};

RandomLayer random_layer(const std::string& op, const Shape& sample, const Shape& weight, Table attributes) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", sample);
  const bool transposed = op.starts_with("convtranspose");
  const Value* groups = attributes.find("groups");
  const int64_t outputs = transposed ? weight[1] * *groups->get_if<int64_t>() : weight[0];
  const NodeInput y = builder.layer(op, "layer", {x}, {{"weight", weight}, {"bias", {outputs}}}, attributes);
  RandomLayer layer{builder.finish(y), {}, {}};
  Node& node = layer.graph.node("layer");
  std::mt19937 generator(3);
  std::uniform_int_distribution<int32_t> draw(-7, 7);
  for (float& w : node.find_parameter("weight")->tensor.values<float>())
    w = static_cast<float>(draw(generator));
  for (float& b : node.find_parameter("bias")->tensor.values<float>())
    b = static_cast<float>(100 * draw(generator));
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:width=6,scale=1,zero_point=-3");
  node.quantization["weight"] = parse_quant_spec_text("affine:width=4,scale=1");
  layer.form = std::get<SumForm>(node_form(node, Requantization::kFloat).value());
  Shape shape = sample;
  shape.insert(shape.begin(), 2);
  layer.codes = Tensor(DType::kInt32, shape);
  std::uniform_int_distribution<int32_t> codes(-32, 31);
  for (int32_t& code : layer.codes.values<int32_t>()) code = codes(generator);
  return layer;
}

/// Addends of output channel `o` at a position of a convolution over two dimensions, of weights [out, in of a
/// group, ...], in order.
struct PlainConvolution {
  int64_t stride, padding, dilation, groups;
  bool transposed;

  std::vector<int32_t> terms(const RandomLayer& layer, int64_t n, int64_t o, int64_t row,
                             int64_t column) const {
    const Shape& in = layer.codes.shape();
    const Shape& w = layer.form.weight.shape();
    const int64_t outputs = transposed ? w[1] : w[0] / groups;
    const int64_t inputs = in[1] / groups;
    std::vector<int32_t> result;
    for (int64_t i = o / outputs * inputs; i < (o / outputs + 1) * inputs; ++i) {
      for (int64_t a = 0; a < w[2]; ++a) {
        for (int64_t b = 0; b < w[3]; ++b) {
          const int64_t weight = transposed ? ((i * w[1] + o % outputs) * w[2] + a) * w[3] + b
                                            : ((o * inputs + i % inputs) * w[2] + a) * w[3] + b;
          for (int64_t y = 0; y < in[2]; ++y) {
            for (int64_t x = 0; x < in[3]; ++x) {
              const bool reads = transposed ? y * stride + a * dilation == row + padding &&
                                                  x * stride + b * dilation == column + padding
                                            : row * stride + a * dilation == y + padding &&
                                                  column * stride + b * dilation == x + padding;
              if (!reads) continue;
              const int32_t code =
                  layer.codes
                      .values<int32_t>()[static_cast<size_t>(((n * in[1] + i) * in[2] + y) * in[3] + x)];
              result.push_back((code + 3) * layer.form.weight.values<int32_t>()[static_cast<size_t>(weight)]);
            }
          }
        }
      }
    }
    return result;
  }
};

void expect_plain_sums(const RandomLayer& layer, const PlainConvolution& plain,
                       const Accumulator& accumulator) {
  const AccumulatedSums found = accumulated_sums(layer.form, layer.node(), accumulator, layer.codes);
  const Shape& shape = found.sums.shape();
  AccumulatorOverflows overflows;
  size_t at = 0;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t o = 0; o < shape[1]; ++o) {
      for (int64_t position = 0; position < shape[2] * shape[3]; ++position) {
        Wide sum = 0;
        int64_t beyond = 0;
        for (const int32_t term : plain.terms(layer, n, o, position / shape[3], position % shape[3])) {
          bool is_beyond = false;
          sum = added(accumulator, sum + wide_of(term), is_beyond);
          beyond += is_beyond ? 1 : 0;
        }
        const double wanted = double_of(sum) + layer.form.bias[static_cast<size_t>(o)];
        ASSERT_EQ(found.sums.values<int32_t>()[at++], wanted) << accumulator.text() << " " << layer.node().op;
        overflows += {beyond, beyond > 0 ? 1 : 0};
      }
    }
  }
  EXPECT_EQ(found.overflows.additions, overflows.additions);
  EXPECT_EQ(found.overflows.sums, overflows.sums);
  EXPECT_GT(overflows.sums, accumulator.width < 10 ? 0 : -1);
}

TEST(AccumulatedSums, FollowTheOrderOfTheWeights) {
  const RandomLayer plain = random_layer(
      "conv2d", {4, 6, 5}, {6, 2, 3, 2},
      {{"groups", int64_t{2}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}, {"dilation", int64_t{1}}});
  const RandomLayer dilated =
      random_layer("conv2d", {3, 7, 7}, {2, 3, 3, 3}, {{"padding", int64_t{2}}, {"dilation", int64_t{2}}});
  const RandomLayer transposed =
      random_layer("convtranspose2d", {4, 3, 4}, {4, 3, 3, 3},
                   {{"groups", int64_t{2}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}});
  for (const char* text : {"int8", "int8:wrap", "int9:wrap", "fp_e4m3", "bf16", "fp16"}) {
    const Accumulator accumulator = Accumulator::parse(text);
    expect_plain_sums(plain, {2, 1, 1, 2, false}, accumulator);
    expect_plain_sums(dilated, {1, 2, 2, 1, false}, accumulator);
    expect_plain_sums(transposed, {2, 1, 1, 2, true}, accumulator);
  }
}

TEST(AccumulatedSums, OfRowsAreThoseOfOnePosition) {
  const RandomLayer linear = random_layer("linear", {3, 70}, {5, 70}, {});
  const Accumulator accumulator = Accumulator::parse("int9");
  const AccumulatedSums found = accumulated_sums(linear.form, linear.node(), accumulator, linear.codes);
  EXPECT_EQ(found.sums.shape(), Shape({2, 3, 5}));
  EXPECT_EQ(found.additions, 2 * 3 * 5 * 70);
  for (size_t at = 0; at < 30; ++at) {
    Wide sum = 0;
    bool is_beyond = false;
    for (size_t k = 0; k < 70; ++k) {
      const int32_t x = linear.codes.values<int32_t>()[at / 5 * 70 + k] + 3;
      sum = added(accumulator, sum + wide_of(x * linear.form.weight.values<int32_t>()[at % 5 * 70 + k]),
                  is_beyond);
    }
    EXPECT_EQ(found.sums.values<int32_t>()[at], double_of(sum) + linear.form.bias[at % 5]);
  }
}

/// Products of more than 30 bits have no room in vectors of 32.
TEST(AccumulatedSums, OfWideCodesAreThoseOfNarrowOnes) {
  RandomLayer layer = random_layer("linear", {2}, {1, 2}, {});
  layer.form.input = {.scale = 1, .zero_point = 0, .low = 0, .high = 65535, .is_sign = false};
  layer.form.weight = Tensor::from<int32_t>({1, 2}, std::vector<int32_t>{-32768, 5});
  layer.form.bias = {7};
  layer.codes = Tensor::from<int32_t>({1, 2}, std::vector<int32_t>{65535, 3});
  const auto sum = [&](const char* text) {
    return accumulated_sums(layer.form, layer.node(), Accumulator::parse(text), layer.codes)
        .sums.values<int32_t>()[0];
  };
  EXPECT_EQ(sum("int31"), -(1 << 30) + 15 + 7);
  EXPECT_EQ(sum("int31:wrap"), 32768 + 15 + 7);
}

TEST(AccumulatedSums, BoundsAreReachedAndSoTheWidthsAreTheNarrowest) {
  RandomLayer layer = random_layer("linear", {3}, {2, 3}, {});
  layer.form.weight = Tensor::from<int32_t>({2, 3}, std::vector<int32_t>{7, -7, 1, -8, -8, 0});
  // Inputs counted from the zero point: -29 to 34.
  const int64_t bound = products_bound(layer.form, layer.node());
  EXPECT_EQ(bound, 16 * 34);
  EXPECT_EQ(guaranteed_width(bound), 11);
  EXPECT_EQ(guaranteed_width(511), 10);
  EXPECT_EQ(guaranteed_width(512), 11);
  layer.codes = Tensor::from<int32_t>({1, 3}, std::vector<int32_t>{31, 31, 0});
  const auto overflows = [&](const char* text) {
    return accumulated_sums(layer.form, layer.node(), Accumulator::parse(text), layer.codes).overflows.sums;
  };
  EXPECT_EQ(overflows("int10"), 1);
  EXPECT_EQ(overflows("int11"), 0);
  Node& node = layer.graph.node("layer");
  EXPECT_FALSE(inexact_accumulator(layer.form, node));
  set_accumulator(node, Accumulator::parse("int10"));
  EXPECT_TRUE(inexact_accumulator(layer.form, node));
  set_accumulator(node, Accumulator::parse("int11:wrap"));
  EXPECT_FALSE(inexact_accumulator(layer.form, node));
  set_accumulator(node, Accumulator::parse("fp16"));  // holds 2,048
  EXPECT_FALSE(inexact_accumulator(layer.form, node));
  set_accumulator(node, Accumulator::parse("bf16"));  // holds 256
  EXPECT_TRUE(inexact_accumulator(layer.form, node));
}

}  // namespace
}  // namespace detent
