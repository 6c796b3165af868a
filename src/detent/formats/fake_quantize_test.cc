// Meaning of the formats, against definitions written once more here, not against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/core/parallel.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor tensor(Shape shape, const std::vector<float>& values) {
  return Tensor::from(std::move(shape), values);
}

std::vector<float> rounded(std::string_view spec, Shape shape, const std::vector<float>& values) {
  const Tensor output = fake_quantize(parse_quant_spec_text(spec), tensor(std::move(shape), values));
  return {output.values<float>().begin(), output.values<float>().end()};
}

std::vector<float> rounded(std::string_view spec, const std::vector<float>& values) {
  return rounded(spec, {static_cast<int64_t>(values.size())}, values);
}

std::vector<float> mask(std::string_view spec, const std::vector<float>& values) {
  const Tensor output =
      clipped_ste_mask(parse_quant_spec_text(spec), tensor({static_cast<int64_t>(values.size())}, values));
  return {output.values<float>().begin(), output.values<float>().end()};
}

/// One value for each choice of the upper 16 bits of float32, without NaN, and all ties of `values` with
/// neighbours.
std::vector<float> nearly_all_values(const std::vector<float>& values) {
  std::vector<float> result;
  for (uint32_t high = 0; high < 65536; ++high) {
    const auto x = std::bit_cast<float>(high << 16);
    if (!std::isnan(x)) result.push_back(x);
  }
  for (size_t i = 1; i < values.size(); ++i) {
    for (const float x : {values[i], (values[i - 1] + values[i]) / 2}) {
      result.insert(result.end(), {std::nextafter(x, -kInfinity), x, std::nextafter(x, kInfinity)});
    }
  }
  return result;
}

/// The value that rounding `x` must give, found by search.
float expected_value(const Fixed& format, const std::vector<float>& values, float x) {
  const auto above = std::ranges::upper_bound(values, x);
  if (above == values.begin()) return values.front();
  const float low = *(above - 1);
  if (above == values.end() || format.rounding == Rounding::kFloor) return low;
  const double middle = (static_cast<double>(low) + static_cast<double>(*above)) / 2;
  if (static_cast<double>(x) != middle) return static_cast<double>(x) < middle ? low : *above;
  const double code = std::ldexp(static_cast<double>(low), format.fraction_bits());
  return std::fmod(code, 2.0) == 0.0 ? low : *above;
}

void check_nearest(const Fixed& format) {
  const std::vector<float> values = representable_values(format);
  const std::vector<float> inputs = nearly_all_values(values);
  const Tensor output =
      fake_quantize({.format = format}, tensor({static_cast<int64_t>(inputs.size())}, inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(output.values<float>()[i], expected_value(format, values, inputs[i]))
        << format_text(format) << " of " << inputs[i];
  }
}

TEST(Fixed, IsANearestRepresentableValueForWidthsUpTo8) {
  for (int width = 1; width <= 8; ++width) {
    for (const int fraction : {-96, -3, 0, 4, 11, 96}) {
      for (const bool is_signed : {true, false}) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kFloor}) {
          check_nearest(
              {.width = width, .frac_width = fraction, .is_signed = is_signed, .rounding = rounding});
        }
      }
    }
  }
}

TEST(Fixed, Examples) {
  const std::vector<float> x = {0.03125F, 0.09375F,  -0.09375F,  7.96875F, 100,
                                -8.1F,    kInfinity, -kInfinity, 1e-40F};
  EXPECT_THAT(rounded("fixed", x), ElementsAre(0, 0.125F, -0.125F, 7.9375F, 7.9375F, -8, 7.9375F, -8, 0));
  EXPECT_THAT(rounded("fixed:signed=false", x), ElementsAre(0, 0.125F, 0, 8, 15.9375F, 0, 15.9375F, 0, 0));
  EXPECT_THAT(rounded("fixed:width=8,frac_width=-2", {5, 6, 7, 100, 1000, -1000}),
              ElementsAre(4, 8, 8, 100, 508, -512));
  EXPECT_THAT(rounded("fixed:rounding=floor", {-1e-45F, -0.03125F}), ElementsAre(-0.0625F, -0.0625F));
}

TEST(Fixed, BoundsThatFloat32CannotHoldAreTheNextTowardZero) {
  EXPECT_THAT(rounded("fixed:width=32,frac_width=0", {1e20F, -1e20F}), ElementsAre(0x1.fffffep30F, -0x1p31F));
  EXPECT_THAT(rounded("fixed:width=32,frac_width=-96,signed=false", {kInfinity}),
              ElementsAre(std::numeric_limits<float>::max()));
}

TEST(EveryFormat, NanPassesThrough) {
  for (const char* spec : {"fixed", "fixed:rounding=floor", "ternary", "binary", "binary:stochastic=true"}) {
    const std::vector<float> y = rounded(spec, {1.0F, kNan, -kNan});
    EXPECT_TRUE(!std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[2])) << spec;
  }
}

