#include "detent/formats/named_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(OtherNames, AreProposedInOurs) {
  const std::map<std::string, std::string> names = {{"mxfp4", "mx_e2m1"},
                                                    {"MXFP8", "mx_e4m3"},
                                                    {"float8_e4m3fn", "fp8_e4m3fn"},
                                                    {"float8", "fp8_e4m3fn"},
                                                    {"float4_e2m1fn", "fp4_e2m1"},
                                                    {"bfloat16", "bf16"},
                                                    {"float16", "fp16"},
                                                    {"NF4", "codebook16"},
                                                    {"Q4_K_M", "int4_g32"},
                                                    {"INT4", "int4"},
                                                    {"int4-g32", "int4_g32"},
                                                    {"int4g128", "int4_g128"},
                                                    {"log4", "log:width=4"},
                                                    {"pot4", "log:width=4"},
                                                    {"fixed8", "fixed:width=8"},
                                                    {"fixed<8,4>", "fixed:width=8,frac_width=4"},
                                                    {"ap_fixed<8,4>", "fixed:width=8,frac_width=4"}};
  for (const auto& entry : names) {
    const std::string message = error_of([&] { static_cast<void>(make_format(entry.first, "")); });
    EXPECT_THAT(message,
                HasSubstr("unknown format \"" + entry.first + "\": did you mean \"" + entry.second + "\"?"));
    static_cast<void>(parse_quant_spec_text(entry.second));
  }
}

TEST(OtherNames, AreNotProposedWhereNothingIsMeant) {
  for (const char* name : {"posit8", "q", "8", "w8a8", "int4_g128x"})
    EXPECT_EQ(format_called(name), "") << name;
}

}  // namespace
}  // namespace detent
