#include "detent/passes/transform/operand_format.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& text) {
  try {
    OperandFormat::parse(text, "weights");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OperandFormat, ReadsIntegersFormatsAndFloat) {
  EXPECT_TRUE(OperandFormat::parse("float32", "").is_float);
  EXPECT_EQ(OperandFormat::parse("uint4", "").integer.width, 4);
  for (const std::string text : {"nvfp4", "fp8_e4m3fn", "int4_g64", "log:width=4", "fp16", "tf32", "fixed"}) {
    const OperandFormat format = OperandFormat::parse(text, "");
    EXPECT_TRUE(format.other.has_value()) << text;
    EXPECT_EQ(refusal(text), "") << text;
  }
}

TEST(OperandFormat, SuggestsFloatForItsOtherNamesAndMisspellings) {
  for (const std::string text :
       {"flaot32", "float", "fp32", "f32", "FLOAT32", "flot32", "none", "float_32"}) {
    EXPECT_THAT(refusal(text), HasSubstr("did you mean \"float32\", which quantizes nothing")) << text;
    EXPECT_THAT(refusal(text), HasSubstr("weights: ")) << text;
  }
}

TEST(OperandFormat, SuggestsFormatsForWhatIsNearerToThem) {
  for (const std::string text : {"float16", "bfloat16", "fp8", "nf4", "tf23", "int99", "log:widht=4"})
    EXPECT_THAT(refusal(text), Not(HasSubstr("float32"))) << text;
}

}  // namespace
}  // namespace detent
