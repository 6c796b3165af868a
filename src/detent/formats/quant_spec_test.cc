#include "detent/formats/quant_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_quant_spec_text(text); });
}

TEST(QuantSpecText, RoundTrip) {
  for (const char* text :
       {"fixed", "fixed:width=4,frac_width=2,gradient=clipped",
        "ternary:scaling_factor=true,granularity=channel", "ternary:granularity=channel,axis=-1",
        "ternary:scaling_factor=true,mean=0.25,granularity=channel,axis=2", "binary:stochastic=true",
        "binary:scaling=per_channel", "binary:scaling=per_channel,axis=1",
        "binary:scaling=per_channel,granularity=channel,axis=1"}) {
    const QuantSpec spec = parse_quant_spec_text(text);
    EXPECT_EQ(quant_spec_text(spec), text);
    EXPECT_EQ(parse_quant_spec(format_name(spec.format), quant_spec_keys(spec), "test"), spec);
  }
}

TEST(ParseQuantSpec, KeysOfFormatAndSpecStandSideBySide) {
  const Table keys = {{"granularity", "channel"}, {"scaling_factor", true}, {"axis", 1}};
  const QuantSpec expected{
      .format = Ternary{.scaling_factor = true}, .granularity = Granularity::kChannel, .axis = 1};
  EXPECT_EQ(parse_quant_spec("ternary", keys, "test"), expected);
  EXPECT_EQ(parse_quant_spec("integer", {}, "test"), QuantSpec{});
}

TEST(ParseQuantSpec, ErrorsNameThePlaceAndTheKey) {
  const auto with = [](const Table& keys) {
    return error_of([&] { parse_quant_spec("fixed", keys, "a.toml: weight"); });
  };
  EXPECT_THAT(with({{"granularty", "tensor"}}), HasSubstr("did you mean \"granularity\"?"));
  EXPECT_THAT(with({{"frac_widht", 4}}), HasSubstr("did you mean \"frac_width\"?"));
  EXPECT_EQ(with({{"width", 0}}), "a.toml: weight: key \"width\": got 0, expected at least 1 and at most 32");
  EXPECT_THAT(with({{"gradient", "sharp"}}), HasSubstr("identity, clipped"));
}

TEST(Validate, RejectsCombinationsThatMakeNoSense) {
  EXPECT_THAT(parse_error("fixed:granularity=channel"),
              HasSubstr("fixed point derives nothing from the data"));
  EXPECT_THAT(parse_error("binary:granularity=channel"), HasSubstr("without scaling"));
  EXPECT_THAT(parse_error("binary:scaling=per_tensor,granularity=channel"), HasSubstr("says otherwise"));
  EXPECT_THAT(parse_error("ternary:axis=1"),
              HasSubstr("which only granularity = \"channel\" and \"group\" read"));
  EXPECT_THAT(error_of([] { validate(QuantSpec{.format = Fixed{.width = 40}}, "here"); }),
              HasSubstr("here: key \"width\": got 40"));
  EXPECT_THAT(error_of([] { validate(QuantSpec{.format = Ternary{.mean = 0.0F}}, "here"); }),
              HasSubstr("here: key \"mean\""));
}

TEST(StorageBits, CodesAndScales) {
  const auto bits = [](std::string_view text, const Shape& shape) {
    return storage_bits(parse_quant_spec_text(text), shape);
  };
  EXPECT_EQ(bits("fixed:width=5", {3, 7}), 105);
  EXPECT_EQ(bits("fixed", {0, 7}), 0);
  EXPECT_EQ(bits("ternary", {4, 6}), 48);
  EXPECT_EQ(bits("ternary:scaling_factor=true", {4, 6}), 48 + 32);
  EXPECT_EQ(bits("ternary:scaling_factor=true,granularity=channel,axis=-1", {4, 6}), 48 + 6 * 32);
  EXPECT_EQ(bits("binary:scaling=per_channel", {4, 6}), 24 + 4 * 32);
}

}  // namespace
}  // namespace detent
