#include "detent/reconstruction/gram.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/models/model.h"
#include "detent/reconstruction/matrix.h"

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
  node.parameters.emplace_back("weight", Parameter{Tensor(DType::kFloat32, std::move(weight))});
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

/// Position `index` of a row-major tensor of `shape`.
std::vector<int64_t> position_of(int64_t index, const Shape& shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t d = shape.size(); d-- > 0; index /= shape[d]) position[d] = index % shape[d];
  return position;
}

int64_t index_of(const std::vector<int64_t>& position, const Shape& shape) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + position[d];
  return index;
}

struct Steps {
  int64_t groups, stride, padding, dilation;
};

/// y of the convolution at output `at` of sample n, from its definition.
float output_at(const Tensor& input, const Tensor& weight, const Steps& steps, int64_t n, int64_t o,
                const std::vector<int64_t>& at) {
  const Shape& w = weight.shape();
  const Shape taps(w.begin() + 1, w.end());
  float sum = 0;
  for (int64_t i = 0; i < element_count(taps); ++i) {
    const std::vector<int64_t> tap = position_of(i, taps);
    std::vector<int64_t> position = {n, o / (w[0] / steps.groups) * w[1] + tap[0]};
    bool inside = true;
    for (size_t d = 0; d < at.size(); ++d) {
      position.push_back(at[d] * steps.stride - steps.padding + tap[d + 1] * steps.dilation);
      inside = inside && position.back() >= 0 && position.back() < input.shape()[d + 2];
    }
    if (!inside) continue;
    sum += weight.values<float>()[static_cast<size_t>(o * element_count(taps) + i)] *
           input.values<float>()[static_cast<size_t>(index_of(position, input.shape()))];
  }
  return sum;
}

void expect_patches_of(const Shape& weight_shape, const Shape& input_shape) {
  constexpr Steps kSteps = {.groups = 2, .stride = 2, .padding = 1, .dilation = 2};
  const Tensor weight = random_tensor(weight_shape, 1);
  const Tensor input = random_tensor(input_shape, 2);
  Node node = convolution(weight.shape(), Table{{"stride", kSteps.stride},
                                                {"padding", kSteps.padding},
                                                {"dilation", kSteps.dilation},
                                                {"groups", kSteps.groups}});
  node.op = fmt::format("conv{}d", weight_shape.size() - 2);
  SCOPED_TRACE(node.op);
  const Im2Col im2col(node, "");
  const int64_t length = weight.numel() / weight_shape[0];
  EXPECT_EQ(im2col.length(), length);
  Shape positions;
  for (size_t d = 2; d < input_shape.size(); ++d) {
    positions.push_back((input_shape[d] + 2 - 2 * (weight_shape[d] - 1) - 1) / 2 + 1);
  }
  const int64_t count = input_shape[0] * element_count(positions);
  ASSERT_EQ(im2col.count(input_shape), count);
  for (int64_t o = 0; o < weight_shape[0]; ++o) {
    Matrix<float> copied(5, length);
    for (int64_t p = 0; p + 5 <= count; ++p) {
      im2col.copy(input, o / im2col.rows_per_group(), p, p + 5, copied);
      float product = 0;
      for (int64_t i = 0; i < length; ++i)
        product += copied(4, i) * weight.values<float>()[static_cast<size_t>(o * length + i)];
      const int64_t at = p + 4;
      EXPECT_NEAR(product,
                  output_at(input, weight, kSteps, at / element_count(positions), o,
                            position_of(at % element_count(positions), positions)),
                  1e-4);
    }
  }
}

TEST(Im2Col, TimesTheWeightAreTheConvolution) {
  expect_patches_of({6, 2, 3}, {3, 4, 9});
  expect_patches_of({6, 2, 3, 2}, {3, 4, 7, 6});
  expect_patches_of({4, 2, 2, 3, 2}, {2, 4, 4, 5, 6});
}

TEST(Im2Col, KnowTheirOperators) {
  Node node = convolution({2, 2, 1, 1}, {});
  node.op = "convtranspose2d";
  EXPECT_FALSE(Im2Col::exist_for(node));
  EXPECT_THROW(Im2Col(node, "here"), Error);
}