TEST(EveryFormat, EmptyAndScalarTensors) {
  for (const char* spec : {"fixed", "ternary", "ternary:granularity=channel", "binary:scaling=per_channel"}) {
    EXPECT_TRUE(rounded(spec, {0, 3}, {}).empty()) << spec;
    EXPECT_TRUE(rounded(spec, {3, 0}, {}).empty()) << spec;
  }
  EXPECT_THAT(rounded("ternary:scaling_factor=true", {}, {-3}), ElementsAre(-3));
}

RC_GTEST_PROP(EveryFormat, RoundingTwiceIsRoundingOnce, ()) {
  const auto bits = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(0, 0xFFFFFFFF));
  std::vector<float> x = {1.0F};
  for (const uint32_t b : bits)
    x.push_back(std::isnan(std::bit_cast<float>(b)) ? 0.0F : std::bit_cast<float>(b));
  const std::string fixed =
      fmt::format("fixed:width={},frac_width={},signed={},rounding={}", *rc::gen::inRange(1, 33),
                  *rc::gen::inRange(-96, 97), *rc::gen::arbitrary<bool>(),
                  *rc::gen::element<std::string>("nearest", "floor"));
  for (const std::string& spec : {fixed, std::string("ternary:threshold=0.7"), std::string("binary"),
                                  std::string("ternary:threshold=0.7,scaling_factor=true")}) {
    const std::vector<float> once = rounded(spec, x);
    RC_ASSERT(rounded(spec, once) == once);
  }
}

TEST(Ternary, ThresholdIsTheFirstThatIsGiven) {
  const std::vector<float> x = {0.1F, -0.2F, 0.3F, -0.4F};
  EXPECT_THAT(rounded("ternary", x), ElementsAre(0, -1, 1, -1));  // 0.75 * 0.25
  EXPECT_THAT(rounded("ternary:threshold=0.3,mean=0.1", x), ElementsAre(0, 0, 0, -1));
  EXPECT_THAT(rounded("ternary:mean=0.4,max=2", x), ElementsAre(0, 0, 1, -1));
  EXPECT_THAT(rounded("ternary:max=4.4,median=9", x), ElementsAre(0, 0, 1, -1));
  EXPECT_THAT(rounded("ternary:median=0.5", x), ElementsAre(0, 0, 0, -1));
}

TEST(Ternary, ScalesAreMeansOfWhatIsAbove) {
  const std::vector<float> x = {1, -2, 4, -4, 8, -8, 0.5F, 0};
  EXPECT_THAT(rounded("ternary:scaling_factor=true,granularity=channel", {2, 4}, x),
              ElementsAre(0, 0, 4, -4, 8, -8, 0, 0));
  EXPECT_THAT(rounded("ternary:scaling_factor=true,threshold=2,granularity=channel,axis=-1", {2, 4}, x),
              ElementsAre(0, 0, 4, -4, 8, -8, 0, 0));
  EXPECT_THAT(rounded("ternary:scaling_factor=true,threshold=9", x), testing::Each(0.0F));
}

TEST(Ternary, OnlyFiniteElementsHaveAPartInTheMeans) {
  EXPECT_THAT(rounded("ternary:scaling_factor=true", {1, -kInfinity, 3, 0.5F}), ElementsAre(0, -3, 3, 0));
}

/// As a channel whose weights are pruned.
TEST(Ternary, KeepsChannelsOfZeros) {
  for (const char* scaling : {"false", "true"}) {
    const std::string spec = fmt::format("ternary:granularity=channel,scaling_factor={}", scaling);
    EXPECT_THAT(rounded(spec, {2, 2}, {1, 1, 0, 0}), ElementsAre(1, 1, 0, 0)) << spec;
  }
  EXPECT_THAT(error_of([] {
                rounded("ternary", {0, 0});
              }),
              HasSubstr("the mean |x| of the tensor itself (2 elements)"));
  EXPECT_THAT(error_of([] {
                rounded("ternary:mean=0", {0, 0});
              }),
              HasSubstr("key \"mean\": got 0.0, which gives the threshold 0.75 * mean = 0.0"));
}

