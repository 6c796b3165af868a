#include "detent/reconstruction/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/reconstruction/gram.h"
#include "detent/reconstruction/matrix.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kInputs = 8;
constexpr int64_t kSamples = 32;
constexpr int64_t kRows = 3;

/// The worked example of the behaviour specification, section 13.3.
Matrix<double> example_gram() {
  Matrix<double> gram(kInputs, kInputs);
  for (int64_t i = 0; i < kSamples; ++i) {
    double x[kInputs];
    for (int64_t j = 0; j < kInputs; ++j) {
      x[j] = static_cast<double>((7 * i + 3 * j + i * j) % 11 - 5) / 5 +
             (j % 2 == 1 ? 0.8 : -0.3) * static_cast<double>(i % 5 - 2) / 2;
    }
    for (int64_t a = 0; a < kInputs; ++a) {
      for (int64_t b = 0; b < kInputs; ++b) gram(a, b) += x[a] * x[b] / static_cast<double>(kSamples);
    }
  }
  return gram;
}

Tensor example_weight() {
  Tensor weight(DType::kFloat32, {kRows, kInputs});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kInputs; ++j) {
      weight.values<float>()[static_cast<size_t>(r * kInputs + j)] = static_cast<float>(
          static_cast<double>((5 * r + 3 * j * j) % 13 - 6) / 6 * 0.9 + 0.05 * static_cast<double>(r));
    }
  }
  return weight;
}

const char* const kExampleFormat = "affine:width=3,symmetric=true,narrow_range=true,granularity=channel";

std::vector<int> codes_of(const Tensor& rounded, int64_t row) {
  constexpr float kScales[] = {0.3F, 0.2333333F, 0.2833333F};
  std::vector<int> codes;
  const Tensor values = rounded.rows(row, row + 1);
  for (const float value : values.values<float>()) {
    codes.push_back(static_cast<int>(std::lround(value / kScales[row])));
  }
  return codes;
}

/// Mean over the samples and rows.
double mean_error(const Tensor& rounded) {
  const std::vector<double> rows = output_errors(example_gram(), rounded, example_weight(), 0, kRows);
  return std::accumulate(rows.begin(), rows.end(), 0.0) / kRows;
}

Tensor rounded_example(const GptqOptions& options) {
  Tensor weight = example_weight();
  const ValueGrid grid(parse_quant_spec_text(kExampleFormat), weight, "example");
  gptq_round(example_gram(), grid, options, "example", weight, 0, kRows);
  return weight;
}

TEST(Gptq, NearestOfTheWorkedExample) {
  const Tensor nearest = fake_quantize(parse_quant_spec_text(kExampleFormat), example_weight());
  EXPECT_THAT(codes_of(nearest, 0), ElementsAre(-3, -2, 3, -3, 2, 2, -1, -1));
  EXPECT_THAT(codes_of(nearest, 1), ElementsAre(0, 2, -1, 0, -3, -2, 2, 2));
  EXPECT_THAT(codes_of(nearest, 2), ElementsAre(2, -3, 2, 3, 0, 1, -2, -2));
  EXPECT_NEAR(mean_error(nearest), 0.0338261, 5e-8);
}

TEST(Gptq, WorkedExample) {
  const Tensor rounded = rounded_example({});
  EXPECT_THAT(codes_of(rounded, 0), ElementsAre(-3, -2, 3, -3, 2, 2, -1, 0));
  EXPECT_THAT(codes_of(rounded, 1), ElementsAre(0, 2, -1, 1, -3, -3, 2, 2));
  EXPECT_THAT(codes_of(rounded, 2), ElementsAre(2, -3, 2, 3, 0, 1, -2, -2));
  EXPECT_NEAR(mean_error(rounded), 0.0267326, 5e-8);
}

TEST(Gptq, WorkedExampleInOrderOfTheInputs) {
  const Tensor rounded = rounded_example({.act_order = true});
  EXPECT_THAT(codes_of(rounded, 0), ElementsAre(-3, -2, 3, -2, 1, 2, -1, -1));
  EXPECT_THAT(codes_of(rounded, 1), ElementsAre(0, 2, -1, 1, -3, -3, 2, 2));
  EXPECT_THAT(codes_of(rounded, 2), ElementsAre(2, -3, 2, 3, 0, 1, -2, -2));
  EXPECT_NEAR(mean_error(rounded), 0.0231232, 5e-8);
}

