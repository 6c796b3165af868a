#include "detent/formats/groups/given_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "detent/formats/every_target_test.h"
#include "detent/formats/format_cases_test.h"

namespace detent {
namespace {

using RowRoundingTest = EveryTargetTest;

/// Rounds some rows at a time, in place; empty where this is fake_quantize(), else the first difference.
std::string difference_by_rows(const QuantSpec& spec, const Tensor& values) {
  const RowRounding rounding = RowRounding::of(spec).value();
  Tensor got = values.clone();
  float* const first = got.values<float>().data();
  const int64_t row = values.shape().back();
  const int64_t rows = values.numel() / row;
  for (int64_t begin = 0, count = 1; begin < rows; begin += count, count = count % 3 + 1) {
    const int64_t some = std::min(count, rows - begin) * row;
    rounding.round(first + begin * row, some, row, first + begin * row);
  }
  return difference(values, got, fake_quantize(spec, values));
}

TEST_P(RowRoundingTest, IsFakeQuantizationOfEachRow) {
  std::vector<std::string> formats = {"affine:scale=0.3,zero_point=9,signed=false", "scaled:scale=0.3",
                                      "binary_residual:gamma=2x0.5", "nvfp4:tensor_scale=0.01"};
  for (const char* format : kElementFormats) {
    if (RowRounding::of(parse_quant_spec_text(format))) formats.emplace_back(format);
  }
  EXPECT_EQ(formats.size(), 4 + std::size(kElementFormats) - 13) << "13 have parameters from the data";
  for (const char* format : kBlockFormats) {
    if (std::string(format) == "nvfp4") continue;
    for (const char* size : {"16", "32", "5", "-1"})
      formats.push_back(quant_spec_text(spec_of(format, fmt::format("block_size={}", size))));
  }
  for (const std::string& format : formats) {
    for (const int64_t row : {1, 7, 32, 64, 100}) {
      const Tensor values = random_tensor({2, 5, row}, static_cast<uint32_t>(row), 0, 12);
      EXPECT_EQ(difference_by_rows(parse_quant_spec_text(format), values), "") << format << ", " << row;
    }
  }
}

DETENT_ON_EVERY_TARGET(RowRoundingTest);

TEST(RowRoundingOf, NeedsParametersThatDoNotFollowFromTheData) {
  for (const char* format :
       {"affine", "scaled", "nvfp4", "ternary", "ternary:max=1,scaling_factor=true", "binary:stochastic=true",
        "binary:scaling=per_tensor", "binary_residual", "block_fp:block_size=4x4",
        "affine:scale=1x2,granularity=channel", "affine:scale=1x2,granularity=group,group_size=2"})
    EXPECT_FALSE(RowRounding::of(parse_quant_spec_text(format))) << format;
}

TEST(RowRoundingOf, SaysWhatSharesScales) {
  EXPECT_FALSE(RowRounding::of(parse_quant_spec_text("fp8_e4m3fn"))->in_blocks());
  const RowRounding blocks = *RowRounding::of(parse_quant_spec_text("mx:block_axis=1"));
  EXPECT_TRUE(blocks.in_blocks());
  EXPECT_EQ(blocks.axis(), 1);
  EXPECT_EQ(RowRounding::of(parse_quant_spec_text("mx:block_size=-1"))->axis(), -1);
}

}  // namespace
}  // namespace detent
