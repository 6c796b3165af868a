#include "detent/formats/blocks/fixed_scale_rounding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace detent {
namespace {

TEST(TensorScaledBlocks, AreTheFactorsOfTheRoundedValues) {
  Tensor values(DType::kFloat32, {3, 40});
  float next = 0.7F;
  for (float& value : values.values<float>()) value = next = std::fmod(next * 5.3F + 1, 7.0F) - 3;
  std::fill_n(values.values<float>().begin() + 40, 16, 0.0F);
  for (const char* format : {"nvfp4", "nvfp4:tensor_scale=0.01"}) {
    SCOPED_TRACE(format);
    const QuantSpec spec = parse_quant_spec_text(format);
    const auto blocks = tensor_scaled_blocks(spec, values);
    ASSERT_TRUE(blocks.has_value());
    ASSERT_EQ(blocks->scales.size(), 9U);  // 16, 16 and 8 of each row
    const Tensor rounded = fake_quantize(spec, values);
    for (size_t i = 0; i < 120; ++i) {
      const float element = blocks->elements.values<float>()[i];
      EXPECT_LE(std::fabs(element), 6);
      EXPECT_EQ(element * (blocks->scales[i / 40 * 3 + i % 40 / 16] * blocks->tensor_scale),
                rounded.values<float>()[i]);
    }
  }
}

TEST(TensorScaledBlocks, AreNoneOfOtherFormats) {
  const Tensor values(DType::kFloat32, {1, 32});
  for (const char* format : {"mx:element=e2m1", "block_fp:width=4", "affine:scale=1"})
    EXPECT_FALSE(tensor_scaled_blocks(parse_quant_spec_text(format), values).has_value()) << format;
}

}  // namespace
}  // namespace detent