/// The Gram matrix of correlated inputs, as those of a layer are.
Matrix<double> random_gram(int64_t n, std::mt19937& generator) {
  std::normal_distribution<double> normal;
  Matrix<double> mix(n, n);
  for (double& value : mix.values()) value = normal(generator);
  Matrix<double> gram(n, n);
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = 0; b < n; ++b) {
      for (int64_t k = 0; k < n / 2 + 1; ++k) gram(a, b) += mix(a, k) * mix(b, k);
    }
  }
  return gram;
}

Tensor random_weight(Shape shape, std::mt19937& generator) {
  std::normal_distribution<float> normal;
  Tensor weight(DType::kFloat32, std::move(shape));
  for (float& value : weight.values<float>()) value = normal(generator);
  return weight;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST(Gptq, BeatsNearestOnRandomLayersForEveryFormat) {
  std::mt19937 generator(7);
  for (const char* format :
       {"affine:width=3,symmetric=true,granularity=channel", "affine:width=4", "fixed:width=4,frac_width=1",
        "minifloat_ieee:width=4,exponent_width=2,exponent_bias=1", "ternary:scaling_factor=true",
        "codebook:values=-2x-1x-0.5x0x0.5x1x2", "binary:scaling=per_channel", "int3_g8"}) {
    double nearest_error = 0;
    double error = 0;
    for (int layer = 0; layer < 10; ++layer) {
      const Matrix<double> gram = random_gram(24, generator);
      const Tensor weight = random_weight({6, 24}, generator);
      const QuantSpec spec = parse_quant_spec_text(format);
      const ValueGrid grid(spec, weight, "layer");
      Tensor rounded = weight.clone();
      gptq_round(gram, grid, {}, "layer", rounded, 0, 6);
      EXPECT_TRUE(fake_quantize(grid.spec(), rounded).equals(rounded)) << format;
      nearest_error += sum(output_errors(gram, fake_quantize(spec, weight), weight, 0, 6));
      error += sum(output_errors(gram, rounded, weight, 0, 6));
    }
    EXPECT_LT(error, 0.7 * nearest_error) << format;
  }
}

TEST(Gptq, BeatsNearestOnRandomLayersForBlockFormats) {
  std::mt19937 generator(8);
  for (const char* format :
       {"block_fp:width=4,block_size=8", "mx:element=e2m1,block_size=8", "mx:element=int8,block_size=16",
        "block_log:width=4,block_size=4", "block_minifloat:width=4,exponent_width=2,block_size=5",
        "block_fp:width=4,block_size=3,block_axis=1", "nvfp4"}) {
    for (const bool act_order : {false, true}) {
      double nearest_error = 0;
      double error = 0;
      for (int layer = 0; layer < 10; ++layer) {
        const Matrix<double> gram = random_gram(24, generator);
        const Tensor weight = random_weight({6, 6, 4}, generator);
        const QuantSpec spec = parse_quant_spec_text(format);
        Tensor rounded = weight.clone();
        const BlockRounding rounding(spec, weight, "layer");
        gptq_round(gram, rounding, {.act_order = act_order}, "layer", rounded, 0, 6);
        EXPECT_TRUE(fake_quantize(rounding.spec(), rounded).equals(rounded)) << format;
        nearest_error += sum(output_errors(gram, fake_quantize(spec, weight), weight, 0, 6));
        error += sum(output_errors(gram, rounded, weight, 0, 6));
      }
      EXPECT_LT(error, 0.8 * nearest_error) << format << " " << act_order;
    }
  }
}

/// GPTQ in nvfp4 as its authors state it: what is left of a row is that of least squares, by solving for it.
/// A block's scale is that of what its weights are when it begins, and its largest keeps 6 times that.
std::vector<float> plain_nvfp4_row(const Matrix<double>& gram, std::span<const float> weight,
                                   float tensor_scale) {
  const int64_t n = gram.rows();
  std::vector<double> row(weight.begin(), weight.end());
  std::vector<float> chosen;
  float scale = 0;
  int64_t keeper = 0;
  for (int64_t t = 0; t < n; ++t) {
    if (t % 16 == 0) {
      const auto begin = row.begin() + t;
      keeper = std::ranges::max_element(begin, begin + 16, {}, [](double x) { return std::fabs(x); }) -
               row.begin();
      const float most = std::fabs(static_cast<float>(row[static_cast<size_t>(keeper)]));
      const Tensor ratio = Tensor::from({1}, std::vector<float>{most / 6 / tensor_scale});
      scale = fake_quantize(parse_quant_spec_text("fp8_e4m3fn"), ratio).values<float>()[0] * tensor_scale;
    }
    const double x = row[static_cast<size_t>(t)];
    float best = 0;
    for (const float magnitude : {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F}) {
      const auto value = static_cast<float>(std::copysign(magnitude * scale, x));
      if (std::fabs(static_cast<double>(value) - x) < std::fabs(static_cast<double>(best) - x)) best = value;
    }
    if (t == keeper) best = static_cast<float>(std::copysign(6 * scale, x));
    chosen.push_back(best);
    const int64_t left = n - t - 1;
    if (left == 0) break;
    Matrix<double> of_left(left, left);
    std::vector<double> side;
    for (int64_t i = 0; i < left; ++i) {
      side.push_back((x - static_cast<double>(best)) * gram(t + 1 + i, t));
      for (int64_t j = 0; j <= i; ++j) of_left(i, j) = gram(t + 1 + i, t + 1 + j);
    }
    const std::vector<double> change = solved(of_left, side);
    for (int64_t i = 0; i < left; ++i) row[static_cast<size_t>(t + 1 + i)] += change[static_cast<size_t>(i)];
  }
  return chosen;
}

TEST(Gptq, OfNvfp4IsWhatLeastSquaresGive) {
  std::mt19937 generator(21);
  Matrix<double> gram = random_gram(32, generator);
  for (int64_t i = 0; i < 32; ++i) gram(i, i) += 4;
  const Tensor weight = random_weight({12, 32}, generator);
  const BlockRounding rounding(parse_quant_spec_text("nvfp4"), weight, "");
  Tensor rounded = weight.clone();
  gptq_round(gram, rounding, {.percdamp = 1e-9}, "", rounded, 0, 12);
  const auto magnitude = [](float x) { return std::fabs(x); };
  const float most = std::fabs(*std::ranges::max_element(weight.values<float>(), {}, magnitude));
  for (size_t r = 0; r < 12; ++r) {
    const std::vector<float> wanted =
        plain_nvfp4_row(gram, weight.values<float>().subspan(r * 32, 32), most / 2688);
    EXPECT_TRUE(std::ranges::equal(rounded.values<float>().subspan(r * 32, 32), wanted)) << "row " << r;
  }
  EXPECT_TRUE(fake_quantize(rounding.spec(), rounded).equals(rounded));
}

// Nothing is made up for then, and the largest element of a block of mx keeps its scale.
TEST(Gptq, IndependentInputsRoundToNearestInBlocks) {
  std::mt19937 generator(3);
  const Tensor weight = random_weight({5, 20}, generator);
  Matrix<double> gram(20, 20);
  for (int64_t i = 1; i < 20; ++i) gram(i, i) = static_cast<double>(i);
  const QuantSpec spec = parse_quant_spec_text("mx:element=e2m1,block_size=8");
  Tensor rounded = weight.clone();
  gptq_round(gram, BlockRounding(spec, weight, ""), {.act_order = true}, "", rounded, 0, 5);
  EXPECT_TRUE(std::ranges::equal(rounded.values<float>(), fake_quantize(spec, weight).values<float>()));
}

// [1.9, 0.9 | 1.0, 0.3] in blocks of two: the inputs of columns 1 and 2 are the same, so that column 2 makes
// up for the -0.1 that rounding takes from column 1 (steps of 1/4 at first), and has 1.0 - 0.1 + ... when its
// scale is fixed: below 1, with steps of 1/8.
TEST(Gptq, ABlocksScaleIsThatOfItsWeightsWhenItBegins) {
  Matrix<double> gram(4, 4);
  for (int64_t i = 0; i < 4; ++i) gram(i, i) = 1;
  gram(1, 2) = gram(2, 1) = 0.999;
  const QuantSpec spec = parse_quant_spec_text("block_fp:width=4,block_size=2");
  Tensor weight = Tensor::from({1, 4}, std::vector<float>{1.9F, 0.9F, 1.05F, 0.3F});
  gptq_round(gram, BlockRounding(spec, weight, ""), {.percdamp = 1e-6}, "", weight, 0, 1);
  EXPECT_THAT(weight.values<float>(), ElementsAre(1.75F, 1.0F, 0.875F, 0.25F));
}

// Where the quantized network's inputs x are A f, the outputs W f are those of W A^-1.
TEST(Gptq, MatchesTheFloatNetworksOutputs) {
  std::mt19937 generator(5);
  constexpr int64_t kCount = 12;
  for (const bool act_order : {false, true}) {
    const Matrix<double> of_float = random_gram(kCount, generator);
    std::uniform_real_distribution<double> gain(0.5, 1.5);
    std::vector<double> gains;  // of A, which is diagonal
    for (int64_t i = 0; i < kCount; ++i) gains.push_back(gain(generator));
    Matrix<double> gram(kCount, kCount);
    Matrix<double> shift(kCount, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      for (int64_t j = 0; j < kCount; ++j) {
        const double a = gains[static_cast<size_t>(i)];
        const double b = gains[static_cast<size_t>(j)];
        const double with_noise = of_float(i, j) + (i == j ? 1.0 : 0.0);
        gram(i, j) = a * b * with_noise;
        shift(i, j) = (1 - a) * b * with_noise;
      }
    }
    const Tensor weight = random_weight({3, kCount}, generator);
    Tensor matched = weight.clone();
    match_float_outputs(GptqColumns(gram, {.percdamp = 1e-9, .act_order = act_order}, ""), shift, matched, 1,
                        3);
    for (size_t i = 0; i < weight.values<float>().size(); ++i) {
      const double scale = i < kCount ? 1 : gains[i % kCount];
      EXPECT_NEAR(matched.values<float>()[i], static_cast<double>(weight.values<float>()[i]) / scale, 1e-4)
          << i;
    }
  }
}

/// Inputs of a layer in the float network and in the quantized one, a row a sample.
struct TwoNetworks {
  Matrix<double> in_float;
  Matrix<double> quantized;
  Matrix<double> gram;   // of the quantized one's
  Matrix<double> shift;  // mean of (f - x) x^T
};

TwoNetworks two_networks(int64_t samples, int64_t n, std::mt19937& generator) {
  std::normal_distribution<double> normal;
  TwoNetworks result{Matrix<double>(samples, n), Matrix<double>(samples, n), Matrix<double>(n, n),
                     Matrix<double>(n, n)};
  for (int64_t s = 0; s < samples; ++s) {
    const double common = normal(generator);
    for (int64_t i = 0; i < n; ++i) {
      result.in_float(s, i) = normal(generator) + common;
      result.quantized(s, i) = result.in_float(s, i) * 0.9 + 0.2 * normal(generator);
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double x = result.quantized(s, j) / static_cast<double>(samples);
        result.gram(i, j) += result.quantized(s, i) * x;
        result.shift(i, j) += (result.in_float(s, i) - result.quantized(s, i)) * x;
      }
    }
  }
  return result;
}

