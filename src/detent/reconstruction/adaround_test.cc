#include "detent/reconstruction/learned_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/reconstruction/random_layer_for_test.h"

namespace detent {
namespace {

using testing::DoubleNear;
using testing::Optional;

// The worked numbers of the behaviour specification, section 13.5.
TEST(RoundingRegularizer, WorkedExample) {
  EXPECT_NEAR(rounding_regularizer(0.1, 20), 0.988471, 5e-7);
  EXPECT_EQ(rounding_regularizer(0.5, 20), 1);
  EXPECT_NEAR(rounding_regularizer(0.9, 20), 0.988471, 5e-7);
  EXPECT_NEAR(rounding_regularizer(0.1, 2), 0.36, 5e-7);
  EXPECT_EQ(rounding_regularizer(0.5, 2), 1);
  EXPECT_NEAR(rounding_regularizer(0.9, 2), 0.36, 5e-7);
}

TEST(RegularizerExponent, FallsFromTwentyToTwoAfterAFifth) {
  const AdaRoundOptions options{.iterations = 1000};
  EXPECT_EQ(regularizer_exponent(options, 0), std::nullopt);
  EXPECT_EQ(regularizer_exponent(options, 199), std::nullopt);
  EXPECT_THAT(regularizer_exponent(options, 200), Optional(DoubleNear(20, 1e-9)));
  EXPECT_THAT(regularizer_exponent(options, 600), Optional(DoubleNear(11, 1e-9)));
  EXPECT_THAT(regularizer_exponent(options, 999), Optional(DoubleNear(2, 0.03)));
}

TEST(AdaRound, ChoosesTheValueBelowOrAbove) {
  const RandomLayer layer = random_layer(4, 30, 9);
  const ValueGrid grid(parse_quant_spec_text("affine:width=4,symmetric=true,scale=0.2"), layer.weight, "");
  Tensor learned = layer.weight.clone();
  adaround(layer.gram, grid, {.iterations = 200}, learned, 0, 4);
  for (size_t i = 0; i < 120; ++i) {
    const float weight = std::clamp(layer.weight.values<float>()[i], -1.6F, 1.4F);
    EXPECT_LT(std::fabs(learned.values<float>()[i] - weight), 0.2F * 1.0001F);
  }
}

TEST(AdaRound, IndependentInputsRoundToNearest) {
  const RandomLayer layer = random_layer(3, 12, 1);
  Matrix<double> identity(12, 12);
  for (int64_t i = 0; i < 12; ++i) identity(i, i) = 1;
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,symmetric=true,granularity=channel");
  Tensor learned = layer.weight.clone();
  adaround(identity, ValueGrid(spec, learned, ""), {}, learned, 0, 3);
  EXPECT_TRUE(std::ranges::equal(learned.values<float>(), fake_quantize(spec, layer.weight).values<float>()));
}

}  // namespace
}  // namespace detent
