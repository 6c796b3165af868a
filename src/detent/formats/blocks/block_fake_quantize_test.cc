// Meaning of block formats: examples and properties, not against the reference.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::vector<float> rounded(std::string_view spec, const Shape& shape, const std::vector<float>& values) {
  const Tensor output = fake_quantize(parse_quant_spec_text(spec), Tensor::from(shape, values));
  return {output.values<float>().begin(), output.values<float>().end()};
}

std::vector<float> rounded(std::string_view spec, const std::vector<float>& values) {
  return rounded(spec, {static_cast<int64_t>(values.size())}, values);
}

std::vector<float> mask(std::string_view spec, const std::vector<float>& values) {
  const Tensor input = Tensor::from({static_cast<int64_t>(values.size())}, values);
  const Tensor output = clipped_ste_mask(parse_quant_spec_text(spec), input);
  return {output.values<float>().begin(), output.values<float>().end()};
}

TEST(BlockFormats, Examples) {
  // e = 2 and 3 bits: steps of 1/2 up to 3.5.
  EXPECT_THAT(rounded("block_fp:width=4", {3, 0.3F, -0.25F, 4}), ElementsAre(3, 0.5F, 0, 3.5F));
  EXPECT_THAT(rounded("block_fp:width=4,block_size=2", {3, 0.3F, -0.25F, 8}), ElementsAre(3, 0.5F, 0, 7));
  // Top binade 4..8 with 3 mantissa bits.
  EXPECT_THAT(rounded("block_minifloat:width=6,exponent_width=2", {7.9F, -5.2F, 0.05F, 0.07F}),
              ElementsAre(7.5F, -5, 0, 0.125F));
  EXPECT_THAT(rounded("block_log:width=3", {3, -1.5F, 0.1F, 0}), ElementsAre(4, -2, 0.5F, 0.5F));
  EXPECT_THAT(rounded("mx:element=e2m1", {7.9F, 5, -0.3F, 0.25F}), ElementsAre(6, 4, -0.5F, 0));
  EXPECT_THAT(rounded("mx:element=int8", {1.999F, -1.999F, 0.01F}),
              ElementsAre(1.984375F, -1.984375F, 0.015625F));
  // Tensor scale 1/448, block scale 448: elements as they are.
  EXPECT_THAT(rounded("nvfp4", {6, -2.4F, 2.5F, 0.25F}),
              testing::Pointwise(testing::FloatEq(), {6.0F, -2.0F, 2.0F, 0.0F}));
}

const char* const kSpecs[] = {
    "block_fp",        "block_minifloat", "block_log",       "mx:element=e4m3", "mx:element=e5m2",
    "mx:element=e3m2", "mx:element=e2m3", "mx:element=e2m1", "mx:element=int8", "nvfp4"};

TEST(BlockFormats, ZerosStayZerosWhereThereIsAZero) {
  for (const std::string spec : kSpecs) {
    if (spec == "block_log") continue;
    EXPECT_THAT(rounded(spec, {0, -0.0F, 0}), testing::Each(0.0F)) << spec;
  }
  EXPECT_THAT(rounded("block_log:width=4", {0, -0.0F}), testing::Each(0x1p-7F));
}

TEST(BlockFormats, NanPassesAndHasNoPartInTheScale) {
  for (const char* spec : kSpecs) {
    const std::vector<float> with = rounded(spec, {1, kNotANumber, -0.3F});
    const std::vector<float> without = rounded(spec, {1, 0.5F, -0.3F});
    EXPECT_TRUE(std::isnan(with[1])) << spec;
    EXPECT_EQ(with[0], without[0]) << spec;
    EXPECT_EQ(with[2], without[2]) << spec;
    EXPECT_TRUE(std::isnan(rounded(spec, {0, kNotANumber})[1])) << spec;
  }
}