/// Qronos as its authors state it, on the samples: in each step the value of the grid for one column with
/// which the outputs are nearest to the float network's while the others stay, by trying all; then the
/// columns that are left are those of least squares.
std::vector<double> plain_qronos(const TwoNetworks& networks, std::span<const float> weight,
                                 std::span<const double> grid) {
  const int64_t n = networks.gram.rows();
  const int64_t samples = networks.in_float.rows();
  std::vector<double> row(weight.begin(), weight.end());
  const auto rest_of = [&](int64_t s, int64_t from) {  // float output less that of columns before `from`
    double rest = 0;
    for (int64_t i = 0; i < n; ++i)
      rest += static_cast<double>(weight[static_cast<size_t>(i)]) * networks.in_float(s, i);
    for (int64_t i = 0; i < from; ++i) rest -= row[static_cast<size_t>(i)] * networks.quantized(s, i);
    return rest;
  };
  for (int64_t t = 0; t < n; ++t) {
    double least = HUGE_VAL;
    double best = 0;
    for (const double value : grid) {
      double error = 0;
      for (int64_t s = 0; s < samples; ++s) {
        double rest = rest_of(s, t) - value * networks.quantized(s, t);
        for (int64_t i = t + 1; i < n; ++i) rest -= row[static_cast<size_t>(i)] * networks.quantized(s, i);
        error += rest * rest;
      }
      if (error < least) best = value;
      least = std::min(least, error);
    }
    row[static_cast<size_t>(t)] = best;
    const int64_t left = n - t - 1;
    if (left == 0) break;
    Matrix<double> gram(left, left);
    std::vector<double> side(static_cast<size_t>(left));
    for (int64_t s = 0; s < samples; ++s) {
      const double rest = rest_of(s, t + 1);
      for (int64_t i = 0; i < left; ++i) {
        side[static_cast<size_t>(i)] += rest * networks.quantized(s, t + 1 + i);
        for (int64_t j = 0; j <= i; ++j)
          gram(i, j) += networks.quantized(s, t + 1 + i) * networks.quantized(s, t + 1 + j);
      }
    }
    std::ranges::copy(solved(gram, side), row.begin() + t + 1);
  }
  return row;
}

