#include "detent/formats/groups/value_grid.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/formats/normal_tensor_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EveryElementFormat : public testing::TestWithParam<const char*> {};

// Whatever values are chosen, quantization with the fixed spec leaves them where they are.
TEST_P(EveryElementFormat, HoldsWhatIsChosen) {
  const QuantSpec spec = parse_quant_spec_text(GetParam());
  const Tensor tensor = normal_tensor({3, 50}, 1);
  const ValueGrid grid(spec, tensor, "here");
  const Tensor simulated = fake_quantize(spec, tensor);

  std::mt19937 generator(2);
  Tensor chosen(DType::kFloat32, tensor.shape());
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const std::span<const float> values = grid.values(i);
    EXPECT_TRUE(std::ranges::is_sorted(values));
    EXPECT_EQ(grid.rounded(i, tensor.values<float>()[static_cast<size_t>(i)]),
              simulated.values<float>()[static_cast<size_t>(i)]);
    EXPECT_TRUE(std::ranges::binary_search(values, simulated.values<float>()[static_cast<size_t>(i)]));
    chosen.values<float>()[static_cast<size_t>(i)] = values[generator() % values.size()];
  }
  EXPECT_TRUE(fake_quantize(grid.spec(), chosen).equals(chosen));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, EveryElementFormat,
    testing::Values("affine:width=3,symmetric=true", "affine:width=4,symmetric=true,granularity=channel",
                    "affine:width=4,granularity=channel", "affine:width=8,signed=false",
                    "affine:width=4,granularity=channel,axis=1",
                    "affine:width=5,scale=0.1x0.2x0.3,granularity=channel", "fixed:width=8,frac_width=5",
                    "minifloat_ieee:width=6,exponent_width=3", "fp8_e4m3fn", "bf16", "log:width=5",
                    "codebook:values=-1x-0.3x0x0.2x2", "ternary:threshold=0.4", "ternary:scaling_factor=true",
                    "ternary:scaling_factor=true,granularity=channel", "binary", "binary:scaling=per_channel",
                    "binary_residual:levels=3", "scaled:element=fp8_e4m3fn",
                    "scaled:element=fp8_e5m2,granularity=channel",
                    "scaled:element=fp4_e2m1,granularity=group,group_size=10",
                    "affine:width=4,symmetric=true,granularity=group,group_size=10"));

std::string refusal(const char* spec) {
  return detent::error_of([&] {
    const ValueGrid grid(parse_quant_spec_text(spec), normal_tensor({3, 50}, 1), "node \"a\"");
  });
}

TEST(ValueGrid, RefusesWhatMovesWithTheElements) {
  EXPECT_THAT(refusal("mx:element=e2m1"), HasSubstr("node \"a\": mx: the scale of a block follows"));
  EXPECT_THAT(refusal("binary:stochastic=true"), HasSubstr("draws the values anew"));
  EXPECT_THAT(refusal("binary:bipolar=false"), HasSubstr("turns 0 into +1"));
  EXPECT_THAT(refusal("binary_residual:granularity=channel"), HasSubstr("expected granularity \"tensor\""));
  EXPECT_THAT(refusal("affine:width=20"), HasSubstr("has 20 bits, expected at most 16"));
  EXPECT_THAT(refusal("affine:scale_rule=learned"), HasSubstr("got scale_rule = \"learned\""));
  EXPECT_THAT(refusal("ternary:threshold=1.5"), HasSubstr("expected below 1"));
}

TEST(ValueGrid, ListsFollowTheChannel) {
  const Tensor tensor = Tensor::from({2, 2}, std::vector<float>{1.5F, -3, 0.5F, 1});
  const ValueGrid grid(parse_quant_spec_text("affine:width=2,symmetric=true,granularity=channel"), tensor,
                       "");
  EXPECT_THAT(grid.values(1), ElementsAre(-6, -3, 0, 3));
  EXPECT_THAT(grid.values(2), ElementsAre(-2, -1, 0, 1));
  EXPECT_EQ(quant_spec_text(grid.spec()), "affine:width=2,symmetric=true,scale=3.0x1.0,granularity=channel");
}

}  // namespace
}  // namespace detent
