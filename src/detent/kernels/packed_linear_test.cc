#include "detent/kernels/packed_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/parallel.h"
#include "detent/formats/every_target_test.h"
#include "detent/kernels/sums.h"

namespace detent {
namespace {

Tensor random_tensor(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(engine);
  return tensor;
}

class PackedLinearTest : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(PackedLinearTest);

TEST_P(PackedLinearTest, GivesTheBitsOfLinearSums) {
  const int threads = thread_count();
  set_thread_count(3);
  for (const int64_t out : {1, 16, 48, 49, 80, 96, 112, 144, 150, 176, 192, 208, 300, 1024}) {
    for (const int64_t rows : {1, 5, 16, 75}) {
      constexpr int64_t kDepth = 100;
      const Tensor inputs = random_tensor({rows, kDepth});
      const Tensor weight = random_tensor({out, kDepth});
      for (const std::optional<Tensor>& bias :
           {std::optional<Tensor>(), std::optional(random_tensor({out}))}) {
        const Tensor expected = linear_sums(inputs, weight, bias);
        const PackedLinear packed(weight, bias);
        Tensor results(DType::kFloat32, {rows, packed.stride()});
        packed.sums(inputs.values<float>().data(), rows, results.values<float>().data(), rows % 2 == 0);
        for (int64_t row = 0; row < rows; ++row) {
          const Tensor sums = Tensor::from<float>(
              {1, out}, results.rows(row, row + 1).values<float>().first(static_cast<size_t>(out)));
          EXPECT_TRUE(sums.equals(expected.rows(row, row + 1))) << out << " " << rows;
        }
      }
    }
  }
  set_thread_count(threads);
}

TEST_P(PackedLinearTest, KeepsWeightsThatBfloat16HoldsInIt) {
  constexpr int64_t kDepth = 67;
  for (const int64_t out : {1, 16, 49, 150, 208}) {
    const Tensor weight = to_float32(to_dtype(random_tensor({out, kDepth}), DType::kBFloat16));
    const PackedLinear packed(weight, std::nullopt);
    EXPECT_EQ(packed.byte_size(), packed.stride() * (2 * kDepth + 4));
    for (const int64_t rows : {1, 2, 3, 15, 16, 75}) {
      const Tensor inputs = random_tensor({rows, kDepth});
      const Tensor expected = linear_sums(inputs, weight, std::nullopt);
      Tensor results(DType::kFloat32, {rows, packed.stride()});
      packed.sums(inputs.values<float>().data(), rows, results.values<float>().data());
      for (int64_t i = 0; i < rows * out; ++i) {
        const auto at = static_cast<size_t>(i / out * packed.stride() + i % out);
        ASSERT_EQ(results.values<float>()[at], expected.values<float>()[static_cast<size_t>(i)])
            << out << " " << rows;
      }
    }
  }
}

/// Codes of at most `most` times scales, and the scales.
std::pair<Tensor, WeightScales> scaled_codes(int64_t out, int64_t depth, int64_t group, int most) {
  const Tensor drawn = random_tensor({out, depth});
  WeightScales scales{.group = group};
  const int64_t groups = (depth + group - 1) / group;
  for (int64_t i = 0; i < out * groups; ++i)
    scales.scales.push_back(0.01F + 0.003F * static_cast<float>(i % 17));
  Tensor weight(DType::kFloat32, {out, depth});
  for (int64_t i = 0; i < weight.numel(); ++i) {
    const float code =
        std::nearbyint(drawn.values<float>()[static_cast<size_t>(i)] * 0.4F * static_cast<float>(most));
    const float held = std::clamp(code, static_cast<float>(-most), static_cast<float>(most));
    const int64_t at = i / depth * groups + i % depth / group;
    // Never -0.
    weight.values<float>()[static_cast<size_t>(i)] =
        static_cast<float>(static_cast<int>(held)) * scales.scales[static_cast<size_t>(at)];
  }
  return {weight, scales};
}

/// Sums of so many rows of inputs are those of the weight as it is, to the last bit.
void expect_sums_of(const Tensor& weight, const PackedLinear& packed, std::initializer_list<int64_t> counts) {
  const int64_t out = weight.dim(0);
  const int64_t depth = weight.dim(1);
  for (const int64_t rows : counts) {
    const Tensor inputs = random_tensor({rows, depth});
    const Tensor expected = linear_sums(inputs, weight, std::nullopt);
    Tensor results(DType::kFloat32, {rows, packed.stride()});
    packed.sums(inputs.values<float>().data(), rows, results.values<float>().data());
    for (int64_t row = 0; row < rows; ++row) {
      const Tensor sums = Tensor::from<float>(
          {1, out}, results.rows(row, row + 1).values<float>().first(static_cast<size_t>(out)));
      EXPECT_TRUE(sums.equals(expected.rows(row, row + 1))) << out << " " << depth << " " << rows;
    }
  }
}

TEST_P(PackedLinearTest, KeepsWeightsThatAreCodesTimesScalesAsCodes) {
  for (const auto& [depth, group, most] : std::vector<std::tuple<int64_t, int64_t, int>>{
           {66, 66, 127}, {96, 32, 127}, {70, 32, 7}, {64, 64, 7}, {67, 67, 7}, {45, 9, 100}, {48, 12, 7}}) {
    for (const int64_t out : {1, 49, 112, 150, 176, 208}) {
      const auto [weight, scales] = scaled_codes(out, depth, group, most);
      const PackedLinear packed(weight, std::nullopt, scales);
      const bool are_nibbles = most < 8 && (group % 8 == 0 || group == depth);
      const int64_t bytes = are_nibbles ? (depth + 7) / 8 * 4 : depth;
      const int64_t groups = (depth + group - 1) / group;
      EXPECT_EQ(packed.byte_size(), packed.stride() * (bytes + 4 * groups + 4));
      expect_sums_of(weight, packed, {1, 2, 3, 8, 15, 16, 75});
    }
  }
}

TEST_P(PackedLinearTest, KeepsCodesWithMinimums) {
  constexpr int64_t kDepth = 64;
  constexpr int64_t kGroup = 32;
  for (const int most : {15, 31}) {
    for (const int64_t out : {1, 49, 208}) {
      WeightScales scales{.group = kGroup};
      for (int64_t i = 0; i < out * kDepth / kGroup; ++i) {
        scales.scales.push_back(0.02F - 0.003F * static_cast<float>(i % 9));
        scales.minimums.push_back(-0.1F + 0.013F * static_cast<float>(i % 17));
      }
      Tensor weight(DType::kFloat32, {out, kDepth});
      for (int64_t i = 0; i < weight.numel(); ++i) {
        const auto group = static_cast<size_t>(i / kGroup);
        const float product = static_cast<float>(i * 7 % (most + 1)) * scales.scales[group];
        weight.values<float>()[static_cast<size_t>(i)] = product + scales.minimums[group];
      }
      const PackedLinear packed(weight, std::nullopt, scales);
      EXPECT_EQ(packed.byte_size(),
                packed.stride() * (kDepth / (most == 15 ? 2 : 1) + 8 * kDepth / kGroup + 4));
      SCOPED_TRACE(most);
      expect_sums_of(weight, packed, {1, 3, 16, 75});
    }
  }
}

TEST_P(PackedLinearTest, KeepsCodesOfGroupsInAnyOrder) {
  constexpr int64_t kDepth = 77;
  constexpr int64_t kGroups = 5;
  for (const int64_t most : {7, 100}) {
    for (const int64_t out : {1, 49, 208}) {
      WeightScales scales{.group = 16};
      for (int64_t i = 0; i < kDepth; ++i) scales.group_of.push_back(static_cast<int32_t>(i * 3 % kGroups));
      for (int64_t i = 0; i < out * kGroups; ++i)
        scales.scales.push_back(0.02F - 0.003F * static_cast<float>(i % 9));
      Tensor weight(DType::kFloat32, {out, kDepth});
      for (int64_t i = 0; i < weight.numel(); ++i) {
        const auto at = static_cast<size_t>(i / kDepth * kGroups + i % kDepth * 3 % kGroups);
        weight.values<float>()[static_cast<size_t>(i)] =
            static_cast<float>(i * 7 % (2 * most) - most) * scales.scales[at];
      }
      const PackedLinear packed(weight, std::nullopt, scales);
      const int64_t bytes = most == 7 ? (kDepth + 7) / 8 * 4 : kDepth;
      EXPECT_EQ(packed.byte_size(), packed.stride() * (bytes + 4 * kGroups + 4));
      SCOPED_TRACE(most);
      expect_sums_of(weight, packed, {1, 3, 16, 75});
    }
  }
}

/// Weights that `value(i)` gives, times scales of groups, and their sums by rows of several numbers.
template <class Value>
void expect_packed(const Value& value, WeightScales scales, int64_t depth, int64_t bytes_of_depth) {
  for (const int64_t out : {1, 49, 150, 208}) {
    const int64_t groups = (depth + scales.group - 1) / scales.group;
    scales.scales.clear();
    for (int64_t i = 0; i < out * groups; ++i)
      scales.scales.push_back(i == 3 ? 0 : 0.01F - 0.003F * static_cast<float>(i % 17));
    Tensor weight(DType::kFloat32, {out, depth});
    for (int64_t i = 0; i < weight.numel(); ++i)
      weight.values<float>()[static_cast<size_t>(i)] =
          value(i) * scales.scales[static_cast<size_t>(i / depth * groups + i % depth / scales.group)];
    const PackedLinear packed(weight, std::nullopt, scales);
    EXPECT_EQ(packed.byte_size(), packed.stride() * (bytes_of_depth + 4 * groups + 4));
    expect_sums_of(weight, packed, {1, 2, 3, 8, 15, 16, 75});
  }
}

TEST_P(PackedLinearTest, KeepsFloatsOfEightBits) {
  Tensor codes(DType::kFloat8E4M3, {256});
  for (size_t i = 0; i < 256; ++i) codes.bytes()[i] = static_cast<std::byte>(i % 128 == 127 ? 0 : i);
  const Tensor values = to_float32(codes);
  const auto value = [&](int64_t i) { return values.values<float>()[static_cast<size_t>(i * 37 % 256)]; };
  for (const auto& [depth, group] : std::vector<std::pair<int64_t, int64_t>>{{256, 128}, {70, 33}, {45, 45}})
    expect_packed(value, {.group = group, .are_float8 = true}, depth, depth);
}

TEST_P(PackedLinearTest, KeepsIndicesInATable) {
  std::vector<float> table;
  for (int i = 0; i < 16; ++i) table.push_back(static_cast<float>(i * i * i) / 1000 - 1.37F);
  table[6] = 0;
  table[9] = -0.0F;
  const auto value = [&](int64_t i) { return table[static_cast<size_t>(i * 7 % 16)]; };
  for (const auto& [depth, group] : std::vector<std::pair<int64_t, int64_t>>{{256, 64}, {72, 16}, {45, 45}})
    expect_packed(value, {.group = group, .table = table}, depth, (depth + 7) / 8 * 4);
  const Tensor weight = Tensor::from<float>({1, 10}, std::vector<float>(10, table[3]));
  const PackedLinear odd(weight, std::nullopt, {.scales = {1, 1}, .group = 5, .table = table});
  EXPECT_EQ(odd.byte_size(), odd.stride() * (4 * 10 + 4)) << "words hold eight indices of one group";
}

TEST_P(PackedLinearTest, KeepsBlocksWithAScaleOfZero) {
  WeightScales scales{.scales = {0.0F, -0.5F}, .group = 32};
  Tensor weight(DType::kFloat32, {1, 64});
  for (size_t i = 0; i < 64; ++i)
    weight.values<float>()[i] = (static_cast<float>(i % 8) - 4) * (i < 32 ? 0 : -0.5F);
  const PackedLinear packed(weight, std::nullopt, scales);
  EXPECT_EQ(packed.byte_size(), packed.stride() * (32 + 8 + 4));
}

TEST_P(PackedLinearTest, KeepsWeightsThatMissTheirScalesAsTheyAre) {
  auto [weight, scales] = scaled_codes(20, 32, 32, 127);
  weight.values<float>()[77] = std::nextafter(weight.values<float>()[77], 9.0F);
  const PackedLinear packed(weight, std::nullopt, scales);
  EXPECT_EQ(packed.byte_size(), packed.stride() * (4 * 32 + 4));
}

TEST_P(PackedLinearTest, GivesTheSumsOfZerosWithoutProducts) {
  const Tensor bias = Tensor::from<float>({3}, std::vector<float>{1.5F, -0.0F, -2});
  Tensor weight = random_tensor({3, 4});
  for (const float first : {1.0F, INFINITY}) {
    weight.values<float>()[0] = first;
    for (const std::optional<Tensor>& given : {std::optional<Tensor>(), std::optional(bias)}) {
      const PackedLinear packed(weight, given);
      std::vector<float> inputs(8);
      std::vector<float> expected(static_cast<size_t>(2 * packed.stride()));
      std::vector<float> results(expected.size());
      packed.sums(inputs.data(), 2, expected.data());
      packed.sums_of_zeros(2, results.data());
      EXPECT_EQ(std::memcmp(results.data(), expected.data(), results.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace detent
