#include "detent/passes/reconstruction/gram.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/models/model.h"
#include "detent/passes/reconstruction/product.h"

namespace detent {
namespace {

Tensor random_tensor(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (float& value : tensor.values<float>()) value = normal(generator);
  return tensor;
}

Node convolution(Shape weight, Table attributes) {
  Node node;
  node.name = "conv";
  node.op = "conv2d";
  node.attributes = std::move(attributes);
  node.parameters = {{"weight", {Tensor(DType::kFloat32, std::move(weight))}}};
  return node;
}

TEST(Product, AgreesWithItsDefinition) {
  std::mt19937 generator(1);
  for (const auto& [rows, depth, columns] : {std::tuple{1, 1, 1}, {5, 7, 3}, {9, 40, 100}, {33, 20, 64}}) {
    Matrix<float> a(rows, depth);
    Matrix<float> b(depth, columns);
    std::uniform_int_distribution<int> digits(-8, 8);  // so that sums are exact
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < depth; ++k) a(i, k) = static_cast<float>(digits(generator));
    }
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < columns; ++j) b(k, j) = static_cast<float>(digits(generator));
    }
    const Matrix<float> c = multiply(a, b);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float expected = 0;
        for (int64_t k = 0; k < depth; ++k) expected += a(i, k) * b(k, j);
        ASSERT_EQ(c(i, j), expected) << rows << " " << i << " " << j;
      }
    }
  }
}

/// y of the convolution at output (y, x) of sample n, from its definition.
float output_at(const Tensor& input, const Tensor& weight, int64_t groups, int64_t stride, int64_t padding,
                int64_t dilation, int64_t n, int64_t o, int64_t y, int64_t x) {
  const Shape& in = input.shape();
  const Shape& w = weight.shape();
  const int64_t group = o / (w[0] / groups);
  float sum = 0;
  for (int64_t c = 0; c < w[1]; ++c) {
    for (int64_t i = 0; i < w[2]; ++i) {
      for (int64_t j = 0; j < w[3]; ++j) {
        const int64_t row = y * stride - padding + i * dilation;
        const int64_t column = x * stride - padding + j * dilation;
        if (row < 0 || row >= in[2] || column < 0 || column >= in[3]) continue;
        const int64_t channel = group * w[1] + c;
        sum +=
            weight.values<float>()[static_cast<size_t>(((o * w[1] + c) * w[2] + i) * w[3] + j)] *
            input
                .values<float>()[static_cast<size_t>(((n * in[1] + channel) * in[2] + row) * in[3] + column)];
      }
    }
  }
  return sum;
}

TEST(Patches, TimesTheWeightAreTheConvolution) {
  constexpr int64_t kGroups = 2;
  const Tensor weight = random_tensor({6, 2, 3, 2}, 1);
  const Tensor input = random_tensor({3, 4, 7, 6}, 2);
  Node node =
      convolution(weight.shape(), Table{{"stride", 2}, {"padding", 1}, {"dilation", 2}, {"groups", kGroups}});
  const Patches patches(node, "");
  EXPECT_EQ(patches.length(), 12);
  const int64_t height = (7 + 2 - 4 - 1) / 2 + 1;
  const int64_t width = (6 + 2 - 2 - 1) / 2 + 1;
  ASSERT_EQ(patches.count(input.shape()), 3 * height * width);
  for (int64_t o = 0; o < 6; ++o) {
    const int64_t group = o / patches.rows_per_group();
    Matrix<float> copied(5, 12);
    for (int64_t p = 0; p + 5 <= 3 * height * width; ++p) {
      patches.copy(input, group, p, p + 5, copied);
      float product = 0;
      for (int64_t i = 0; i < 12; ++i)
        product += copied(4, i) * weight.values<float>()[static_cast<size_t>(o * 12 + i)];
      const int64_t at = p + 4;
      EXPECT_NEAR(product,
                  output_at(input, weight, kGroups, 2, 1, 2, at / (height * width), o, at / width % height,
                            at % width),
                  1e-4);
    }
  }
}

TEST(Patches, KnowTheirOperators) {
  Node node = convolution({2, 2, 1, 1}, {});
  node.op = "convtranspose2d";
  EXPECT_FALSE(Patches::exist_for(node));
  EXPECT_THROW(Patches(node, "here"), Error);
}

Node linear(Shape weight) {
  Node node;
  node.name = "fc";
  node.op = "linear";
  node.parameters = {{"weight", {Tensor(DType::kFloat32, std::move(weight))}}};
  return node;
}

TEST(GramMatrices, AreMeansOfProducts) {
  const Node node = linear({4, 70});
  const Tensor input = random_tensor({20, 60, 70}, 3);  // more than one run
  GramMatrices grams(Patches(node, ""));
  grams.add(input.rows(0, 13));
  grams.add(input.rows(13, 20));
  EXPECT_EQ(grams.patch_count(), 1200);
  const Matrix<double> mean = grams.mean(0, "");
  const float* values = input.values<float>().data();
  for (int64_t a = 0; a < 70; ++a) {
    for (int64_t b = 0; b < 70; ++b) {
      double expected = 0;
      double bound = 0;
      for (int64_t p = 0; p < 1200; ++p) {
        const double product =
            static_cast<double>(values[p * 70 + a]) * static_cast<double>(values[p * 70 + b]);
        expected += product / 1200;
        bound += std::fabs(product) / 1200;
      }
      ASSERT_NEAR(mean(a, b), expected, bound * (GramMatrices::kRun + 1) * 0x1p-24);
    }
  }
}

TEST(GramMatrices, DoNotDependOnThreads) {
  const Tensor input = random_tensor({4, 6, 9, 9}, 4);
  for (const int64_t groups : {1, 3}) {
    const Node node = convolution({6, 6 / groups, 3, 3},
                                  Table{{"stride", 1}, {"padding", 1}, {"dilation", 1}, {"groups", groups}});
    GramMatrices several(Patches(node, ""));
    several.add(input);
    const int threads = thread_count();
    set_thread_count(1);
    GramMatrices one(Patches(node, ""));
    one.add(input);
    set_thread_count(threads);
    for (int64_t g = 0; g < groups; ++g) {
      EXPECT_TRUE(std::ranges::equal(several.mean(g, "").values(), one.mean(g, "").values()));
    }
  }
}

TEST(GramMatrices, OfNothingAreAnError) {
  EXPECT_THROW(GramMatrices(Patches(linear({2, 2}), "")).mean(0, "node \"fc\""), Error);
}

TEST(OutputErrors, AreThoseOfTheOutputs) {
  const Tensor input = random_tensor({50, 9}, 5);
  const Tensor a = random_tensor({3, 9}, 6);
  const Tensor b = random_tensor({3, 9}, 7);
  GramMatrices grams(Patches(linear({3, 9}), ""));
  grams.add(input);
  const std::vector<double> errors = output_errors(grams.mean(0, ""), a, b, 1, 3);
  for (size_t r = 1; r < 3; ++r) {
    double expected = 0;
    for (size_t n = 0; n < 50; ++n) {
      double difference = 0;
      for (size_t i = 0; i < 9; ++i) {
        difference += static_cast<double>(a.values<float>()[r * 9 + i] - b.values<float>()[r * 9 + i]) *
                      static_cast<double>(input.values<float>()[n * 9 + i]);
      }
      expected += difference * difference / 50;
    }
    EXPECT_NEAR(errors[r - 1], expected, 1e-5 * expected);
  }
}

}  // namespace
}  // namespace detent