TEST(BlockFormats, InfinitiesSaturateWithTheScaleOfFiniteElements) {
  EXPECT_THAT(rounded("block_fp:width=4", {3, kInf, -kInf}), ElementsAre(3, 3.5F, -3.5F));
  EXPECT_THAT(rounded("mx:element=e2m1", {4, -kInf}), ElementsAre(4, -6));
  EXPECT_THAT(rounded("block_log:width=3", {3, kInf}), ElementsAre(4, 4));
  for (const char* spec : kSpecs) {
    const std::vector<float> alone = rounded(spec, {0, kInf, -kInf});
    EXPECT_TRUE(std::isfinite(alone[1]) && alone[1] > 0) << spec;
    EXPECT_EQ(alone[2], -alone[1]) << spec;
  }
}

RC_GTEST_PROP(BlockFormats, RoundingTwiceIsRoundingOnce, ()) {
  const auto x = *rc::gen::container<std::vector<float>>(
      40, rc::gen::map(rc::gen::inRange(-40000, 40000), [](int i) { return static_cast<float>(i) / 512; }));
  for (const std::string spec : {"block_log", "mx:element=e4m3", "mx:element=e5m2", "mx:element=e2m1",
                                 "mx:element=int8", "block_minifloat"}) {
    const std::vector<float> once = rounded(spec, x);
    RC_ASSERT(rounded(spec, once) == once);
  }
}

RC_GTEST_PROP(BlockFormats, ScalingByPowersOfTwoCommutes, ()) {
  const auto x = *rc::gen::container<std::vector<float>>(
      40, rc::gen::map(rc::gen::inRange(-4000, 4000), [](int i) { return static_cast<float>(i) / 512; }));
  const float scale = std::ldexp(1.0F, *rc::gen::inRange(-10, 10));
  std::vector<float> scaled = x;
  for (float& value : scaled) value *= scale;
  for (const char* spec : kSpecs) {
    std::vector<float> expected = rounded(spec, x);
    for (float& value : expected) value *= scale;
    RC_ASSERT(rounded(spec, scaled) == expected);
  }
}

RC_GTEST_PROP(BlockFormats, BlocksDoNotInfluenceEachOther, ()) {
  const auto x = *rc::gen::container<std::vector<float>>(
      64, rc::gen::map(rc::gen::inRange(-40000, 40000), [](int i) { return static_cast<float>(i) / 512; }));
  const auto changed = static_cast<size_t>(*rc::gen::inRange(0, 64));
  std::vector<float> other = x;
  other[changed] = 1e6F;
  for (const std::string name : {"block_fp", "block_minifloat", "block_log", "mx"}) {
    for (const std::string size : {"8", "16", "32"}) {
      const std::string spec = fmt::format("{}:block_size={}", name, size);
      const std::vector<float> a = rounded(spec, x);
      const std::vector<float> b = rounded(spec, other);
      const size_t width = std::stoul(size);
      for (size_t i = 0; i < 64; ++i) RC_ASSERT(i / width == changed / width || a[i] == b[i]);
    }
  }
}

TEST(BlockSizes, OneNumberRunsAlongOneDimension) {
  const std::vector<float> x = {1, 0.1F, 8, 0.1F};
  EXPECT_THAT(rounded("block_fp:width=4,block_size=2", {2, 2}, x), ElementsAre(0.875F, 0.125F, 7, 0));
  EXPECT_THAT(rounded("block_fp:width=4,block_size=2,block_axis=0", {2, 2}, x),
              ElementsAre(1, 0.09375F, 7, 0.09375F));
  EXPECT_THAT(rounded("block_fp:width=4,block_size=2x1", {2, 2}, x), ElementsAre(1, 0.09375F, 7, 0.09375F));
  EXPECT_THAT(rounded("block_fp:width=4,block_size=-1x-1", {2, 2}, x), ElementsAre(1, 0, 7, 0));
  EXPECT_EQ(rounded("block_fp:width=4,block_size=4x-1x2", x), rounded("block_fp:width=4,block_size=2", x));
}

