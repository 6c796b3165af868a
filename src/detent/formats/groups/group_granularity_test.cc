// granularity = "group": each group is what a tensor of its own would be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/reference/reference_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// Groups differ in magnitude, so that one with another's scale shows.
Tensor uneven_tensor(const Shape& shape) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0.1F, 1);
  Tensor tensor(DType::kFloat32, shape);
  for (float& value : tensor.values<float>())
    value = std::ldexp(normal(random), static_cast<int>(random() % 21) - 10);
  return tensor;
}

/// The row-major indices of the elements of every group, from the definition: those of each place along
/// `axis`, cut after each `size`.
std::vector<std::vector<size_t>> groups_by_definition(const Shape& shape, int64_t axis, int64_t size) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto dimension = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  int64_t inner = 1;
  for (size_t i = dimension + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<std::vector<size_t>> groups;
  for (int64_t channel = 0; channel < (rank == 1 ? 1 : shape[dimension]); ++channel) {
    int64_t place = 0;
    for (int64_t i = 0; i < element_count(shape); ++i) {
      if (rank > 1 && i / inner % shape[dimension] != channel) continue;
      if (place++ % size == 0) groups.emplace_back();
      groups.back().push_back(static_cast<size_t>(i));
    }
  }
  return groups;
}

Tensor gathered(const Tensor& tensor, const std::vector<size_t>& indices) {
  std::vector<float> values;
  for (const size_t i : indices) values.push_back(tensor.values<float>()[i]);
  return Tensor::from<float>({static_cast<int64_t>(values.size())}, values);
}

/// Zeros by value.
bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.values<float>(), b.values<float>());
}

struct Case {
  Shape shape;
  int64_t axis;
  int64_t size;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{6, 40}, 0, 8}, {{6, 43}, 0, 8}, {{5, 3}, 0, 100},  {{4, 6, 3, 3}, 0, 16}, {{4, 6, 3, 3}, 1, 7},
      {{7, 5}, -1, 3}, {{300}, 0, 128}, {{9, 2, 4}, 1, 1}, {{33, 4099}, 0, 32},   {{2, 70, 5}, 1, 64},
  };
  return all;
}

std::string text_of(const char* format, const Case& c) {
  return fmt::format("{}granularity=group,group_size={},axis={}", format, c.size, c.axis);
}

constexpr const char* kFormats[] = {"affine:", "affine:width=4,symmetric=true,",
                                    "affine:width=5,signed=false,", "ternary:scaling_factor=true,",
                                    "binary_residual:"};

TEST(GroupGranularity, EachGroupIsATensorOfItsOwn) {
  for (const Case& c : cases()) {
    const Tensor input = uneven_tensor(c.shape);
    const auto groups = groups_by_definition(c.shape, c.axis, c.size);
    for (const char* format : kFormats) {
      const std::string text = text_of(format, c);
      SCOPED_TRACE(fmt::format("{} of {}", text, shape_text(c.shape)));
      const QuantSpec spec = parse_quant_spec_text(text);
      const QuantSpec whole{.format = spec.format};
      const Tensor got = fake_quantize(spec, input);
      const Tensor mask = clipped_ste_mask(spec, input);
      const Encoded encoded = encode(spec, input);
      ASSERT_TRUE(same(decode(encoded), got));
      ASSERT_TRUE(same(reference_fake_quantize(spec, input), got));
      ASSERT_EQ(make_grouping(spec, c.shape).groups(), static_cast<int64_t>(groups.size()));
      for (size_t g = 0; g < groups.size(); ++g) {
        const Tensor alone = gathered(input, groups[g]);
        ASSERT_TRUE(same(gathered(got, groups[g]), fake_quantize(whole, alone))) << g;
        ASSERT_TRUE(gathered(mask, groups[g]).equals(clipped_ste_mask(whole, alone))) << g;
        const Encoded one = encode(whole, alone);
        for (size_t s = 1; s < one.streams.size(); ++s) {
          if (one.streams[s].data.dtype() != DType::kFloat32) continue;
          const auto expected = one.streams[s].data.values<float>();
          const auto stored = encoded.streams[s].data.values<float>().subspan(g * expected.size());
          ASSERT_TRUE(std::ranges::equal(expected, stored.first(expected.size()))) << g;
        }
      }
    }
  }
}

TEST(GroupGranularity, ElementsOfAGroupAreCounted) {
  for (const Case& c : cases()) {
    const Grouping grouping = make_grouping(parse_quant_spec_text(text_of("affine:", c)), c.shape);
    const auto groups = groups_by_definition(c.shape, c.axis, c.size);
    for (size_t g = 0; g < groups.size(); ++g) {
      ASSERT_EQ(grouping.size(static_cast<int64_t>(g)), static_cast<int64_t>(groups[g].size()));
      for (const size_t i : groups[g])
        ASSERT_EQ(grouping.group_of(static_cast<int64_t>(i)), static_cast<int64_t>(g));
    }
    for (int64_t i = 0; i < grouping.elements(); ++i) {
      const int64_t end = grouping.end_of_run(i);
      ASSERT_GT(end, i);
      for (int64_t other = i; other < end; ++other)
        ASSERT_EQ(grouping.group_of(other), grouping.group_of(i)) << other;
    }
  }
}

