#include "detent/reconstruction/scale_search.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detent/formats/groups/calibrating.h"

namespace detent {
namespace {

constexpr int64_t kWeightRows = 5;
constexpr int64_t kWeightColumns = 24;
/// No factor at which the largest weight lies half way between two codes, where float and double may part.
constexpr ScaleSearchOptions kSearched = {.smallest = 0.413, .largest = 1.187, .candidates = 29};

Tensor drawn_weight(uint32_t seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> draw(3);
  Tensor weight(DType::kFloat32, {kWeightRows, kWeightColumns});
  for (float& value : weight.values<float>()) value = draw(random);
  return weight;
}

/// The mean of x x^T of inputs that are correlated, as after a relu.
Matrix<double> drawn_gram(uint32_t seed) {
  constexpr int kDraws = 40;
  std::mt19937 random(seed);
  std::normal_distribution<double> draw;
  Matrix<double> gram(kWeightColumns, kWeightColumns);
  std::vector<double> x(kWeightColumns);
  for (int i = 0; i < kDraws; ++i) {
    const double common = draw(random);
    for (double& value : x) value = std::max(0.0, common + 0.5 * draw(random));
    for (int64_t a = 0; a < kWeightColumns; ++a) {
      for (int64_t b = 0; b < kWeightColumns; ++b)
        gram(a, b) += x[static_cast<size_t>(a)] * x[static_cast<size_t>(b)] / kDraws;
    }
  }
  return gram;
}

/// d H d^T of the elements [begin, end) of a row, with an integer of `width` bits times a scale, in double.
double plain_error(const float* weight, const Matrix<double>& gram, int64_t begin, int64_t end, int width,
                   double factor) {
  double largest = 0;
  for (int64_t k = begin; k < end; ++k)
    largest = std::max(largest, std::fabs(static_cast<double>(weight[k])));
  const double high = std::exp2(width - 1) - 1;
  const double scale = factor * largest / high;
  std::vector<double> d;
  for (int64_t k = begin; k < end; ++k) {
    const double code = std::clamp(std::nearbyint(static_cast<double>(weight[k]) / scale), -high, high);
    d.push_back(static_cast<double>(weight[k]) - code * scale);
  }
  double error = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t k = begin; k < end; ++k)
      error += d[static_cast<size_t>(i - begin)] * gram(i, k) * d[static_cast<size_t>(k - begin)];
  }
  return error;
}

double least_plain_error(const float* weight, const Matrix<double>& gram, int64_t begin, int64_t end,
                         int width, const ScaleSearchOptions& options) {
  double least = plain_error(weight, gram, begin, end, width, 1);
  for (int64_t i = 0; i < options.candidates; ++i) {
    const double factor = options.smallest + (options.largest - options.smallest) * static_cast<double>(i) /
                                                 static_cast<double>(options.candidates - 1);
    least = std::min(least, plain_error(weight, gram, begin, end, width, factor));
  }
  return least;
}

TEST(ScaleSearch, FindsTheLeastErrorOfEachChannel) {
  const ScaleSearchOptions options = kSearched;
  for (const int width : {2, 3, 4, 8}) {
    const QuantSpec spec = parse_quant_spec_text(
        fmt::format("affine:width={},symmetric=true,narrow_range=true,granularity=channel", width));
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      const Tensor weight = drawn_weight(seed);
      const Matrix<double> gram = drawn_gram(seed);
      const SearchedScales found = search_scales(spec, weight, {gram}, options, "test");
      double expected = 0;
      for (int64_t row = 0; row < kWeightRows; ++row)
        expected += least_plain_error(weight.values<float>().data() + row * kWeightColumns, gram, 0,
                                      kWeightColumns, width, options);
      EXPECT_NEAR(found.after, expected, 1e-4 * expected) << width << " bits, seed " << seed;
      EXPECT_LE(found.after, found.before);
    }
  }
}

TEST(ScaleSearch, SearchesEachGroupOfAChannelByItself) {
  const ScaleSearchOptions options = kSearched;
  const QuantSpec spec =
      parse_quant_spec_text("affine:width=4,symmetric=true,narrow_range=true,granularity=group,group_size=8");
  const Tensor weight = drawn_weight(11);
  const Matrix<double> gram = drawn_gram(12);
  const SearchedScales found = search_scales(spec, weight, {gram}, options, "test");
  double expected = 0;
  for (int64_t row = 0; row < kWeightRows; ++row) {
    for (int64_t begin = 0; begin < kWeightColumns; begin += 8)
      expected += least_plain_error(weight.values<float>().data() + row * kWeightColumns, gram, begin,
                                    begin + 8, 4, options);
  }
  EXPECT_NEAR(found.after, expected, 1e-4 * expected);
}

