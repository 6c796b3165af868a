#include "detent/kernels/sums.h"

#include <gtest/gtest.h>

#include <ATen/ops/allclose.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <vector>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/parallel.h"
#include "detent/formats/every_target_test.h"

// Against libtorch, and against sums that are written out.

namespace detent {
namespace {

std::optional<Tensor> bias_of(const at::Tensor& bias) {
  return bias.defined() ? std::optional(from_torch(bias)) : std::nullopt;
}
at::Tensor ordered_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return to_torch(linear_sums(from_torch(x), from_torch(weight), bias_of(bias)));
}
at::Tensor ordered_matmul(const at::Tensor& a, const at::Tensor& b) {
  return to_torch(matrix_product(from_torch(a), from_torch(b)));
}
at::Tensor ordered_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const ConvolutionWindow& window) {
  return to_torch(convolution_sums(from_torch(x), from_torch(weight), bias_of(bias), window));
}
at::Tensor ordered_transposed_convolution(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias, const ConvolutionWindow& window,
                                          const std::vector<int64_t>& output_padding) {
  return to_torch(
      transposed_convolution_sums(from_torch(x), from_torch(weight), bias_of(bias), window, output_padding));
}

class OrderedSums : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(OrderedSums);

TEST_P(OrderedSums, LinearAddsInTheOrderOfTheInputsAndTheBiasLast) {
  struct Case {
    std::vector<int64_t> inputs;
    int64_t out;
  };
  for (const auto& [shape, out] :
       {Case{{5}, 3}, Case{{1, 7}, 2}, Case{{70, 300}, 33}, Case{{64, 513}, 20}, Case{{2, 3, 40}, 17}}) {
    const at::Tensor inputs = at::randn(shape);
    const int64_t in = shape.back();
    const at::Tensor weight = at::randn({out, in});
    const at::Tensor bias = at::randn({out});
    const at::Tensor result = ordered_linear(inputs, weight, bias);
    ASSERT_EQ(result.sizes().vec().back(), out);
    const at::Tensor rows = inputs.reshape({-1, in});
    const at::Tensor results = result.reshape({-1, out});
    for (int64_t row = 0; row < rows.size(0); ++row) {
      for (int64_t j = 0; j < out; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < in; ++k)
          sum = std::fma(weight.data_ptr<float>()[j * in + k], rows.data_ptr<float>()[row * in + k], sum);
        ASSERT_EQ(results.data_ptr<float>()[row * out + j], sum + bias.data_ptr<float>()[j]);
      }
    }
  }
  EXPECT_EQ(ordered_linear(at::zeros({0, 4}), at::ones({2, 4}), at::Tensor()).sizes(),
            at::IntArrayRef({0, 2}));
}

TEST_P(OrderedSums, MatmulAddsInTheOrderOfTheDepth) {
  const at::Tensor a = at::randn({70, 300});
  const at::Tensor b = at::randn({300, 37});
  const at::Tensor result = ordered_matmul(a, b);
  ASSERT_EQ(result.sizes(), at::IntArrayRef({70, 37}));
  for (int64_t row = 0; row < 70; ++row) {
    for (int64_t column = 0; column < 37; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < 300; ++k)
        sum = std::fma(a.data_ptr<float>()[row * 300 + k], b.data_ptr<float>()[k * 37 + column], sum);
      ASSERT_EQ(result[row][column].item<float>(), sum);
    }
  }
}

TEST(Sums, MatmulBroadcasts) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes = {
      {{3, 5}, {5, 4}},
      {{2, 3, 5}, {5, 4}},
      {{2, 3, 5}, {2, 5, 16}},
      {{6, 1, 3, 5}, {4, 5, 2}},
      {{5}, {5, 4}},
      {{3, 5}, {5}},
      {{5}, {5}},
      {{2, 3, 5}, {5}},
      {{0, 3, 5}, {0, 5, 4}},
      {{5}, {2, 5, 3}},
      {{3, 0}, {0, 4}}};
  for (const auto& [left, right] : shapes) {
    const at::Tensor a = at::randn(left);
    const at::Tensor b = at::randn(right);
    const at::Tensor wanted = at::matmul(a, b);
    const at::Tensor result = ordered_matmul(a, b);
    ASSERT_EQ(result.sizes(), wanted.sizes());
    EXPECT_TRUE(at::allclose(result, wanted, 1e-4, 1e-5)) << a.sizes() << b.sizes();
  }
}

TEST_P(OrderedSums, ConvolutionAddsTheBiasThenTheWindowInTheOrderOfTheWeight) {
  const at::Tensor x = at::randn({2, 20, 9, 11});
  const at::Tensor weight = at::randn({5, 20, 3, 3});
  const at::Tensor bias = at::randn({5});
  const at::Tensor result = ordered_convolution(x, weight, bias, {{2, 1}, {1, 1}, {1, 1}, 1});
  ASSERT_EQ(result.sizes(), at::IntArrayRef({2, 5, 5, 11}));
  const auto input = [&](int64_t n, int64_t c, int64_t row, int64_t column) {
    const bool inside = row >= 0 && row < 9 && column >= 0 && column < 11;
    return inside ? x.data_ptr<float>()[((n * 20 + c) * 9 + row) * 11 + column] : 0.0F;
  };
  const float* const w = weight.data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    const int64_t column = i % 11;
    const int64_t row = i / 11 % 5;
    const int64_t output = i / 55 % 5;
    float sum = bias.data_ptr<float>()[output];
    for (int64_t k = 0; k < 180; ++k) {
      const float value = input(i / 275, k / 9, row * 2 - 1 + k % 9 / 3, column - 1 + k % 3);
      sum = std::fma(w[output * 180 + k], value, sum);
    }
    ASSERT_EQ(result.data_ptr<float>()[i], sum) << i;
  }
}

