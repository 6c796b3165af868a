#include "detent/files/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/core/error.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Json, WritesBothLayouts) {
  const Table table = {{"z", 1},
                       {"a", List{1.0, -2, Value(), true}},
                       {"t", Table{{"x", "é\"\n"}, {"y", 1e-8}}},
                       {"e", List{Value(Table{}), Value(List{})}}};
  EXPECT_EQ(json_text(table, JsonLayout::kOneLine),
            R"({"z": 1, "a": [1.0, -2, null, true], "t": {"x": "é\"\n", "y": 1e-08}, "e": [{}, []]})");
  EXPECT_EQ(json_text(table),
            "{\n  \"z\": 1,\n  \"a\": [1.0, -2, null, true],\n  \"t\": {\"x\": \"é\\\"\\n\", \"y\": 1e-08},\n"
            "  \"e\": [\n    {},\n    []\n  ]\n}");
}

TEST(Json, KeepsOrderAndKinds) {
  const Value value = parse_json(R"({"b": 2, "a": 2.0, "c": [1e2, -0.0, "inf", "-inf"], "n": null})", "j");
  const Table& table = std::get<Table>(value.storage());
  EXPECT_EQ(table.keys(), (std::vector<std::string>{"b", "a", "c", "n"}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(table,
            (Table{{"b", 2}, {"a", 2.0}, {"c", List{100.0, -0.0, infinity, -infinity}}, {"n", Value()}}));
  EXPECT_TRUE(std::isnan(std::get<double>(parse_json("\"nan\"", "j").storage())));
}

TEST(Json, NamesErrors) {
  const auto message = [](std::string_view text, const char* expected) {
    EXPECT_THAT([&] { parse_json(text, "dir/a.json"); }, ThrowsMessage<Error>(HasSubstr(expected))) << text;
  };
  message("", "dir/a.json:1:1: ");
  message("{\n  \"a\": x}", "dir/a.json:2:8: syntax error");
  message("[1] 2", "dir/a.json:1:5: ");
  message("[1e999]", "dir/a.json:1:");
  message("\"\xff\"", "dir/a.json:1:");
  message("{\"a\": 1, \"a\": 2}", "dir/a.json: the key \"a\" occurs twice");
  message("9223372036854775808", "dir/a.json: the integer 9223372036854775808 does not fit");
  message("-99999999999999999999", "dir/a.json: the integer -99999999999999999999 does not fit");
  message(std::string(1'000'000, '['), "nested more than 128 deep");
  EXPECT_EQ(json_text("a\xff.npy"), "\"a\xef\xbf\xbd.npy\"");
  EXPECT_THAT([] { json_text("\xff", JsonLayout::kOneLine, InvalidText::kIsRefused); },
              ThrowsMessage<Error>(HasSubstr("not UTF-8")));
}

Value random_value(std::mt19937_64& random, int depth) {
  static constexpr const char* kTexts[] = {"", "a", "é\n\"\\", "NA", "1"};
  switch (random() % (depth > 0 ? 7 : 5)) {
    case 0:
      return {};
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random());
    case 3:
      return std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                        static_cast<int>(random() % 2000) - 1000);
    case 4:
      return kTexts[random() % std::size(kTexts)];
    case 5: {
      List list;
      for (auto i = random() % 4; i > 0; --i) list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      Table table;
      for (auto i = random() % 4; i > 0; --i) {
        table[kTexts[random() % std::size(kTexts)]] = random_value(random, depth - 1);
      }
      return table;
    }
  }
}

TEST(Json, RoundTripsRandomValues) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Value value = random_value(random, 4);
    for (const JsonLayout layout : {JsonLayout::kIndented, JsonLayout::kOneLine}) {
      const std::string text = json_text(value, layout);
      EXPECT_EQ(parse_json(text, "j"), value) << text;
    }
  }
}

TEST(Json, WritesAndReadsFiles) {
  const TemporaryPath path("a.json");
  const Value value = Table{{"a", List{1, 2}}};
  write_json(path.get(), value);
  EXPECT_EQ(read_json(path.get()), value);
  EXPECT_THROW(read_json(path.get().parent_path() / "absent.json"), Error);
}

TEST(Json, TextIsNoNumber) {
  const List values = {"inf", "-inf", "nan", "\\inf", "\\\\nan", "infinite", "\\x", HUGE_VAL, -HUGE_VAL};
  EXPECT_EQ(json_text(values, JsonLayout::kOneLine),
            R"(["\\inf", "\\-inf", "\\nan", "\\\\inf", "\\\\\\nan", "infinite", "\\x", "inf", "-inf"])");
  EXPECT_EQ(parse_json(json_text(values), "x"), Value(values));
  EXPECT_EQ(parse_json(R"({"inf": "\\inf"})", "x"), Value(Table{{"inf", "inf"}}));
}

}  // namespace
}  // namespace detent
