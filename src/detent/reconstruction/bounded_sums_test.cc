#include "detent/reconstruction/bounded_sums.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "detent/formats/quant_spec.h"
#include "detent/reconstruction/gram.h"

namespace detent {
namespace {

/// Codes of 4 bits with a scale of 1/4, inputs from -3 to 12.
BoundedSums bounds(int64_t most) {
  return {.weights = {{.scale = 0.25F, .zero_point = 0, .low = -8, .high = 7, .is_sign = false}},
          .most = most,
          .low = -3,
          .high = 12};
}

TEST(BoundedSums, ABudgetIsSpentByBothSigns) {
  SumBudget budget(bounds(100));
  EXPECT_EQ(budget.take(5), 5);    // the largest sum has 60, the least -15
  EXPECT_EQ(budget.take(-7), -7);  // 21 and -84 more: 81 and -99
  EXPECT_EQ(budget.take(-3), 0);   // -1 is left below
  EXPECT_EQ(budget.take(9), 0);    // a step up takes 3 of it
  SumBudget unsigned_inputs({.weights = {}, .most = 25, .low = 0, .high = 10});
  EXPECT_EQ(unsigned_inputs.take(-4), -2);
  EXPECT_EQ(unsigned_inputs.take(4), 2);
}

TEST(BoundedSums, TheSoftThresholdProjectsToABall) {
  EXPECT_EQ(soft_threshold({1, -2, 0.5}, 3.5), 0);
  EXPECT_DOUBLE_EQ(soft_threshold({1, -2, 0.5}, 2), 0.5);
  EXPECT_DOUBLE_EQ(soft_threshold({1, -2, 0.5}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(soft_threshold({-3}, 0), 3);
  EXPECT_EQ(soft_threshold({}, 1), 0);
}

/// The largest magnitude that inputs can give a row's sum.
int64_t reach(std::span<const float> row, const BoundedSums& sums) {
  int64_t above = 0;
  int64_t below = 0;
  for (const float value : row) {
    const auto code = static_cast<int64_t>(std::lround(value * 4));
    above += std::max(code * sums.high, code * sums.low);
    below -= std::min(code * sums.high, code * sums.low);
  }
  return std::max(above, below);
}

TEST(BoundedSums, NoInputOverflowsWhatIsChosen) {
  constexpr int64_t kRows = 8;
  constexpr int64_t kInputs = 24;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  Tensor weight(DType::kFloat32, {kRows, kInputs});
  for (float& value : weight.values<float>()) value = normal(generator);
  Matrix<double> gram(kInputs, kInputs);
  for (int64_t i = 0; i < kInputs; ++i) {
    for (int64_t j = 0; j < kInputs; ++j) gram(i, j) = i == j ? 2 : 1;
  }
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,scale=0.25");
  const GptqColumns columns(gram, GptqOptions(), "");
  const auto error = [&](const Tensor& chosen) {
    const std::vector<double> rows = output_errors(gram, chosen, weight, 0, kRows);
    return std::accumulate(rows.begin(), rows.end(), 0.0);
  };
  Tensor cut = fake_quantize(spec, weight);
  for (const int64_t most : {2000, 511, 127}) {
    const BoundedSums sums = bounds(most);
    Tensor chosen = weight.clone();
    gptq_round(columns, sums, chosen, 0, kRows);
    EXPECT_TRUE(fake_quantize(spec, chosen).equals(chosen)) << most;
    for (int64_t r = 0; r < kRows; ++r) {
      const auto row = chosen.values<float>().subspan(static_cast<size_t>(r * kInputs), kInputs);
      EXPECT_LE(reach(row, sums), most) << "row " << r;
      SumBudget budget(sums);  // cuts what rounding to nearest gives
      for (float& value : cut.values<float>().subspan(static_cast<size_t>(r * kInputs), kInputs))
        value = 0.25F * static_cast<float>(budget.take(std::lround(value * 4)));
    }
    EXPECT_LT(error(chosen), error(cut)) << most;
  }
  Tensor unbounded = weight.clone();
  gptq_round(columns, bounds(1 << 20), unbounded, 0, kRows);
  Tensor by_gptq = weight.clone();
  gptq_round(columns, ValueGrid(spec, weight, ""), "", by_gptq, 0, kRows);
  EXPECT_TRUE(unbounded.equals(by_gptq));
}

}  // namespace
}  // namespace detent
