#include "detent/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Json, RoundTripsEveryKindInOrder) {
  const std::string text =
      R"({"z":null,"a":[1,-2.5,true,[]],"text":"q\"é\n","big":9223372036854775807,"small":1e-08,"one":1.0,"t":{}})";
  const Value value = parse_json(text, "x.json");
  EXPECT_EQ(json_text(value), text);
  EXPECT_EQ(parse_json(json_text(value, 2), "x.json"), value);
  EXPECT_TRUE(value.get_if<Table>()->find("one")->is<double>());
  EXPECT_TRUE(value.get_if<Table>()->find("z")->is_na());
}

TEST(Json, IndentsByLevel) {
  EXPECT_EQ(json_text(parse_json(R"({"a":[1],"b":{}})", "x"), 2),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
}

TEST(Json, WritesWhatJsonLacksAsText) {
  EXPECT_EQ(json_text(std::numeric_limits<double>::infinity()), "\"inf\"");
  EXPECT_EQ(json_text(std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
  EXPECT_EQ(json_text("\xff"), "\"\xEF\xBF\xBD\"");
}

TEST(Json, NamesTheFileAndTheFault) {
  const auto expect_error = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { parse_json(text, "x.json"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("x.json: "), HasSubstr(message))))
        << text;
  };
  expect_error("", "not JSON");
  expect_error("{\"a\":1", "not JSON");
  expect_error("1 2", "not JSON");
  expect_error(R"({"a":1,"a":2})", "key \"a\" occurs twice");
  expect_error("9223372036854775808", "does not fit 64 bits");
  expect_error("-92233720368547758080", "does not fit 64 bits");
  expect_error("1e999", "not JSON");
  expect_error(std::string(100000, '['), "nested deeper than 128");
}

}  // namespace
}  // namespace detent
