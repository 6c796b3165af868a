#include "detent/formats/blocks/fixed_scale_rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/normal_tensor_for_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

bool keeps_its_scales(const char* format) {
  const std::string text = format;
  return text.find("block_fp:width=2,") == std::string::npos;
}

/// The element with the largest magnitude of each block of a row.
std::vector<size_t> keepers(const BlockRounding& rounding, std::span<const float> row) {
  std::vector<size_t> result(static_cast<size_t>(rounding.block_count()), row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    size_t& keeper = result[static_cast<size_t>(rounding.blocks()[i])];
    if (keeper == row.size() || std::fabs(row[i]) > std::fabs(row[keeper])) keeper = i;
  }
  return result;
}

class EveryBlockFormat : public testing::TestWithParam<const char*> {};

// The elements move after the scales were fixed, as other elements' errors are made up for.
TEST_P(EveryBlockFormat, QuantizationLeavesWhatWasRounded) {
  if (!keeps_its_scales(GetParam())) return;  // see RefusesWhatDoesNotFit
  for (const char* blocks : {"block_size=8", "block_size=5,block_axis=1", "block_size=-1"}) {
    const QuantSpec spec = spec_of(GetParam(), blocks);
    const Tensor before = normal_tensor({40, 6, 9}, 1);
    const Tensor moves = normal_tensor(before.shape(), 2);
    const BlockRounding rounding(spec, before, "here");
    Tensor chosen = before.clone();
    constexpr int64_t kRow = int64_t{6} * 9;
    for (int64_t r = 0; r < before.dim(0); ++r) {
      const std::span<const float> row = before.rows(r, r + 1).values<float>();
      const std::vector<size_t> of_block = keepers(rounding, row);
      for (size_t i = 0; i < row.size(); ++i) {
        const size_t keeper = of_block[static_cast<size_t>(rounding.blocks()[i])];
        const float largest = rounding.largest(std::fabs(row[keeper]));
        const size_t element = static_cast<size_t>(r * kRow) + i;
        const float x = row[i] + moves.values<float>()[element];
        chosen.values<float>()[element] =
            i == keeper ? rounding.kept(x, largest, "here") : rounding.rounded(x, largest);
      }
    }
    const Tensor again = fake_quantize(rounding.spec(), chosen);
    EXPECT_EQ(difference(chosen, again, chosen), "") << blocks;
  }
}

TEST_P(EveryBlockFormat, RoundsAsQuantizationDoes) {
  if (!keeps_its_scales(GetParam())) return;
  const QuantSpec spec = spec_of(GetParam(), "block_size=8");
  const Tensor tensor = normal_tensor({20, 24}, 3);
  const Tensor expected = fake_quantize(spec, tensor);
  const BlockRounding rounding(spec, tensor, "here");
  for (int64_t r = 0; r < tensor.dim(0); ++r) {
    const std::span<const float> row = tensor.rows(r, r + 1).values<float>();
    const std::vector<size_t> of_block = keepers(rounding, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t keeper = of_block[static_cast<size_t>(rounding.blocks()[i])];
      EXPECT_EQ(rounding.rounded(row[i], rounding.largest(std::fabs(row[keeper]))),
                expected.values<float>()[static_cast<size_t>(r) * 24 + i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BlockRounding, EveryBlockFormat, testing::ValuesIn(kBlockFormats));

TEST(BlockRounding, NumbersTheBlocksOfARow) {
  const auto blocks_of = [](const char* spec, const Shape& shape) {
    const BlockRounding rounding(parse_quant_spec_text(spec), normal_tensor(shape, 1), "here");
    return std::vector<int64_t>(rounding.blocks().begin(), rounding.blocks().end());
  };
  EXPECT_THAT(blocks_of("mx:block_size=2", {3, 5}), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(blocks_of("mx:block_size=2,block_axis=1", {4, 3, 1, 2}), ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_THAT(blocks_of("mx:block_size=1x2x2", {4, 2, 2}), Each(0));
}

// Multiples of 1/4 below 2, and 1 alone would have those of 1/8 below 1.
TEST(BlockRounding, KeepsAScaleByItsLeastValue) {
  const BlockRounding rounding(parse_quant_spec_text("block_fp:width=4"), normal_tensor({1, 16}, 1), "here");
  const float largest = rounding.largest(1.1F);
  EXPECT_EQ(largest, 1.75F);
  EXPECT_EQ(rounding.rounded(1.1F, largest), 1.0F);
  EXPECT_EQ(rounding.kept(1.1F, largest, "here"), 1.25F);
  EXPECT_EQ(rounding.kept(-0.1F, largest, "here"), -1.25F);
  EXPECT_EQ(rounding.kept(1.6F, largest, "here"), 1.5F);
  EXPECT_EQ(rounding.rounded(-9, largest), -1.75F);
  EXPECT_EQ(rounding.rounded(3, rounding.largest(0)), 0);
}

TEST(BlockRounding, RefusesWhatDoesNotFit) {
  const auto error = [](const char* spec, const char* message) {
    EXPECT_THAT(
        [&] {
          BlockRounding(parse_quant_spec_text(spec), normal_tensor({32, 32}, 1), "here");
        },
        ThrowsMessage<Error>(AllOf(HasSubstr("here: "), HasSubstr(message))))
        << spec;
  };
  error("affine", "affine is no block format");
  error("mx:block_size=2x4", "a block holds elements of several rows of the weight [32, 32]");
  error("mx:block_axis=0", "a block holds elements of several rows");
  error("block_fp:width=2", "gets another scale when it is quantized again");
}

}  // namespace
}  // namespace detent