struct Convolution {
  std::vector<int64_t> input;
  std::vector<int64_t> weight;
  ConvolutionWindow window;
};

TEST(Sums, ConvolutionsAreThoseOfLibtorch) {
  const std::vector<Convolution> cases = {
      {{3, 4, 10}, {6, 2, 3}, {{2}, {2}, {1}, 2}},
      {{1, 3, 32, 32}, {16, 3, 7, 7}, {{2, 2}, {3, 3}, {1, 1}, 1}},
      {{5, 64, 7, 7}, {130, 64, 1, 1}, {{1, 1}, {0, 0}, {1, 1}, 1}},
      {{2, 33, 14, 14}, {33, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 33}},
      {{2, 33, 14, 14}, {66, 1, 3, 5}, {{2, 1}, {2, 4}, {2, 2}, 33}},
      {{2, 600, 5, 5}, {7, 600, 3, 3}, {{1, 1}, {0, 1}, {1, 1}, 1}},
      {{2, 3, 5, 6, 7}, {4, 3, 2, 3, 3}, {{1, 2, 1}, {1, 0, 2}, {1, 1, 2}, 1}},
      {{0, 3, 8, 8}, {4, 3, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1}},
  };
  for (const auto& [input, weights, w] : cases) {
    const at::Tensor x = at::randn(input);
    const at::Tensor weight = at::randn(weights);
    const at::Tensor bias = at::randn({weights[0]});
    const auto wanted = x.dim() == 3 ? at::conv1d(x, weight, bias, w.stride, w.padding, w.dilation, w.groups)
                        : x.dim() == 4
                            ? at::conv2d(x, weight, bias, w.stride, w.padding, w.dilation, w.groups)
                            : at::conv3d(x, weight, bias, w.stride, w.padding, w.dilation, w.groups);
    const at::Tensor result = ordered_convolution(x, weight, bias, w);
    ASSERT_EQ(result.sizes(), wanted.sizes());
    EXPECT_TRUE(at::allclose(result, wanted, 1e-3, 1e-4)) << x.sizes() << weight.sizes();
    const at::Tensor without_bias = ordered_convolution(x, weight, at::Tensor(), w);
    EXPECT_TRUE(at::allclose(without_bias, ordered_convolution(x, weight, at::zeros({weights[0]}), w), 0, 0));
  }
}

TEST(Sums, TransposedConvolutionsAreThoseOfLibtorch) {
  struct Case {
    Convolution convolution;
    std::vector<int64_t> output_padding;
  };
  const std::vector<Case> cases = {
      {{{2, 4, 9}, {4, 3, 4}, {{3}, {1}, {1}, 1}}, {1}},
      {{{2, 6, 5, 6}, {6, 2, 3, 3}, {{2, 1}, {1, 0}, {1, 2}, 2}}, {1, 0}},
      {{{1, 3, 5, 5}, {3, 4, 1, 2}, {{2, 2}, {1, 0}, {1, 1}, 1}}, {1, 1}},  // cuts more than the window adds
      {{{1, 2, 3, 4, 3}, {2, 3, 2, 2, 2}, {{1, 2, 2}, {0, 1, 0}, {1, 1, 1}, 1}}, {0, 1, 0}},
  };
  for (const auto& [convolution, extra] : cases) {
    const auto& [input, weights, w] = convolution;
    const at::Tensor x = at::randn(input);
    const at::Tensor weight = at::randn(weights);
    const at::Tensor bias = at::randn({weights[1] * w.groups});
    const auto wanted =
        x.dim() == 3 ? at::conv_transpose1d(x, weight, bias, w.stride, w.padding, extra, w.groups, w.dilation)
        : x.dim() == 4
            ? at::conv_transpose2d(x, weight, bias, w.stride, w.padding, extra, w.groups, w.dilation)
            : at::conv_transpose3d(x, weight, bias, w.stride, w.padding, extra, w.groups, w.dilation);
    const at::Tensor result = ordered_transposed_convolution(x, weight, bias, w, extra);
    ASSERT_EQ(result.sizes(), wanted.sizes());
    EXPECT_TRUE(at::allclose(result, wanted, 1e-4, 1e-5)) << x.sizes() << weight.sizes();
  }
}

TEST(Sums, NeitherBatchesNorThreadsChangeABit) {
  const int before = thread_count();
  const at::Tensor x = at::randn({6, 24, 13, 13});
  const at::Tensor weight = at::randn({40, 24, 3, 3});
  const ConvolutionWindow window = {{1, 1}, {1, 1}, {1, 1}, 1};
  set_thread_count(1);
  const at::Tensor whole = ordered_convolution(x, weight, at::Tensor(), window);
  set_thread_count(3);
  for (int64_t begin = 0; begin < 6; begin += 2) {
    const at::Tensor part = ordered_convolution(x.narrow(0, begin, 2), weight, at::Tensor(), window);
    EXPECT_TRUE(part.equal(whole.narrow(0, begin, 2)));
  }
  EXPECT_TRUE(ordered_linear(x, at::ones({5, 13}), at::Tensor())
                  .narrow(0, 3, 1)
                  .equal(ordered_linear(x.narrow(0, 3, 1), at::ones({5, 13}), at::Tensor())));
  set_thread_count(before);
}

}  // namespace
}  // namespace detent