Node linear(Shape weight) {
  Node node;
  node.name = "fc";
  node.op = "linear";
  node.parameters.emplace_back("weight", Parameter{Tensor(DType::kFloat32, std::move(weight))});
  return node;
}

TEST(GramMatrices, AreMeansOfProducts) {
  const Node node = linear({4, 70});
  const Tensor input = random_tensor({20, 60, 70}, 3);  // more than one run
  GramMatrices grams(Im2Col(node, ""));
  grams.add(input.rows(0, 13));
  grams.add(input.rows(13, 20));
  EXPECT_EQ(grams.row_count(), 1200);
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
    GramMatrices several(Im2Col(node, ""));
    several.add(input);
    const int threads = thread_count();
    set_thread_count(1);
    GramMatrices one(Im2Col(node, ""));
    one.add(input);
    set_thread_count(threads);
    for (int64_t g = 0; g < groups; ++g) {
      EXPECT_TRUE(std::ranges::equal(several.mean(g, "").values(), one.mean(g, "").values()));
    }
  }
}

TEST(GramMatrices, OfNothingAreAnError) {
  EXPECT_THROW(GramMatrices(Im2Col(linear({2, 2}), "")).mean(0, "node \"fc\""), Error);
}

/// The mean over samples of a_i b_j.
double mean_product(const Tensor& a, size_t i, const Tensor& b, size_t j) {
  const auto columns = static_cast<size_t>(a.dim(1));
  double sum = 0;
  for (size_t n = 0; n < static_cast<size_t>(a.dim(0)); ++n) {
    sum += static_cast<double>(a.values<float>()[n * columns + i]) *
           static_cast<double>(b.values<float>()[n * columns + j]);
  }
  return sum / static_cast<double>(a.dim(0));
}

TEST(ShiftMatrices, AreMeansOfProductsWithWhatInputsMovedBy) {
  const Tensor input = random_tensor({1100, 20}, 8);  // more than two runs
  const Tensor in_float = random_tensor({1100, 20}, 9);
  Tensor moved(DType::kFloat32, input.shape());
  for (size_t i = 0; i < moved.values<float>().size(); ++i)
    moved.values<float>()[i] = in_float.values<float>()[i] - input.values<float>()[i];
  ShiftMatrices shifts(Im2Col(linear({4, 20}), ""));
  shifts.add(input.rows(0, 1000), in_float.rows(0, 1000));
  shifts.add(input.rows(1000, 1100), in_float.rows(1000, 1100));
  const Matrix<double> mean = shifts.mean(0, "");
  const Matrix<double> gram = shifts.gram(0, "");
  for (size_t i = 0; i < 20; ++i) {
    for (size_t j = 0; j < 20; ++j) {
      const auto row = static_cast<int64_t>(i);
      const auto column = static_cast<int64_t>(j);
      ASSERT_NEAR(mean(row, column), mean_product(moved, i, input, j), 1e-4) << i << " " << j;
      ASSERT_NEAR(gram(row, column), mean_product(moved, i, moved, j), 1e-4) << i << " " << j;
    }
  }
}