TEST(Gptq, QronosIsWhatItsAuthorsState) {
  std::mt19937 generator(11);
  constexpr int64_t kCount = 10;
  constexpr int64_t kOutputs = 40;
  const TwoNetworks networks = two_networks(60, kCount, generator);
  const Tensor weight = random_weight({kOutputs, kCount}, generator);
  std::vector<double> values;
  for (int code = -8; code < 8; ++code) values.push_back(0.25 * code);
  const ValueGrid grid(parse_quant_spec_text("affine:width=4,scale=0.25"), weight, "");
  const GptqColumns columns(networks.gram, {.percdamp = 1e-9}, "");
  const std::vector<double> first = best_first_columns(columns, networks.shift, weight, 0, kOutputs);
  Tensor rounded = weight.clone();
  match_float_outputs(columns, networks.shift, rounded, 0, kOutputs);
  Tensor by_gptaq = rounded.clone();
  gptq_round(columns, grid, "", by_gptaq, 0, kOutputs);
  gptq_round(columns, grid, "", rounded, 0, kOutputs, first);
  for (int64_t r = 0; r < kOutputs; ++r) {
    const std::vector<double> wanted = plain_qronos(
        networks, weight.values<float>().subspan(static_cast<size_t>(r * kCount), kCount), values);
    const Tensor row = rounded.rows(r, r + 1);
    EXPECT_TRUE(std::ranges::equal(row.values<float>(), wanted)) << "row " << r;
  }
  EXPECT_FALSE(by_gptaq.equals(rounded));
}