TEST(Binary, SignsAndScales) {
  const std::vector<float> x = {-1.5F, -0.0F, 0.0F, 0.5F};
  EXPECT_THAT(rounded("binary", x), ElementsAre(-1, 1, 1, 1));
  EXPECT_THAT(rounded("binary:bipolar=false", x), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(rounded("binary:scaling=per_tensor", x), ElementsAre(-0.5F, 0.5F, 0.5F, 0.5F));
  EXPECT_THAT(rounded("binary:scaling=per_channel", {2, 2}, x), ElementsAre(-0.75F, 0.75F, 0.25F, 0.25F));
  EXPECT_THAT(rounded("binary:scaling=per_channel,axis=1", {2, 2}, x),
              ElementsAre(-0.75F, 0.25F, 0.75F, 0.25F));
  EXPECT_THAT(rounded("binary:scaling=per_tensor", {0, 0}), ElementsAre(0, 0));
}

TEST(Binary, StochasticSignsHaveTheirProbability) {
  constexpr int64_t kCount = 1 << 20;
  const QuantSpec spec = parse_quant_spec_text("binary:stochastic=true");
  for (const float x : {-1.0F, -0.5F, 0.0F, 0.25F, 1.0F}) {
    const Tensor output = fake_quantize(spec, tensor({kCount}, std::vector<float>(kCount, x)), 42);
    double sum = 0;
    for (const float y : output.values<float>()) sum += static_cast<double>(y);
    const double tolerance = std::abs(x) == 1.0F ? 0.0 : 5.0 / std::sqrt(static_cast<double>(kCount));
    EXPECT_NEAR(sum / kCount, static_cast<double>(x), tolerance);
  }
}

TEST(Binary, StochasticSignsDependOnSeedAndIndexOnly) {
  const QuantSpec spec = parse_quant_spec_text("binary:stochastic=true");
  const Tensor input(DType::kFloat32, {1 << 18});
  const int threads = thread_count();
  set_thread_count(1);
  const Tensor one = fake_quantize(spec, input, 1);
  set_thread_count(4);
  EXPECT_TRUE(fake_quantize(spec, input, 1).equals(one));
  EXPECT_FALSE(fake_quantize(spec, input, 2).equals(one));
  set_thread_count(threads);
}

TEST(Groups, SumsDoNotDependOnThreads) {
  std::vector<float> values;
  for (int i = 0; i < 300001; ++i) values.push_back(std::sin(static_cast<float>(i)) * 1e3F);
  const int threads = thread_count();
  set_thread_count(1);
  const std::vector<float> one = rounded("ternary:scaling_factor=true", values);
  set_thread_count(3);
  EXPECT_EQ(rounded("ternary:scaling_factor=true", values), one);
  set_thread_count(threads);
}

TEST(UnsaturatedMask, OfFixedIsWhatRoundsIntoTheRange) {
  const std::vector<float> x = {-8.03125F, -8.04F, 7.96875F, std::nextafter(7.96875F, 0.0F), kInfinity, kNan};
  EXPECT_THAT(mask("fixed", x), ElementsAre(1, 0, 0, 1, 0, 1));
  EXPECT_THAT(mask("fixed:rounding=floor", {-8, -8.01F, 7.99F, 8}), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(mask("fixed:width=1,frac_width=0", {-1.5F, -1.49F, 0.5F, 0.51F}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(mask("fixed:signed=false", {-0.03125F, -0.04F, 15.96F, 15.97F}), ElementsAre(1, 0, 1, 0));
}

TEST(UnsaturatedMask, OfFixedAgreesWithRoundingInDouble) {
  for (const char* text :
       {"fixed:width=5", "fixed:width=8,signed=false", "fixed:width=3,frac_width=-3,rounding=floor",
        "fixed:width=1,frac_width=2", "fixed:width=1,signed=false,rounding=floor"}) {
    const Fixed format = std::get<Fixed>(parse_quant_spec_text(text).format);
    const std::vector<float> inputs = nearly_all_values(representable_values(format));
    const std::vector<float> held = mask(text, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double scaled = std::ldexp(static_cast<double>(inputs[i]), format.fraction_bits());
      const double code = format.rounding == Rounding::kFloor ? std::floor(scaled) : std::nearbyint(scaled);
      const bool expected = code >= format.low_code() && code <= format.high_code();
      ASSERT_EQ(held[i], expected ? 1.0F : 0.0F) << text << " of " << inputs[i];
    }
  }
}

TEST(UnsaturatedMask, OfSignsIsWhatLiesBetweenTheOutermostValues) {
  EXPECT_THAT(mask("binary", {-1.1F, -1, 0, 1, 1.1F}), ElementsAre(0, 1, 1, 1, 0));
  EXPECT_THAT(mask("binary:bipolar=false", {-0.1F, 0, 1, 1.1F}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(mask("ternary:threshold=0.5", {-1.1F, -1, 0, 1, 1.1F}), ElementsAre(0, 1, 1, 1, 0));
}

TEST(Simulate, RejectsWhatItCannotTake) {
  const QuantSpec spec;
  EXPECT_THAT(error_of([&] { fake_quantize(spec, Tensor(DType::kInt8, {2})); }),
              HasSubstr("int8, expected float32, float16 or bfloat16"));
  EXPECT_THAT(error_of([] {
                rounded("ternary:granularity=channel,axis=2", {1, 2}, {1, 2});
              }),
              HasSubstr("key \"axis\": got 2, but the tensor has the shape [1, 2]"));
  EXPECT_THAT(error_of([] { rounded("ternary:granularity=channel", {}, {1}); }), HasSubstr("shape []"));
  Tensor wrong(DType::kFloat32, {3});
  EXPECT_THROW(fake_quantize(spec, Tensor(DType::kFloat32, {2}), wrong), CheckFailure);
  Tensor storage(DType::kFloat32, {8});
  Tensor shifted = storage.rows(1, 8);
  EXPECT_THROW(fake_quantize(spec, storage.rows(0, 7), shifted), CheckFailure);
}

}  // namespace
}  // namespace detent
