#include "detent/formats/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "detent/core/error_of_for_test.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string format_error(std::string_view text) {
  return detent::error_of([&] { parse_format(text); });
}

TEST(FormatNames, CanonicalOnesThenAliasesThenThoseOfIntegers) {
  EXPECT_THAT(format_names(),
              ElementsAre("fixed", "ternary", "binary", "affine", "minifloat_ieee", "minifloat_denorm", "log",
                          "binary_residual", "codebook", "scaled", "fp8_e4m3fn", "fp8_e5m2", "fp8_e4m3fnuz",
                          "fp8_e5m2fnuz", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "fp16", "bf16", "tf32",
                          "block_fp", "block_minifloat", "block_log", "mx", "nvfp4", "integer", "int8",
                          "uint8", "int4", "uint4", "int4_g128", "mx_e4m3", "codebook16"));
  EXPECT_THAT(format_aliases(), ElementsAre(testing::Pair("integer", "fixed")));
  for (const std::string& name : format_names()) EXPECT_NO_THROW(make_format(name, "test"));
  EXPECT_EQ(format_name(make_format("integer", "test")), "fixed");
}

// The kernels are tested with these: a format that is missing among them is tested nowhere.
TEST(FormatCases, NoFormatIsMissing) {
  std::set<std::string_view> tested;
  for (const char* text : kElementFormats) tested.insert(format_name(parse_format(text)));
  for (const char* text : kBlockFormats) tested.insert(format_name(parse_format(text)));
  for (const std::string& name : format_names())
    EXPECT_TRUE(tested.contains(format_name(make_format(name, "test")))) << name;
}

TEST(ParseFormat, ReadsKeysOfEveryType) {
  EXPECT_EQ(parse_format("fixed"), Format(Fixed{}));
  EXPECT_EQ(parse_format("integer : width = 4, signed=false"), Format(Fixed{.width = 4, .is_signed = false}));
  EXPECT_EQ(parse_format("fixed:frac_width=NA,rounding=floor"), Format(Fixed{.rounding = Rounding::kFloor}));
  EXPECT_EQ(parse_format("ternary:threshold=0.5"), Format(Ternary{.threshold = 0.5F}));
  EXPECT_EQ(parse_format("ternary:max=3"), Format(Ternary{.max = 3.0F}));
  EXPECT_EQ(parse_format("binary:scaling=per_channel"),
            Format(Binary{.scaling = BinaryScaling::kPerChannel}));
}

TEST(ParseFormat, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(format_error("fxied"), HasSubstr("did you mean \"fixed\"?"));
  EXPECT_THAT(format_error("fixed:widht=8"), HasSubstr("did you mean \"width\"?"));
  EXPECT_THAT(format_error("fixed:width=33"),
              HasSubstr("key \"width\": got 33, expected at least 1 and at most 32"));
  EXPECT_THAT(format_error("fixed:width=8,width=8"), HasSubstr("key \"width\" is given twice"));
  EXPECT_THAT(format_error("fixed:width"), HasSubstr("got \"width\", expected key=value"));
  EXPECT_THAT(format_error("fixed:width=8,,"), HasSubstr("expected key=value"));
  EXPECT_THAT(format_error("fixed:"), HasSubstr("expected key=value after the colon"));
  EXPECT_THAT(format_error(""), HasSubstr("expected name:key=value"));
  EXPECT_THAT(format_error("fixed:width=8x8"), HasSubstr("got [8, 8]"));
  EXPECT_THAT(format_error("fixed:width=4.5"), HasSubstr("expected integer"));
  EXPECT_THAT(format_error("fixed:rounding=ceil"), HasSubstr("known: nearest, floor"));
}

TEST(ParseFormat, NumbersAreFinite) {
  for (const std::string number : {"inf", "nan"}) {
    EXPECT_THAT(format_error("ternary:median=" + number),
                HasSubstr("key \"median\": got " + number + ", expected a finite number"));
  }
  EXPECT_THAT(format_error("ternary:max=1e300"),
              HasSubstr("key \"max\": got 1e+300, expected a magnitude of at most 3.4028235e+38"));
  EXPECT_EQ(format_error("ternary:max=3.4028235e38"), "");
}

TEST(ParseFormat, AThresholdThatIsNotAboveZeroNamesItsStatistic) {
  EXPECT_THAT(format_error("ternary:mean=0"), HasSubstr("key \"mean\": got 0.0"));
  EXPECT_THAT(format_error("ternary:median=0"),
              HasSubstr("collect abs_mean (key \"mean\") or range_min_max"));
  EXPECT_THAT(format_error("ternary:threshold=-1"), HasSubstr("threshold = -1.0, expected one above 0"));
  EXPECT_THAT(format_error("ternary:max=nan"), HasSubstr("key \"max\": got nan"));
  EXPECT_THAT(format_error("ternary:max=inf"), HasSubstr("finite"));
}

