#include "detent/formats/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Verbs, IntegersGoAndComeBack) {
  const Format format =
      parse_format("affine:width=5,signed=false,narrow_range=true,scale=2x3,zero_point=4x5");
  const IntegerCodes codes = integer_codes(format).value();
  EXPECT_EQ(codes.low(), 1);
  EXPECT_EQ(codes.high(), 31);
  EXPECT_THAT(given_scales(format).scales, ElementsAre(2, 3));
  EXPECT_EQ(integer_format(codes, given_scales(format)), format);
  EXPECT_EQ(with_scales(format, {{4}, {1}}), parse_format("affine:width=5,signed=false,"
                                                          "narrow_range=true,scale=4,zero_point=1"));
  EXPECT_EQ(with_width(format, 7).index(), format.index());
  EXPECT_EQ(integer_codes(with_width(format, 7))->width, 7);
}

TEST(Verbs, SayWhatFormatsAre) {
  for (const std::string name : {"affine", "fixed", "binary", "binary_residual", "ternary", "nvfp4", "mx",
                                 "log", "minifloat_ieee", "block_fp"}) {
    SCOPED_TRACE(name);
    const Format format = parse_format(name);
    EXPECT_EQ(integer_codes(format).has_value(), name == "affine");
    EXPECT_EQ(fixed_point(format).has_value(), name == "fixed");
    EXPECT_EQ(sign_codes(format).has_value(), name == "binary");
    EXPECT_EQ(is_sum_of_signs(format), name == "binary_residual");
    EXPECT_EQ(has_threshold(format), name == "ternary");
    EXPECT_EQ(has_tensor_scale(format), name == "nvfp4");
    EXPECT_FALSE(repeats_exactly(format));
  }
  EXPECT_TRUE(repeats_exactly(parse_format("affine:scale=0.5")));
  EXPECT_EQ(scaled_standard(parse_format("scaled:element=fp8_e4m3fn")), "fp8_e4m3fn");
  EXPECT_EQ(mx_element(parse_format("mx:element=e2m1")), MxElement::kE2M1);
  EXPECT_FALSE(mx_element(parse_format("nvfp4")));
  const FixedPoint fixed = fixed_point(parse_format("fixed:width=4,frac_width=1,rounding=floor")).value();
  EXPECT_EQ(fixed.low, -8);
  EXPECT_EQ(fixed.high, 7);
  EXPECT_EQ(fixed.scale, 0.5F);
  EXPECT_TRUE(fixed.floors);
}

TEST(Verbs, ReplaceWhatTrainingOwns) {
  EXPECT_EQ(with_threshold(parse_format("ternary"), 0.25F), parse_format("ternary:threshold=0.25"));
  EXPECT_THAT(listed_values(format_of_values({1, 2})), ElementsAre(1, 2));
  EXPECT_THAT(listed_values(parse_format("affine")), IsEmpty());
  EXPECT_THAT(sign_levels(sum_of_signs({2, 1})), ElementsAre(2, 1));
  EXPECT_THAT(sign_levels(parse_format("binary_residual")), IsEmpty());
  const Format minifloat = parse_format("minifloat_ieee:width=6,exponent_width=3");
  EXPECT_EQ(exponent_bias(with_exponent_bias(minifloat, 4.4F)), 4);
  EXPECT_EQ(exponent_bias(with_exponent_bias(minifloat, 1e9F)), 147);
  EXPECT_FALSE(exponent_bias(parse_format("affine")));
  EXPECT_THAT(error_of([&] { with_exponent_bias(minifloat, NAN); }), HasSubstr("the exponent bias is nan"));
}

}  // namespace
}  // namespace detent