TEST(Gptq, IndependentInputsRoundToNearest) {
  std::mt19937 generator(3);
  const Tensor weight = random_weight({5, 20}, generator);
  Matrix<double> gram(20, 20);
  for (int64_t i = 1; i < 20; ++i) gram(i, i) = static_cast<double>(i);  // the first input is always 0
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,symmetric=true");
  Tensor rounded = weight.clone();
  gptq_round(gram, ValueGrid(spec, weight, ""), {}, "", rounded, 0, 5);
  EXPECT_TRUE(std::ranges::equal(rounded.values<float>(), fake_quantize(spec, weight).values<float>()));
}

TEST(Gptq, LeavesOtherRowsAlone) {
  std::mt19937 generator(4);
  const Tensor weight = random_weight({6, 8}, generator);
  const ValueGrid grid(parse_quant_spec_text("affine:width=2"), weight, "");
  Tensor rounded = weight.clone();
  gptq_round(random_gram(8, generator), grid, {}, "", rounded, 2, 4);
  EXPECT_TRUE(rounded.rows(0, 2).equals(weight.rows(0, 2)));
  EXPECT_TRUE(rounded.rows(4, 6).equals(weight.rows(4, 6)));
  EXPECT_FALSE(rounded.rows(2, 4).equals(weight.rows(2, 4)));
}

