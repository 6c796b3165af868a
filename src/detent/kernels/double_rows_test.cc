#include "detent/kernels/double_rows.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <string>
#include <vector>

namespace detent {
namespace {

class DoubleRows : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<double> doubles(int64_t count, uint64_t seed) {
  std::vector<double> result(static_cast<size_t>(count));
  for (double& x : result) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    x = static_cast<double>(seed >> 11U) * 0x1p-52 - 1;
  }
  return result;
}

TEST_P(DoubleRows, SumsOfLanesAreInTheOrderOfTheirProducts) {
  for (const int64_t rows : {1, 2, 5}) {
    for (const int64_t depth : {0, 1, 37}) {
      const int64_t stride = depth + 3;
      const std::vector<double> factors = doubles(rows * stride, 1);
      const std::vector<double> lanes = doubles(depth * kRowLanes, 2);
      std::vector<double> sums(static_cast<size_t>(rows * kRowLanes), 7);
      std::vector<double> wanted = sums;
      LaneProduct product{.factors = factors.data(),
                          .stride = stride,
                          .rows = rows,
                          .lanes = lanes.data(),
                          .depth = depth,
                          .sums = sums.data()};
      multiply_lanes(product);
      product.sums = wanted.data();
      plain::multiply_lanes(product);
      ASSERT_EQ(sums, wanted) << rows << " " << depth;
    }
  }
}

TEST_P(DoubleRows, RowsAreSubtractedOneAfterAnother) {
  for (const int64_t count : {1, 7, 8, 61}) {
    for (const int64_t row_count : {0, 1, 5}) {
      const std::vector<double> factors = doubles(row_count, 1);
      const std::vector<double> values = doubles(row_count * count, 2);
      std::vector<const double*> rows;
      for (int64_t i = 0; i < row_count; ++i) rows.push_back(values.data() + i * count);
      std::vector<double> row = doubles(count, 3);
      std::vector<double> wanted = row;
      plain::subtract_rows(factors.data(), rows.data(), row_count, wanted.data(), count);
      subtract_rows(factors.data(), rows.data(), row_count, row.data(), count);
      ASSERT_EQ(row, wanted) << count << " " << row_count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DoubleRows, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
