#include "detent/kernels/product.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <string>
#include <vector>

#include "detent/kernels/sums.h"

namespace detent {
namespace {

class ProductOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& x : result) {
    seed = seed * 1664525U + 1013904223U;
    x = static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F;
  }
  return result;
}

/// One sum, in the order of k, with one rounding a product.
float element(const FloatProduct& p, int64_t row, int64_t column) {
  float sum = p.c[row * p.c_stride + column];
  for (int64_t k = 0; k < p.depth; ++k) {
    const float a = p.a[row * p.a_row + k * p.a_column];
    const float b = p.b[k * p.b_stride + column];
    sum = std::fma(a, b, sum);
  }
  return sum;
}

TEST_P(ProductOnEveryTarget, AddsInTheOrderOfK) {
  for (const int64_t rows : {1, 4, 7}) {
    for (const int64_t columns : {16, 32, 48, 64, 80, 112, 128}) {
      const int64_t depth = 5 * rows + columns / 16;
      const std::vector<float> a = numbers(rows * depth, 1);
      const std::vector<float> b = numbers(depth * columns, 2);
      const std::vector<float> before = numbers(rows * columns, 3);
      std::vector<float> c = before;
      FloatProduct product{.a = a.data(),
                           .a_row = depth,
                           .a_column = 1,
                           .b = b.data(),
                           .b_stride = columns,
                           .c = c.data(),
                           .c_stride = columns,
                           .rows = rows,
                           .depth = depth,
                           .column_begin = 0,
                           .column_end = columns};
      add_product(product);
      std::vector<float> expected = before;
      product.c = expected.data();
      for (int64_t i = 0; i < rows * columns; ++i) {
        const float wanted = element(product, i / columns, i % columns);
        ASSERT_EQ(c[static_cast<size_t>(i)], wanted) << rows << "x" << columns << " element " << i;
      }
    }
  }
}

TEST_P(ProductOnEveryTarget, RowsByColumnsAreThoseOfMatrices) {
  constexpr int64_t kMatrices = 131;
  for (const int64_t depth : {1, 7, 64, 150}) {
    const std::vector<float> a = numbers(kMatrices * depth, 1);
    const std::vector<float> b = numbers(kMatrices * depth, 2);
    const Tensor results =
        matrix_product(Tensor::from({kMatrices, 1, depth}, a), Tensor::from({kMatrices, depth, 1}, b));
    ASSERT_EQ(results.shape(), (Shape{kMatrices, 1, 1}));
    for (int64_t i = 0; i < kMatrices; ++i) {
      float wanted = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const auto at = static_cast<size_t>(i * depth + k);
        wanted = std::fma(a[at], b[at], wanted);
      }
      ASSERT_EQ(results.values<float>()[static_cast<size_t>(i)], wanted) << depth << " matrix " << i;
    }
  }
}

TEST_P(ProductOnEveryTarget, MultipliesLines) {
  for (int64_t count = 1; count < 40; ++count) {
    std::vector<float> a = numbers(count, 1);
    std::vector<float> b = numbers(count, 2);
    a[0] = -1e-30F;  // the product is rounded to -0, which an exact product of 0 is not
    b[0] = 1e-30F;
    a[static_cast<size_t>(count / 2)] = -0.0F;
    for (const int64_t a_step : {0, 1}) {
      for (const int64_t b_step : {0, 1}) {
        std::vector<float> products(static_cast<size_t>(count));
        multiply_lines(a.data(), a_step, b.data(), b_step, count, products.data());
        for (int64_t i = 0; i < count; ++i) {
          const float wanted =
              std::fma(a[static_cast<size_t>(i * a_step)], b[static_cast<size_t>(i * b_step)], 0.0F);
          const float product = products[static_cast<size_t>(i)];
          ASSERT_EQ(product, wanted) << count << " element " << i;
          ASSERT_EQ(std::signbit(product), std::signbit(wanted)) << count << " element " << i;
        }
      }
    }
  }
}

TEST_P(ProductOnEveryTarget, AddsIntegers) {
  constexpr int64_t kRows = 7;
  constexpr int64_t kDepth = 9;
  constexpr int64_t kColumns = 112;
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  for (int32_t i = 0; i < kRows * kDepth; ++i) a.push_back(i * 7919 % 65521 - 32768);
  for (int32_t i = 0; i < kDepth * kColumns; ++i) b.push_back(i * 104 % 511 - 255);
  std::vector<int32_t> c(kRows * kColumns, 1000);
  add_product(IntegerProduct{.a = a.data(),
                             .a_row = kDepth,
                             .a_column = 1,
                             .b = b.data(),
                             .b_stride = kColumns,
                             .c = c.data(),
                             .c_stride = kColumns,
                             .rows = kRows,
                             .depth = kDepth,
                             .column_begin = 0,
                             .column_end = kColumns});
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    int32_t wanted = 1000;
    for (int64_t k = 0; k < kDepth; ++k) {
      wanted += a[static_cast<size_t>(i / kColumns * kDepth + k)] *
                b[static_cast<size_t>(k * kColumns + i % kColumns)];
    }
    ASSERT_EQ(c[static_cast<size_t>(i)], wanted) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ProductOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