TEST(Gptq, RefusesNan) {
  Matrix<double> gram(2, 2);
  gram(0, 0) = gram(1, 1) = std::nan("");
  Tensor weight = Tensor::from({1, 2}, std::vector<float>{1, 2});
  const ValueGrid grid(parse_quant_spec_text("affine:width=4"), weight, "");
  try {
    gptq_round(gram, grid, {}, "node \"fc\"", weight, 0, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("node \"fc\": the Gram matrix of the inputs is not positive definite"));
  }
}

TEST(Solved, TimesTheMatrixIsTheRightSide) {
  Matrix<double> h(3, 3);
  for (int64_t i = 0; i < 3; ++i) h(i, i) = 4 + static_cast<double>(i);
  h(1, 0) = 1;
  h(2, 0) = -2;
  h(2, 1) = 0.5;
  const std::vector<double> x = solved(h, {3, -1, 7});
  EXPECT_NEAR(4 * x[0] + x[1] - 2 * x[2], 3, 1e-12);
  EXPECT_NEAR(x[0] + 5 * x[1] + 0.5 * x[2], -1, 1e-12);
  EXPECT_NEAR(-2 * x[0] + 0.5 * x[1] + 6 * x[2], 7, 1e-12);
}

/// Element by element, each sum in its order.
Matrix<double> plain_inverse_factor(Matrix<double> h) {
  const int64_t n = h.rows();
  for (int64_t k = n - 1; k >= 0; --k) {
    h(k, k) = std::sqrt(h(k, k));
    for (int64_t j = 0; j < k; ++j) h(k, j) /= h(k, k);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j <= i; ++j) h(i, j) -= h(k, i) * h(k, j);
    }
  }
  Matrix<double> u(n, n);
  for (int64_t i = 0; i < n; ++i) {
    u(i, i) = 1 / h(i, i);
    for (int64_t j = i + 1; j < n; ++j) {
      double sum = 0;
      for (int64_t m = i; m < j; ++m) sum += u(i, m) * h(j, m);
      u(i, j) = -sum / h(j, j);
    }
  }
  return u;
}

TEST(InverseCholeskyFactor, IsThatOfThePlainLoopsToTheLastBit) {
  for (const int64_t n : {1, 15, 33, 100}) {
    std::mt19937 generator(static_cast<uint32_t>(n));
    std::normal_distribution<double> normal;
    Matrix<double> h(n, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) h(i, j) = normal(generator);
      h(i, i) = 3 * static_cast<double>(n);
    }
    const Matrix<double> fast = inverse_cholesky_factor(h);
    const Matrix<double> plain = plain_inverse_factor(h);
    ASSERT_EQ(fast.rows(), n);
    EXPECT_TRUE(std::ranges::equal(fast.values(), plain.values())) << n;
  }
}

TEST(InverseCholeskyFactor, GivesTheInverse) {
  std::mt19937 generator(5);
  constexpr int64_t kSize = 150;
  Matrix<double> h = random_gram(kSize, generator);
  for (int64_t i = 0; i < kSize; ++i) h(i, i) += 1;
  const Matrix<double> u = inverse_cholesky_factor(h);
  // H U^T U is the identity.
  for (int64_t i = 0; i < kSize; i += 7) {
    for (int64_t j = 0; j < kSize; ++j) {
      double entry = 0;
      for (int64_t k = 0; k < kSize; ++k) {
        double inverse = 0;
        for (int64_t m = 0; m <= std::min(k, j); ++m) inverse += u(m, k) * u(m, j);
        entry += h(i, k) * inverse;
      }
      ASSERT_NEAR(entry, i == j ? 1 : 0, 1e-8);
    }
  }
  h(3, 3) = -1;
  EXPECT_EQ(inverse_cholesky_factor(h).rows(), 0);
}

}  // namespace
}  // namespace detent
