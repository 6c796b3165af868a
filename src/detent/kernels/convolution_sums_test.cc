#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <string>
#include <vector>

#include "detent/kernels/sums.h"

namespace detent {
namespace {

class ConvolutionSums : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

struct SummedCase {
  int64_t batch, channels, outputs, groups, height, width, kernel, stride, padding, dilation;
};

Tensor drawn_values(const Shape& shape, uint32_t seed) {
  Tensor result(DType::kFloat32, shape);
  for (float& x : result.values<float>()) {
    seed = seed * 1664525U + 1013904223U;
    x = static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F;
  }
  return result;
}

/// One sum at a time, with one rounding a product.
float one_sum(const SummedCase& c, const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t sample,
              int64_t output, int64_t y, int64_t column) {
  const int64_t of_group = c.channels / c.groups;
  const int64_t first = output / (c.outputs / c.groups) * of_group;
  float sum = bias.values<float>()[static_cast<size_t>(output)];
  for (int64_t k = 0; k < of_group * c.kernel * c.kernel; ++k) {
    const int64_t channel = sample * c.channels + first + k / (c.kernel * c.kernel);
    const int64_t row = y * c.stride - c.padding + k / c.kernel % c.kernel * c.dilation;
    const int64_t place = column * c.stride - c.padding + k % c.kernel * c.dilation;
    const bool is_inside = row >= 0 && row < c.height && place >= 0 && place < c.width;
    const auto at = static_cast<size_t>((channel * c.height + row) * c.width + place);
    const float weighted =
        weight.values<float>()[static_cast<size_t>(output * of_group * c.kernel * c.kernel + k)];
    sum = std::fma(weighted, is_inside ? x.values<float>()[at] : 0.0F, sum);
  }
  return sum;
}

TEST_P(ConvolutionSums, AreThoseOfEachWindow) {
  for (const SummedCase& c : std::vector<SummedCase>{{1, 3, 5, 1, 9, 24, 3, 1, 1, 1},
                                                     {2, 4, 6, 2, 7, 20, 3, 1, 0, 1},
                                                     {1, 20, 7, 1, 3, 17, 3, 1, 1, 1},
                                                     {2, 2, 3, 1, 40, 30, 1, 1, 0, 1},
                                                     {1, 2, 2, 1, 1, 16, 1, 1, 0, 1},
                                                     {1, 2, 2, 1, 5, 3, 3, 1, 1, 1},
                                                     {1, 3, 4, 1, 12, 31, 3, 1, 2, 2},
                                                     {1, 3, 4, 1, 12, 31, 3, 2, 1, 1}}) {
    const Tensor x = drawn_values({c.batch, c.channels, c.height, c.width}, 1);
    const Tensor weight = drawn_values({c.outputs, c.channels / c.groups, c.kernel, c.kernel}, 2);
    const Tensor bias = drawn_values({c.outputs}, 3);
    const Tensor sums = convolution_sums(
        x, weight, bias, {{c.stride, c.stride}, {c.padding, c.padding}, {c.dilation, c.dilation}, c.groups});
    const int64_t height = sums.dim(2);
    const int64_t width = sums.dim(3);
    for (int64_t i = 0; i < sums.numel(); ++i) {
      const int64_t output = i / (height * width) % c.outputs;
      const int64_t sample = i / (height * width) / c.outputs;
      ASSERT_EQ(sums.values<float>()[static_cast<size_t>(i)],
                one_sum(c, x, weight, bias, sample, output, i / width % height, i % width))
          << c.height << "x" << c.width << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvolutionSums, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
