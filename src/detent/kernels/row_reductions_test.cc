#include "detent/kernels/row_reductions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

class RowReductions : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam(), "test"); }
  void TearDown() override { set_simd_target(simd_targets().front(), "test"); }
};

/// Rows of which some share their elements.
struct Rows {
  std::vector<std::vector<float>> elements;
  std::vector<const float*> pointers;

  Rows(size_t count, size_t width, uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 100);
    for (size_t i = 0; i < count; ++i) {
      elements.emplace_back(width);
      for (float& x : elements.back()) x = normal(generator);
    }
    for (const std::vector<float>& row : elements) pointers.push_back(row.data());
    if (count > 2) pointers[2] = pointers[0];
  }
};

TEST_P(RowReductions, AreThoseOfTheReference) {
  for (const size_t count : {1U, 2U, 3U, 4U, 7U, 12U, 15U, 16U, 17U, 100U}) {
    for (const size_t width : {size_t{1}, size_t{3}, size_t{16}, size_t{31}, size_t{64}, size_t{77}}) {
      const Rows rows(count, width, static_cast<uint32_t>(count * 100 + width));
      const auto row_count = static_cast<int64_t>(count);
      const auto columns = static_cast<int64_t>(width);
      std::vector<float> weights(count, 0.3F);
      weights[0] = -1.7F;
      std::vector<float> got(width);
      std::vector<float> wanted(width);
      sum_of_rows(rows.pointers.data(), row_count, columns, 7, got.data());
      sum_of_rows_reference(rows.pointers.data(), row_count, columns, 7, wanted.data());
      EXPECT_EQ(got, wanted) << count << " x " << width;
      mean_of_rows(rows.pointers.data(), row_count, columns, 7, got.data());
      mean_of_rows_reference(rows.pointers.data(), row_count, columns, 7, wanted.data());
      EXPECT_EQ(got, wanted) << count << " x " << width;
      largest_of_rows(rows.pointers.data(), row_count, columns, got.data());
      largest_of_rows_reference(rows.pointers.data(), row_count, columns, wanted.data());
      EXPECT_EQ(got, wanted) << count << " x " << width;
      smallest_of_rows(rows.pointers.data(), row_count, columns, got.data());
      smallest_of_rows_reference(rows.pointers.data(), row_count, columns, wanted.data());
      EXPECT_EQ(got, wanted) << count << " x " << width;
      weighted_rows(rows.pointers.data(), weights.data(), row_count, columns, got.data());
      weighted_rows_reference(rows.pointers.data(), weights.data(), row_count, columns, wanted.data());
      EXPECT_EQ(got, wanted) << count << " x " << width;
    }
  }
}

/// Zeros of both signs and NaN of several payloads, in all orders.
TEST_P(RowReductions, ExtremesAreTheSameBits) {
  const float special[] = {
      0.0F, -0.0F, 1.0F, -HUGE_VALF, std::bit_cast<float>(0x7FC00001U), std::bit_cast<float>(0xFFC00002U)};
  constexpr size_t kColumns = 216;
  std::vector<std::vector<float>> elements(3, std::vector<float>(kColumns));
  for (size_t i = 0; i < kColumns; ++i) {
    elements[0][i] = special[i % 6];
    elements[1][i] = special[i / 6 % 6];
    elements[2][i] = special[i / 36];
  }
  const float* const rows[] = {elements[0].data(), elements[1].data(), elements[2].data()};
  std::vector<float> got(kColumns);
  std::vector<float> wanted(kColumns);
  const auto expect_bits = [&] {
    for (size_t i = 0; i < kColumns; ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i])) << i;
  };
  largest_of_rows(rows, 3, kColumns, got.data());
  largest_of_rows_reference(rows, 3, kColumns, wanted.data());
  expect_bits();
  smallest_of_rows(rows, 3, kColumns, got.data());
  smallest_of_rows_reference(rows, 3, kColumns, wanted.data());
  expect_bits();
}

/// A column is summed as the same elements side by side are.
TEST_P(RowReductions, SumsOfZerosHaveTheSameSign) {
  const float zero = -0.0F;
  for (int64_t count = 0; count < 20; ++count) {
    const std::vector<const float*> rows(static_cast<size_t>(count), &zero);
    float got = 1;
    float wanted = 1;
    sum_of_rows(rows.data(), count, 1, 1, &got);
    sum_of_rows_reference(rows.data(), count, 1, 1, &wanted);
    EXPECT_EQ(got, wanted) << count;
    EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << count;
  }
}

TEST_P(RowReductions, SumAsRowsDo) {
  const Rows rows(83, 5, 3);
  std::vector<float> sums(5);
  sum_of_rows(rows.pointers.data(), 83, 5, 1, sums.data());
  for (size_t column = 0; column < sums.size(); ++column) {
    std::vector<float> elements;
    for (const float* const row : rows.pointers) elements.push_back(row[column]);
    EXPECT_EQ(sums[column], static_cast<float>(row_sum(elements)));
  }
}

TEST_P(RowReductions, KeepNaNAndInfinities) {
  const std::vector<float> first = {NAN, HUGE_VALF, HUGE_VALF, -0.0F};
  const std::vector<float> second = {1, 1, -HUGE_VALF, -0.0F};
  const float* const rows[] = {first.data(), second.data()};
  const float weights[] = {1, 1};
  std::vector<float> got(4);
  sum_of_rows(rows, 2, 4, 2, got.data());
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], HUGE_VALF);
  EXPECT_TRUE(std::isnan(got[2]));
  weighted_rows(rows, weights, 2, 4, got.data());
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], HUGE_VALF);
  EXPECT_TRUE(std::signbit(got[3]));
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, RowReductions, testing::ValuesIn(simd_targets()));

}  // namespace
}  // namespace detent
