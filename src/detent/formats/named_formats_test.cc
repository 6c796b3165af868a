#include "detent/formats/named_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::HasSubstr;

std::string meaning(std::string_view text) {
  try {
    return quant_spec_text(parse_quant_spec_text(text));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NamedFormats, StandForKeysOfAffine) {
  EXPECT_EQ(meaning("int8"), "affine:symmetric=true");
  EXPECT_EQ(meaning("uint8"), "affine:signed=false");
  EXPECT_EQ(meaning("int4"), "affine:width=4,symmetric=true");
  EXPECT_EQ(meaning("uint4"), "affine:width=4,signed=false");
  EXPECT_EQ(meaning("int4_g128"), "affine:width=4,symmetric=true,granularity=group,group_size=128");
  EXPECT_EQ(meaning("uint3_g32"), "affine:width=3,signed=false,granularity=group,group_size=32");
  for (int width = 2; width <= 16; ++width) {
    for (const bool is_signed : {true, false}) {
      const QuantSpec expected{.format =
                                   Affine{.width = width, .is_signed = is_signed, .symmetric = is_signed}};
      EXPECT_EQ(parse_quant_spec_text(fmt::format("{}int{}", is_signed ? "" : "u", width)), expected);
      EXPECT_EQ(make_format(fmt::format("{}int{}", is_signed ? "" : "u", width), ""), expected.format);
    }
  }
}

TEST(NamedFormats, StandForElementsOfMx) {
  EXPECT_EQ(meaning("mx_e2m1"), "mx:element=e2m1");
  EXPECT_EQ(meaning("mx_e4m3"), "mx");
  EXPECT_EQ(meaning("mx_int8:block_size=16"), "mx:element=int8,block_size=16");
  EXPECT_THAT(meaning("mx_e9m9"), HasSubstr("mx_e4m3"));
  EXPECT_THAT(meaning("mx_e4m3:element=e2m1"), HasSubstr("but \"mx_e4m3\" says \"e4m3\""));
}

TEST(NamedFormats, StandForCodebooksOfEvenlySpacedValues) {
  EXPECT_EQ(meaning("codebook2"), "codebook:values=-1.0x1.0");
  EXPECT_EQ(meaning("codebook5"), "codebook:values=-1.0x-0.5x0.0x0.5x1.0");
  EXPECT_EQ(bits_per_value(parse_format("codebook16")), 4);
  EXPECT_THAT(meaning("codebook1"), HasSubstr("got 1 values, expected at least 2 and at most 256"));
  EXPECT_THAT(meaning("codebook257"), HasSubstr("got 257 values"));
}

TEST(NamedFormats, TakeKeys) {
  EXPECT_EQ(meaning("int8:symmetric=false"), "affine");
  EXPECT_EQ(meaning("int4:granularity=channel,axis=1"),
            "affine:width=4,symmetric=true,granularity=channel,axis=1");
  EXPECT_EQ(meaning("int4:width=4,scale=0.5"), "affine:width=4,symmetric=true,scale=0.5x");
  EXPECT_EQ(meaning("int4_g128:axis=1"),
            "affine:width=4,symmetric=true,granularity=group,axis=1,group_size=128");
  EXPECT_EQ(parse_quant_spec("int8", {{"narrow_range", true}}, ""),
            parse_quant_spec_text("affine:symmetric=true,narrow_range=true"));
  EXPECT_EQ(parse_format("uint6:scale=2"), Format(Affine{.width = 6, .is_signed = false, .scale = {2}}));
}

TEST(NamedFormats, RefuseWhatContradictsTheName) {
  EXPECT_THAT(meaning("int8:width=4"), HasSubstr("key \"width\": got 4, but \"int8\" says 8"));
  EXPECT_THAT(meaning("int8:signed=false"), HasSubstr("key \"signed\""));
  EXPECT_THAT(meaning("int4_g128:group_size=64"), HasSubstr("but \"int4_g128\" says 128"));
  EXPECT_THAT(meaning("int4_g128:granularity=channel"), HasSubstr("key \"granularity\""));
  EXPECT_THAT(meaning("uint8:symmetric=true"), HasSubstr("key \"symmetric\""));
  EXPECT_THAT(meaning("int17"), HasSubstr("got 17 bits, expected at least 2 and at most 16"));
  EXPECT_THAT(meaning("uint1"), HasSubstr("got 1 bits"));
  EXPECT_THAT(meaning("int99999999999999999999"), HasSubstr("expected at least 2 and at most 16"));
  EXPECT_THAT(meaning("int4_g0"), HasSubstr("got groups of 0"));
  EXPECT_THROW(parse_format("int4_g128"), Error);  // says more than a format
}

TEST(NamedFormats, TheNearestIsProposed) {
  EXPECT_THAT(meaning("unit8"), HasSubstr("did you mean \"uint8\"?"));
  EXPECT_THAT(meaning("int4_q128"), HasSubstr("did you mean \"int4_g128\"?"));
  EXPECT_THAT(meaning("imt8"), HasSubstr("did you mean \"int8\"?"));
  for (const char* other : {"int", "int-8", "int8_", "int8_g", "int8g128", "int8_g12x", "uuint8", "integer8"})
    EXPECT_THAT(meaning(other), HasSubstr("unknown format")) << other;
  EXPECT_EQ(meaning("integer"), "fixed");
  for (const NamedFormatHelp& named : usual_named_formats())
    EXPECT_TRUE(find_named_format(named.name, "test").has_value()) << named.name;
}

}  // namespace
}  // namespace detent