TEST(ShiftMatrices, GiveTheErrorsBesideTheFloatNetworksOutputs) {
  // Two groups of channels, so that each has matrices of its own.
  const Node node =
      convolution({4, 3, 2, 2}, Table{{"stride", 1}, {"padding", 1}, {"dilation", 1}, {"groups", 2}});
  const Im2Col im2col(node, "");
  const Tensor input = random_tensor({5, 6, 4, 4}, 10);
  const Tensor in_float = random_tensor({5, 6, 4, 4}, 11);
  const Tensor weight = random_tensor({4, 3, 2, 2}, 12);
  const Tensor chosen = random_tensor({4, 3, 2, 2}, 13);
  GramMatrices grams(im2col);
  grams.add(input);
  ShiftMatrices shifts(im2col);
  shifts.add(input, in_float);
  const int64_t n = im2col.length();
  const int64_t count = im2col.count(input.shape());
  for (int64_t group = 0; group < 2; ++group) {
    const InputMoments moments{grams.mean(group, ""), shifts.mean(group, ""), shifts.gram(group, "")};
    const Tensor zero(DType::kFloat32, weight.shape());
    const std::vector<double> signals = row_errors(moments, weight, zero, 2 * group, 2 * group + 2);
    const std::vector<double> errors = row_errors(moments, weight, chosen, 2 * group, 2 * group + 2);
    Matrix<float> x(count, n);
    Matrix<float> f(count, n);
    im2col.copy(input, group, 0, count, x);
    im2col.copy(in_float, group, 0, count, f);
    for (int64_t r = 0; r < 2; ++r) {
      double signal = 0;
      double noise = 0;
      for (int64_t p = 0; p < count; ++p) {
        double expected = 0;
        double got = 0;
        for (int64_t i = 0; i < n; ++i) {
          const auto place = static_cast<size_t>((2 * group + r) * n + i);
          expected += static_cast<double>(weight.values<float>()[place]) * static_cast<double>(f(p, i));
          got += static_cast<double>(chosen.values<float>()[place]) * static_cast<double>(x(p, i));
        }
        signal += expected * expected / static_cast<double>(count);
        noise += (expected - got) * (expected - got) / static_cast<double>(count);
      }
      EXPECT_NEAR(signals[static_cast<size_t>(r)], signal, 1e-4 * signal);
      EXPECT_NEAR(errors[static_cast<size_t>(r)], noise, 1e-4 * noise);
    }
  }
}

TEST(OutputErrors, AreThoseOfTheOutputs) {
  const Tensor input = random_tensor({50, 9}, 5);
  const Tensor a = random_tensor({3, 9}, 6);
  const Tensor b = random_tensor({3, 9}, 7);
  GramMatrices grams(Im2Col(linear({3, 9}), ""));
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

/// One row after another, as their definition reads.
std::vector<double> plain_output_errors(const Matrix<double>& gram, const Tensor& a, const Tensor& b,
                                        int64_t row_begin, int64_t row_end) {
  const int64_t n = gram.rows();
  std::vector<double> errors;
  for (int64_t r = row_begin; r < row_end; ++r) {
    const auto change = [&](int64_t i) {
      const auto at = static_cast<size_t>(r * n + i);
      return static_cast<double>(a.values<float>()[at]) - static_cast<double>(b.values<float>()[at]);
    };
    double error = 0;
    for (int64_t i = 0; i < n; ++i) {
      double product = 0;
      for (int64_t j = 0; j < n; ++j) product += gram(i, j) * change(j);
      error += change(i) * product;
    }
    errors.push_back(error);
  }
  return errors;
}

TEST(OutputErrors, AreThoseOfThePlainLoopToTheLastBit) {
  for (const int64_t n : {1, 31, 70}) {
    const Tensor a = random_tensor({37, n}, 1);
    const Tensor b = random_tensor({37, n}, 2);
    const Tensor values = random_tensor({n, n}, 3);
    Matrix<double> gram(n, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        gram(i, j) = static_cast<double>(values.values<float>()[static_cast<size_t>(i * n + j)]);
    }
    for (const auto& [begin, end] : {std::pair{0, 37}, {3, 4}, {5, 30}})
      EXPECT_EQ(output_errors(gram, a, b, begin, end), plain_output_errors(gram, a, b, begin, end)) << n;
  }
}

TEST(OutputShifts, AreTheMeansOfTheOutputsDifferences) {
  const Tensor input = random_tensor({600, 9}, 5);  // more than one run
  const Tensor a = random_tensor({3, 9}, 6);
  const Tensor b = random_tensor({3, 9}, 7);
  GramMatrices grams(Im2Col(linear({3, 9}), ""));
  grams.add(input);
  const std::vector<double> shifts = output_shifts(grams.mean_row(0, ""), a, b, 1, 3);
  ASSERT_EQ(shifts.size(), 2U);
  for (size_t r = 1; r < 3; ++r) {
    double expected = 0;
    for (size_t n = 0; n < 600; ++n) {
      for (size_t i = 0; i < 9; ++i) {
        expected += static_cast<double>(a.values<float>()[r * 9 + i] - b.values<float>()[r * 9 + i]) *
                    static_cast<double>(input.values<float>()[n * 9 + i]) / 600;
      }
    }
    EXPECT_NEAR(shifts[r - 1], expected, 1e-5);
  }
}

}  // namespace
}  // namespace detent
