#include "detent/search/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(SearchOptions, BytesAndTimesHaveUnits) {
  EXPECT_EQ(ByteCount::from_value("300k", "x").bytes, 300000);
  EXPECT_EQ(ByteCount::from_value("1.5M", "x").bytes, 1500000);
  EXPECT_EQ(ByteCount::from_value("64KiB", "x").bytes, 65536);
  EXPECT_EQ(ByteCount::from_value(1200, "x").bytes, 1200);
  EXPECT_DOUBLE_EQ(TimeSpan::from_value("10m", "x").seconds, 600);
  EXPECT_DOUBLE_EQ(TimeSpan::from_value("1h30m", "x").seconds, 5400);
  EXPECT_DOUBLE_EQ(TimeSpan::from_value("2ms", "x").seconds, 0.002);
  for (const char* wrong : {"", "k", "-3k", "3x", "3 k"})
    EXPECT_THAT(error_of([&] { ByteCount::from_value(wrong, "max_bytes"); }), HasSubstr("max_bytes: got "));
  for (const char* wrong : {"", "10", "-1s", "0s", "5parsecs"})
    EXPECT_THAT(error_of([&] { TimeSpan::from_value(wrong, "time"); }), HasSubstr("expected time"));
  EXPECT_EQ(TimeSpan::from_value(TimeSpan{90}.to_value(), "x"), TimeSpan{90});
}

TEST(SearchOptions, ChoicesAreTextOrTables) {
  const FormatChoices text = FormatChoices::from_value(
      "layer1.*:weight=int4|fixed:width=6,frac_width=3,linear:data_in=uint8|float", "choices");
  const FormatChoices expected{{{"layer1.*", "weight", {"int4", "fixed:width=6,frac_width=3"}},
                                {"linear", "data_in", {"uint8", "float"}}}};
  EXPECT_EQ(text, expected);
  EXPECT_EQ(FormatChoices::from_value(text.to_value(), "choices"), expected);
  const Table table{{"layer1.*", Table{{"weight", List{"int4", "fixed:width=6,frac_width=3"}}}},
                    {"linear", Table{{"data_in", List{"uint8", "float"}}}}};
  EXPECT_EQ(FormatChoices::from_value(table, "choices"), expected);
  EXPECT_THAT(error_of([] { FormatChoices::from_value("fc=int4", "choices"); }),
              HasSubstr("expected PATTERN:OPERAND=FORMAT|FORMAT"));
  EXPECT_THAT(error_of([] { FormatChoices::from_value("fc:wieght=int4", "choices"); }),
              HasSubstr("did you mean \"weight\""));
}

TEST(SearchOptions, SayWhatContradicts) {
  SearchOptions options;
  options.check("s");
  options.quality = QualityKind::kSqnr;
  options.max_drop = 1;
  EXPECT_THAT(error_of([&] { options.check("s"); }), HasSubstr("min_sqnr instead of max_drop"));
  options = {};
  options.weights.clear();
  EXPECT_THAT(error_of([&] { options.check("s"); }), HasSubstr("key \"weights\": got no formats"));
  options = {};
  options.weights = {"float", "int4", "zz"};
  EXPECT_THAT(error_of([&] { options.check("s"); }),
              HasSubstr("s: key \"weights\": quantization \"zz\": unknown format \"zz\" (known: float, "));
  options.weights = {"affine:width=0"};
  EXPECT_THAT(error_of([&] { options.check("s"); }),
              testing::EndsWith("key \"width\": got 0, expected at least 2 and at most 24"));
  options = {};
  options.activation_calibration.percentile = 99;
  EXPECT_THAT(error_of([&] { options.check("s"); }),
              HasSubstr("s: key \"percentile\": got 99, which only calibrator = \"percentile\" reads"));
  options.weight_calibrators = {Calibrator::kPercentile};
  options.check("s");
  options = {};
  options.strategy = "gided";
  EXPECT_THAT(error_of([&] { options.check("s"); }), HasSubstr("did you mean \"guided\""));
  options = {};
  options.improve = "static_quantize";
  EXPECT_THAT(error_of([&] { options.check("s"); }), HasSubstr("expected passes that choose better weights"));
}

}  // namespace
}  // namespace detent
