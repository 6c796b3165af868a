#include "detent/core/random_numbers.h"

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <cmath>

#include "detent/autograd/initialize.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph_parameters.h"

namespace detent {
namespace {

// The oracle is libtorch.

std::vector<float> drawn(const at::Tensor& tensor) {
  const auto* data = tensor.data_ptr<float>();
  return {data, data + tensor.numel()};
}

TEST(MersenneTwister, DrawsAsPyTorchDoes) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, uint64_t{7} << 40 | 5}) {
    at::manual_seed(seed);
    MersenneTwister generator(seed);
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(generator.draw_int64(), at::empty({}, at::kLong).random_().item<int64_t>());
    std::vector<float> uniform(1001);
    generator.fill_uniform(uniform, -0.37, 0.37);
    EXPECT_EQ(uniform, drawn(at::empty({1001}).uniform_(-0.37, 0.37)));
    for (const int64_t count : {0, 1, 2, 1000}) {
      at::Generator other = at::detail::createCPUGenerator(seed);
      const at::Tensor order = at::randperm(count, other, at::TensorOptions(at::kLong));
      const auto* first = order.data_ptr<int64_t>();
      EXPECT_EQ(MersenneTwister(seed).permutation(count), std::vector<int64_t>(first, first + count));
    }
  }
}

TEST(MersenneTwister, DrawsNormalNumbersAsPyTorchDoes) {
  for (const int64_t count : {1, 7, 15, 16, 17, 40, 4096}) {
    at::manual_seed(3);
    MersenneTwister generator(3);
    std::vector<float> normal(static_cast<size_t>(count));
    generator.fill_normal(normal, 0.02);
    const std::vector<float> expected = drawn(at::empty({count}).normal_(0, 0.02));
    for (size_t i = 0; i < normal.size(); ++i)
      EXPECT_NEAR(normal[i], expected[i], 1e-6F * std::max(0.02F, std::fabs(expected[i]))) << i;
    // Both have drawn as much.
    EXPECT_EQ(generator.draw_int64(), at::empty({}, at::kLong).random_().item<int64_t>());
  }
}

/// Where no normal number is drawn, to the bit; the padding row is zero, also counted from the end.
TEST(Initialization, IsThatOfLibtorch) {
  GraphBuilder b("initialized");
  const NodeInput words = b.input("words", TensorType{DType::kInt64, {kBatchName, 3}});
  const NodeInput rows =
      b.layer("embedding", "table", {words}, {{"weight", {7, 6}}}, {{"padding_idx", int64_t{-2}}});
  Graph ours = b.finish(b.linear("fc", rows, 6, 2));
  Graph theirs = ours.deep_copy();
  seed_everything(5);
  initialize_parameters(theirs);
  MersenneTwister generator(5);
  initialize_parameters(ours, generator);
  for (const char* parameter : {"weight", "bias"}) {
    EXPECT_TRUE(ours.node("fc").find_parameter(parameter)->tensor.equals(
        theirs.node("fc").find_parameter(parameter)->tensor));
  }
  const auto table = ours.node("table").find_parameter("weight")->tensor.values<float>();
  const auto expected = theirs.node("table").find_parameter("weight")->tensor.values<float>();
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_NEAR(table[i], expected[i], 1e-5F);
    EXPECT_EQ(table[i] == 0, i / 6 == 5) << i;
  }
}

}  // namespace
}  // namespace detent
