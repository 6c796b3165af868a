#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/cli/format_display.h"
#include "detent/cli/program_for_test.h"
#include "detent/files/file.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(FormatsCommand, ListsEveryFormat) {
  const ProgramResult result = run_program({"formats"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, formats_table().to_text());
  EXPECT_THAT(result.output, AllOf(HasSubstr("| fixed"), HasSubstr("integer"), HasSubstr("frac_width")));
}

TEST(FormatsCommand, TheDocumentationHoldsThisTable) {
  EXPECT_THAT(read_file(std::string(DETENT_SOURCE_DIR) + "/docs/formats.md"),
              HasSubstr(formats_table().to_text()))
      << "put the output of `detent formats` into docs/formats.md";
}

TEST(FormatsCommand, ShowsFieldsAndValues) {
  const std::string shown = run_program({"formats", "show", "fixed:width=3,frac_width=1"}).output;
  EXPECT_THAT(shown,
              AllOf(HasSubstr("bits a value: 3"), HasSubstr("values: 8"), HasSubstr("range: -2 to 1.5"),
                    HasSubstr("smallest step: 0.5"), HasSubstr("| frac_width"), HasSubstr("-0.5")));
  EXPECT_THAT(run_program({"formats", "show", "nvfp4"}).output,
              HasSubstr("bits a value: 4, and 8 a block\n"));
  EXPECT_THAT(run_program({"formats", "show", "integer"}).output, HasSubstr("2^-4      1 #"));
  EXPECT_THAT(run_program({"formats", "show", "fixed:width=20"}).output, HasSubstr("too many"));
  EXPECT_THAT(run_program({"formats", "show", "ternary:scaling_factor=true"}).output,
              HasSubstr("depend on the data"));
  for (const std::string& name : format_names()) {
    const ProgramResult result = run_program({"formats", "show", name});
    // A codebook has no values by default.
    EXPECT_TRUE(result.status == 0 || result.errors.find("key \"values\"") != std::string::npos) << name;
  }
}

TEST(FormatsCommand, NamesOfIntegerFormatsAreListedAndShown) {
  for (const char* name : {"int8", "uint8", "int4", "uint4", "int4_g128"}) {
    EXPECT_THAT(run_program({"list", "formats"}).output, HasSubstr(fmt::format("| {} ", name)));
    EXPECT_THAT(run_program({"formats"}).output, HasSubstr(fmt::format("| {} ", name)));
  }
  EXPECT_THAT(run_program({"formats", "show", "int8"}).output,
              AllOf(HasSubstr("affine:symmetric=true: an integer"), HasSubstr("bits a value: 8\n")));
  EXPECT_THAT(run_program({"formats", "show", "int4_g128"}).output,
              AllOf(HasSubstr("granularity=group,group_size=128: an integer"),
                    HasSubstr("bits a value: 4, and 32 a group of 128\n")));
  EXPECT_THAT(run_program({"formats", "show", "uint4:scale=0.5"}).output, HasSubstr("range: 0 to 7.5"));
  EXPECT_THAT(run_program({"formats", "show", "unit4"}).errors, HasSubstr("did you mean \"uint4\"?"));
}

TEST(FormatsCommand, WrongUsage) {
  EXPECT_THAT(run_program({"formats", "shwo"}).errors, HasSubstr("did you mean \"show\"?"));
  EXPECT_THAT(run_program({"formats", "show"}).errors, HasSubstr("needs a format"));
  EXPECT_THAT(run_program({"formats", "show", "fxied"}).errors, HasSubstr("did you mean \"fixed\"?"));
  EXPECT_EQ(run_program({"formats", "show", "fixed:width=33"}).status, 2);
}

TEST(SimdTarget, IsShownAndForced) {
  const std::string best = active_simd_target();
  for (const std::string& name : simd_targets()) {
    const ProgramResult result = run_program({"version", "--simd", "--simd-target", name});
    EXPECT_THAT(result.output, HasSubstr("instruction set " + name + "\n"));
  }
  EXPECT_THAT(run_program({"--simd-target=MMX", "version"}).errors, HasSubstr("unknown instruction set"));
  EXPECT_EQ(run_program({"version", "--simd-target"}).status, 2);
  setenv("DETENT_SIMD_TARGET", simd_targets().back().c_str(), 1);
  EXPECT_THAT(run_program({"version", "--simd"}).output,
              HasSubstr("instruction set " + simd_targets().back()));
  setenv("DETENT_SIMD_TARGET", "MMX", 1);
  EXPECT_EQ(run_program({"version"}).status, 1);
  unsetenv("DETENT_SIMD_TARGET");
  set_simd_target(best, "test");
}

}  // namespace
}  // namespace detent