TEST(GroupGranularity, StorageIsCodesAndAScaleForEachGroup) {
  const auto bits = [](std::string_view text, const Shape& shape) {
    return storage_bits(parse_quant_spec_text(text), shape);
  };
  EXPECT_EQ(bits("int4_g128", {2, 256}), 4 * 512 + 4 * 32);
  EXPECT_EQ(bits("int4_g128", {2, 200}), 4 * 400 + 4 * 32);
  EXPECT_EQ(bits("uint4_g128", {2, 256}), 4 * 512 + 4 * (32 + 32));
  EXPECT_EQ(bits("int4_g128:axis=1", {2, 256}), 4 * 512 + 256 * 32);
  EXPECT_EQ(bits("int4_g128", {64, 16, 3, 3}), 64 * (4 * 144 + 2 * 32));
  EXPECT_EQ(bits("int4_g128", {200}), 4 * 200 + 2 * 32);
  EXPECT_EQ(bits("int4_g128", {}), 4 + 32);
  EXPECT_EQ(bits("int4_g128", {0, 4}), 0);
}

TEST(GroupGranularity, ScalesMayBeGivenAndLearned) {
  const QuantSpec given = parse_quant_spec_text("affine:granularity=group,group_size=2,scale=1x0.5");
  const Tensor input = Tensor::from<float>({4}, std::vector<float>{1.4F, 0.8F, 1.4F, 0.8F});
  EXPECT_TRUE(
      fake_quantize(given, input).equals(Tensor::from<float>({4}, std::vector<float>{1, 1, 1.5F, 1})));
  EXPECT_THROW(fake_quantize(given, uneven_tensor({6})), Error);

  const QuantSpec learned = parse_quant_spec_text("int4_g128:scale_rule=learned");
  EXPECT_EQ(scale_shape(learned, {3, 300}), (Shape{9}));
  EXPECT_EQ(initial_scale(learned, uneven_tensor({3, 300}), "test").numel(), 9);
}

/// Who chooses among the values of a group knows that quantization keeps them.
TEST(GroupGranularity, ValuesOfAGroupStay) {
  const Tensor input = uneven_tensor({3, 20});
  const ValueGrid grid(parse_quant_spec_text("int3_g8"), input, "test");
  Tensor chosen(DType::kFloat32, input.shape());
  for (int64_t i = 0; i < input.numel(); ++i) {
    const auto values = grid.values(i);
    ASSERT_LE(values.size(), 8U);
    chosen.values<float>()[static_cast<size_t>(i)] = values[static_cast<size_t>(i) % values.size()];
    EXPECT_EQ(grid.rounded(i, input.values<float>()[static_cast<size_t>(i)]),
              fake_quantize(grid.spec(), input).values<float>()[static_cast<size_t>(i)]);
  }
  EXPECT_TRUE(same(fake_quantize(grid.spec(), chosen), chosen));
  EXPECT_EQ(ValueGrid(parse_quant_spec_text("int4_g128"), uneven_tensor({40}), "test").spec().granularity,
            Granularity::kTensor);
}

TEST(GroupGranularity, WhatMakesNoSenseIsRefused) {
  const auto error_of = [](std::string_view text) -> std::string {
    return detent::error_of([&] { parse_quant_spec_text(text); });
  };
  EXPECT_THAT(error_of("affine:granularity=group"), HasSubstr("key \"group_size\" is missing"));
  EXPECT_THAT(error_of("affine:group_size=4"), HasSubstr("which only granularity = \"group\" reads"));
  EXPECT_THAT(error_of("affine:granularity=group,group_size=0"), HasSubstr("got 0, expected at least 1"));
  EXPECT_THAT(error_of("affine:block_axis=1"), HasSubstr("key \"block_axis\""));
  EXPECT_THAT(error_of("fixed:granularity=group,group_size=4"), HasSubstr("derives nothing from the data"));
  EXPECT_THAT(error_of("mx:granularity=group,group_size=4"), HasSubstr("scales are those of its blocks"));
  EXPECT_THAT(error_of("binary:scaling=per_channel,granularity=group,group_size=4"), HasSubstr("\"group\""));
  EXPECT_EQ(error_of("affine:granularity=group,group_size=9223372036854775807"), "");
  EXPECT_THROW(fake_quantize(parse_quant_spec_text("int4_g4:axis=2"), uneven_tensor({3, 4})), Error);
  const QuantSpec huge = parse_quant_spec_text("affine:granularity=group,group_size=9223372036854775807");
  EXPECT_EQ(storage_bits(huge, {2, 3}), 6 * 8 + 2 * 64);
}

}  // namespace
}  // namespace detent