TEST(BlockSizes, ErrorsSayWhatIsWrong) {
  const auto parse = [](std::string_view text) { return error_of([&] { parse_quant_spec_text(text); }); };
  EXPECT_THAT(parse("block_fp:block_size=0"),
              HasSubstr("key \"block_size\": got 0, expected sizes of at least 1"));
  EXPECT_THAT(parse("block_fp:block_size=1x-2"), HasSubstr("got [1, -2]"));
  EXPECT_THAT(parse("block_fp:block_size=many"), HasSubstr("key \"block_size\""));
  EXPECT_THAT(parse("block_fp:block_size=1x16,block_axis=1"),
              HasSubstr("only a block_size of one number reads"));
  EXPECT_THAT(parse("fixed:block_axis=1"), HasSubstr("key \"block_axis\": got 1"));
  EXPECT_THAT(parse("block_fp:granularity=channel"), HasSubstr("its scales are those of its blocks"));
  EXPECT_THAT(parse("block_minifloat:width=4,exponent_width=4"), HasSubstr("mantissa bits"));
  EXPECT_THAT(parse("mx:element=e8m0"), HasSubstr("known: e4m3"));
  EXPECT_THAT(error_of([] {
                rounded("block_fp:block_axis=1", {1, 2});
              }),
              HasSubstr("key \"block_axis\": got 1"));
  EXPECT_THROW(representable_values(parse_format("block_fp")), Error);
}

TEST(BlockSizes, TextForm) {
  for (const char* text :
       {"block_fp:width=7,block_size=1x16", "mx:element=e2m1,block_size=-1x8", "nvfp4:block_axis=0",
        "block_log:block_size=8,block_axis=-2", "mx:block_size=-1"}) {
    EXPECT_EQ(quant_spec_text(parse_quant_spec_text(text)), text);
  }
}

TEST(UnsaturatedMask, OfBlocksIsWhatRoundsIntoTheRange) {
  // Up to 3.5 in steps of 1/2, block by block.
  EXPECT_THAT(mask("block_fp:width=4,block_size=3", {3.74F, 3.75F, kNotANumber, 8, -8, kInf}),
              ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(mask("mx:element=e4m3", {464, -464, std::nextafter(464.0F, 500.0F)}), ElementsAre(1, 1, 0));
  EXPECT_THAT(mask("mx:element=e2m1", {6.99F, 7, 0}), ElementsAre(1, 0, 1));
  EXPECT_THAT(mask("block_log:width=3,exponent_bias_width=1", {11.3F, 11.4F, 0.1F}), ElementsAre(1, 0, 1));
  EXPECT_THAT(mask("nvfp4", {6, -kInf, 0, kNotANumber}), ElementsAre(1, 0, 1, 1));
}

TEST(StorageBits, OfBlocks) {
  const auto bits = [](std::string_view text, const Shape& shape) {
    return storage_bits(parse_quant_spec_text(text), shape);
  };
  EXPECT_EQ(bits("block_fp:width=7,exponent_width=5", {3, 20}), 60 * 7 + 6 * 5);
  EXPECT_EQ(bits("block_fp:width=7,block_size=2x-1", {3, 20}), 60 * 7 + 2 * 8);
  EXPECT_EQ(bits("block_minifloat:exponent_bias_width=4,block_axis=0", {3, 20}), 60 * 8 + 20 * 4);
  EXPECT_EQ(bits("mx:element=e2m1", {4, 33}), 4 * 33 * 4 + 8 * 8);
  EXPECT_EQ(bits("nvfp4", {4, 33}), 4 * 33 * 4 + 12 * 8 + 32);
  EXPECT_EQ(bits("block_log", {0, 3}), 0);
  EXPECT_EQ(bits("block_log", {}), 16);
}

}  // namespace
}  // namespace detent
