#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "detent/cli/program_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// The cells of the rows of a table, without the padding.
std::string compact(std::string text) {
  std::erase(text, ' ');
  return text;
}

// The numbers are those of the behaviour specification, section 16, but for the tenth digit of the first
// scale: what stands there is no float32, and times 255 not the number in the line below it.
TEST(ExampleCommand, PerChannelActivationIsThePublishedOne) {
  const TemporaryPath picture_path("per_channel_activation.svg");
  const std::string path = picture_path.get().string();
  const ProgramResult result = run_program({"example", "per-channel-activation", "-o", path});
  ASSERT_EQ(result.status, 0) << result.errors;
  const std::string output = compact(result.output);
  for (const char* row : {
           "|scale|0.011764038354158401|0.011764097958803177|0.003921537194401026|0.003921478055417538|",
           "|scale*255|2.999829769|2.999845028|0.999992013|0.999976933|",
           "|to4digits|2.9998|2.9998|1.0000|1.0000|",
           "|highestinteger|255|85|85|255|",
           "|distinctintegers|256|86|86|",
           "|meansquarederror|1.164872e-05|1.146072e-05|1.158656e-05|1.156533e-05|",
           "|largesterror|0.005881786|0.005882025|0.005881965|",
           "|SQNR,dB|54.105|44.658|44.604|",
           "|sumofintegers|8360316|2793744|2790644|13944704|",
           "|highestinteger|255|255|255|",
           "|distinctintegers|256|256|256|",
           "|meansquarederror|1.164900e-05|1.278737e-06|1.281120e-06|4.736286e-06|",
           "|largesterror|0.005882025|0.001960695|0.001960754|",
           "|SQNR,dB|54.105|54.182|54.168|",
           "|sumofintegers|8360270|8380919|8371677|25112866|",
       }) {
    EXPECT_THAT(output, HasSubstr(row));
  }
  const std::string picture = read_file(path);
  EXPECT_TRUE(picture.starts_with("<?xml")) << picture.substr(0, 50);
  for (const char* label :
       {">channel 0<", ">channel 2<", ">per tensor<", ">per channel<", ">86 values<", ">256 values<"}) {
    EXPECT_THAT(picture, HasSubstr(label));
  }
}

TEST(ExampleCommand, PerChannelActivationOfTheRamp) {
  const TemporaryPath picture_path("ramp.svg");
  const std::string path = picture_path.get().string();
  const ProgramResult result = run_program({"example", "per-channel-activation", "--ramp", "-o", path});
  ASSERT_EQ(result.status, 0) << result.errors;
  const std::string output = compact(result.output);
  EXPECT_THAT(output, HasSubstr("|scale*255|2.999862671|"));
  EXPECT_THAT(output, HasSubstr("|2.9999084"));
  EXPECT_THAT(output, HasSubstr("|0.9999694"));
  EXPECT_THAT(output, HasSubstr("|meansquarederror|1.153297e-05|1.281441e-06|1.281441e-06|"));
  EXPECT_THAT(output, HasSubstr("|13926825|"));
  EXPECT_THAT(output, HasSubstr("|25067904|"));
}

TEST(ExampleCommand, WantsAKnownName) {
  EXPECT_EQ(run_program({"example"}).status, 2);
  const ProgramResult result = run_program({"example", "per-channel-activations"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("did you mean \"per-channel-activation\"?"));
  EXPECT_THAT(run_program({"example", "--help"}).output, HasSubstr("per-channel-activation"));
}

TEST(ExampleCommand, SaysWhereItCannotWrite) {
  const ProgramResult result = run_program({"example", "per-channel-activation", "-o", "/dev/null/a.svg"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("/dev/null"));
}

}  // namespace
}  // namespace detent