TEST(TextForm, ValuesReadBackAsTheyWere) {
  const Table keys = {
      {"list", List{1, 16}}, {"one", List{3}},      {"na", Value()}, {"yes", true}, {"i", -3}, {"f", 0.5},
      {"e", 1e30},           {"word", "per_tensor"}};
  const TextForm form = parse_text_form(text_form("name", keys), "test");
  EXPECT_EQ(form.name, "name");
  EXPECT_EQ(form.keys, keys);
}

TEST(FormatText, ShowsWhatDiffersFromTheDefaults) {
  EXPECT_EQ(format_text(Fixed{}), "fixed");
  EXPECT_EQ(format_text(Fixed{.width = 4, .frac_width = 2}), "fixed:width=4,frac_width=2");
  EXPECT_EQ(format_text(Ternary{.threshold = 0.1F}), "ternary:threshold=0.1");
  EXPECT_EQ(format_text(Binary{.bipolar = false}), "binary:bipolar=false");
}

RC_GTEST_PROP(FormatText, FixedReadsBack, ()) {
  Fixed format{.width = *rc::gen::inRange(1, 33)};
  if (*rc::gen::arbitrary<bool>()) format.frac_width = *rc::gen::inRange(-96, 97);
  format.is_signed = *rc::gen::arbitrary<bool>();
  format.rounding = *rc::gen::element(Rounding::kNearest, Rounding::kFloor);
  const bool is_read_again = parse_format(format_text(format)) == Format(format);
  RC_ASSERT(is_read_again);
}

RC_GTEST_PROP(FormatText, TernaryReadsBack, ()) {
  const auto bits = *rc::gen::inRange<uint32_t>(1, 0x7F000000);
  Ternary format{.scaling_factor = *rc::gen::arbitrary<bool>()};
  std::optional<float>* keys[] = {&format.threshold, &format.mean, &format.median, &format.max};
  *keys[*rc::gen::inRange(0, 4)] = std::bit_cast<float>(bits);
  const bool is_read_again = parse_format(format_text(format)) == Format(format);
  RC_ASSERT(is_read_again);
}

TEST(RepresentableValues, AscendingWithoutDuplicates) {
  EXPECT_THAT(representable_values(Fixed{.width = 2, .frac_width = 1}),
              ElementsAre(-1.0F, -0.5F, 0.0F, 0.5F));
  EXPECT_THAT(representable_values(Fixed{.width = 1, .frac_width = -2}), ElementsAre(-4.0F, 0.0F));
  EXPECT_THAT(representable_values(Ternary{}), ElementsAre(-1.0F, 0.0F, 1.0F));
  EXPECT_THAT(representable_values(Binary{}), ElementsAre(-1.0F, 1.0F));
  EXPECT_THAT(representable_values(Binary{.bipolar = false}), ElementsAre(0.0F, 1.0F));
  EXPECT_EQ(representable_values(Fixed{.width = 16, .is_signed = false}).size(), 65536U);
  EXPECT_THROW(representable_values(Fixed{.width = 17}), Error);
  EXPECT_THROW(representable_values(Ternary{.scaling_factor = true}), Error);
  EXPECT_THROW(representable_values(Binary{.scaling = BinaryScaling::kPerTensor}), Error);
}

#if defined(__x86_64__)
TEST(RepresentableValues, DoNotDependOnTheCallersFlushModes) {
  constexpr unsigned kFlushSubnormals = 0x8040;  // FTZ and DAZ
  const unsigned saved = _mm_getcsr();
  for (const char* text :
       {"log:width=9,exponent_bias=149", "minifloat_ieee:width=9,exponent_width=8,exponent_bias=150",
        "minifloat_denorm:width=9,exponent_width=2,exponent_bias=140", "affine:scale=1.5e-45",
        "codebook:values=-3e-45x-1.5e-45x0x1.5e-45x1", "binary_residual:gamma=1.5e-45x1"}) {
    const std::vector<float> expected = representable_values(parse_format(text));
    const std::string expected_text = format_text(parse_format(text));
    _mm_setcsr(saved | kFlushSubnormals);
    const Format format = parse_format(text);
    const std::vector<float> values = representable_values(format);
    const std::string got_text = format_text(format);
    _mm_setcsr(saved);
    EXPECT_EQ(values, expected) << text;
    EXPECT_EQ(got_text, expected_text);
  }
}
#endif

TEST(BitsPerValue, OfEachFormat) {
  EXPECT_EQ(bits_per_value(Fixed{.width = 5}), 5);
  EXPECT_EQ(bits_per_value(Ternary{}), 2);
  EXPECT_EQ(bits_per_value(Binary{}), 1);
}

}  // namespace
}  // namespace detent