/// The error found is that of the spec.
TEST(ScaleSearch, GivesASpecWithTheErrorThatItSays) {
  for (const char* text :
       {"affine:width=4,symmetric=true,granularity=channel", "scaled:element=fp4_e2m1,granularity=channel",
        "scaled:element=fp8_e4m3fn", "fixed:width=5", "nvfp4", "log:width=4",
        "minifloat_ieee:width=6,exponent_width=3"}) {
    const QuantSpec spec = parse_quant_spec_text(text);
    ASSERT_TRUE(has_searchable_scales(spec)) << text;
    const Tensor weight = drawn_weight(21);
    const Matrix<double> gram = drawn_gram(22);
    const SearchedScales found = search_scales(spec, weight, {gram}, kSearched, "test");
    const Tensor rounded = fake_quantize(found.spec, weight);
    double error = 0;
    for (int64_t row = 0; row < kWeightRows; ++row) {
      for (int64_t i = 0; i < kWeightColumns; ++i) {
        for (int64_t k = 0; k < kWeightColumns; ++k) {
          const auto difference = [&](int64_t column) {
            const auto at = static_cast<size_t>(row * kWeightColumns + column);
            return static_cast<double>(weight.values<float>()[at]) -
                   static_cast<double>(rounded.values<float>()[at]);
          };
          error += difference(i) * gram(i, k) * difference(k);
        }
      }
    }
    EXPECT_NEAR(error, found.after, 1e-4 * error) << text;
    EXPECT_LE(found.after, found.before) << text;
  }
}

TEST(ScaleSearch, LeavesFormatsAloneWhoseScalesFollowTheWeights) {
  for (const char* text : {"mx:element=e2m1", "block_fp:width=4", "codebook16"})
    EXPECT_FALSE(has_searchable_scales(parse_quant_spec_text(text))) << text;
}

/// Dead inputs weigh nothing, so nothing is better than the range of the weights.
TEST(ScaleSearch, KeepsTheRangeWhereInputsAreDead) {
  const QuantSpec spec =
      parse_quant_spec_text("affine:width=4,symmetric=true,narrow_range=true,granularity=channel");
  const Tensor weight = drawn_weight(31);
  const SearchedScales found =
      search_scales(spec, weight, {Matrix<double>(kWeightColumns, kWeightColumns)}, {}, "test");
  const Tensor rounded = fake_quantize(found.spec, weight);
  for (int64_t row = 0; row < kWeightRows; ++row) {
    const auto values = weight.rows(row, row + 1);
    const auto chosen = rounded.rows(row, row + 1);
    float largest = 0;
    float kept = 0;
    for (const float value : values.values<float>()) largest = std::max(largest, std::fabs(value));
    for (const float value : chosen.values<float>()) kept = std::max(kept, std::fabs(value));
    EXPECT_NEAR(kept, largest, 1e-5F * largest);
  }
}

/// Rows of a grouped convolution meet inputs of their own.
TEST(ScaleSearch, TakesTheInputsOfEachGroupOfRows) {
  const QuantSpec spec =
      parse_quant_spec_text("affine:width=3,symmetric=true,narrow_range=true,granularity=channel");
  Tensor weight(DType::kFloat32, {2, kWeightColumns});
  std::ranges::copy(drawn_weight(41).values<float>().first(2 * kWeightColumns),
                    weight.values<float>().begin());
  const std::vector<Matrix<double>> grams = {drawn_gram(42), drawn_gram(43)};
  const SearchedScales found = search_scales(spec, weight, grams, kSearched, "test");
  double expected = 0;
  for (int64_t row = 0; row < 2; ++row)
    expected += least_plain_error(weight.values<float>().data() + row * kWeightColumns,
                                  grams[static_cast<size_t>(row)], 0, kWeightColumns, 3, kSearched);
  EXPECT_NEAR(found.after, expected, 1e-4 * expected);
}

}  // namespace
}  // namespace detent
