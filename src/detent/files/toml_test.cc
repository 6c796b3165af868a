#include "detent/files/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Value& at(const Table& table, std::string_view key) {
  const Value* value = table.find(key);
  if (value == nullptr) throw std::out_of_range(std::string(key));
  return *value;
}

template <class T>
const T& value_at(const Table& table, std::string_view key) {
  return std::get<T>(at(table, key).storage());
}

const std::string kData = DETENT_SOURCE_DIR "/tests/data/";

TEST(Toml, WritesPublishedMetadataByteForByte) {
  const std::string published = read_file(kData + "stats_for_quantisation.toml");
  const Table table = parse_toml(published, "stats");
  EXPECT_EQ(toml_text(table, TomlLayout::kBreadthFirst), published);
  EXPECT_THAT(table.keys(), ElementsAre("x", "size", "view", "seq_blocks_0", "seq_blocks_1", "seq_blocks_2",
                                        "seq_blocks_3", "seq_blocks_4", "output"));
}

TEST(Toml, WritesPublishedConfigurationByteForByte) {
  const std::string published = read_file(kData + "published_toy_ternary_scaled.toml");
  EXPECT_EQ(toml_text(parse_toml(published, "config")), published);
}

TEST(Toml, KeepsFileOrderOfImplicitAndDottedTables) {
  const Table table =
      parse_toml("z.y.x = 1\nz.a = 2\nb = 3\n[m.k]\n[a]\n[m]\nc = { q = 1, p = 2 }\n[m.j]\n", "t");
  EXPECT_THAT(table.keys(), ElementsAre("z", "b", "m", "a"));
  EXPECT_THAT(value_at<Table>(table, "z").keys(), ElementsAre("y", "a"));
  EXPECT_THAT(value_at<Table>(table, "m").keys(), ElementsAre("k", "c", "j"));
  EXPECT_THAT(value_at<Table>(value_at<Table>(table, "m"), "c").keys(), ElementsAre("q", "p"));
}

TEST(Toml, NotesLinesAndNotAvailable) {
  const Table table = parse_toml("a = 1\nb = [\n  \"NA\",\n  2]\n\n[t]\nc = \"None\"\n", "t");
  EXPECT_EQ(at(table, "b").line(), 2);
  const List& list = value_at<List>(table, "b");
  EXPECT_TRUE(list[0].is_na());
  EXPECT_EQ(list[1].line(), 4);
  const Table& nested = value_at<Table>(table, "t");
  EXPECT_TRUE(at(nested, "c").is_na());
  EXPECT_EQ(at(nested, "c").line(), 7);
}

TEST(Toml, NamesOfFilesThatAreNoUtf8CanBeReadAgain) {
  const Table table = parse_toml(toml_text({{"labels", "a\xff.csv"}}), "settings");
  EXPECT_EQ(value_at<std::string>(table, "labels"), "a\xef\xbf\xbd.csv");
}

TEST(Toml, FilesMayBeginWithTheMarkOfUtf8) {
  const TemporaryPath path("marked.toml");
  path.overwrite(
      "\xef\xbb\xbf"
      "a.b = 1\n");
  EXPECT_EQ(*read_toml(path.get()).table("a").find("b"), Value(1));
  path.overwrite(
      std::string("\xff\xfe"
                  "a\0",
                  4));
  EXPECT_THAT([&] { read_toml(path.get()); }, ThrowsMessage<Error>(HasSubstr("it is UTF-16")));
}

TEST(Toml, ReadsListsOfTablesAndWritesThemInline) {
  const Table table = parse_toml("[[p]]\nname = 'a'\n[[p]]\nx = [1, \"b\", {y = 2.5}]\n", "t");
  const std::string expected = "p = [{ name = \"a\" }, { x = [1, \"b\", { y = 2.5 }] }]\n";
  EXPECT_EQ(toml_text(table), expected);
  EXPECT_EQ(parse_toml(expected, "t"), table);
}

TEST(Toml, NamesThePositionOfErrors) {
  const auto message = [](std::string_view text, const char* expected) {
    EXPECT_THAT([&] { parse_toml(text, "dir/a.toml"); }, ThrowsMessage<Error>(HasSubstr(expected))) << text;
  };
  message("a = 1\nb = = 2\n", "dir/a.toml:2:5: ");
  message("a = 1\na = 2\n", "dir/a.toml:2:");
  message("a = 9223372036854775808\n", "dir/a.toml:1:");
  message("a = 1\nb = [1979-05-27]\n", "dir/a.toml:2:6: dates and times");
  message("a = \"x\n", "dir/a.toml:1:");
  message("a = \"\xff\"\n", "dir/a.toml:1:");
}

TEST(Toml, BoundsNesting) {
  std::string dotted = "\n[a";
  for (int i = 0; i < 1'000'000; ++i) dotted += ".a";
  EXPECT_THAT([&] { parse_toml(dotted + "]\n", "t"); },
              ThrowsMessage<Error>(HasSubstr("t:2: a key has more")));
  EXPECT_THROW(parse_toml("a = " + std::string(1'000'000, '['), "t"), Error);
  const std::string lists = "a = " + std::string(130, '[') + std::string(130, ']');
  EXPECT_THAT([&] { parse_toml(lists, "t"); }, ThrowsMessage<Error>(HasSubstr("nested more than 128 deep")));
  const std::string dots(1000, '.');
  const Table quoted =
      parse_toml("a = \"\"\"" + dots + "\\\"\"\"\"\"\" # " + dots + "\n'" + dots + "' = 1\n", "t");
  EXPECT_EQ(value_at<std::string>(quoted, "a"), dots + "\"\"\"");
}

TEST(Toml, WritesEmptyTablesAndOddKeys) {
  const Table table = {{"", 1}, {"a.b", 2}, {"e", Table{}}, {"f", Table{{"g", Table{}}}}, {"l", List{}}};
  EXPECT_EQ(toml_text(table), "\"\" = 1\n\"a.b\" = 2\nl = []\n\n[e]\n\n[f.g]\n");
  EXPECT_EQ(toml_text(Table{}), "");
  EXPECT_EQ(toml_text(Table{{"a", 1e-8}, {"b", 1e16}}, TomlLayout::kBreadthFirst), "a = 1e-8\nb = 1e+16\n");
}

/// Random trees in which scalars precede tables, as every written file has it.
class RandomTree {
 public:
  explicit RandomTree(unsigned seed) : random_(seed) {}

  Table table(int depth) {
    Table result;
    for (int i = below(5); i > 0; --i) result[key()] = scalar(depth);
    for (int i = depth == 0 ? 0 : below(4); i > 0; --i) {
      const std::string name = key();
      if (!result.contains(name)) result[name] = table(depth - 1);
    }
    return result;
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  std::string text() {
    static constexpr std::string_view kPieces[] = {"a",  "Z",  "0",  "_",    "-",    ".", " ", "\"", "'",
                                                   "\\", "\n", "\t", "\x01", "\x7f", "#", "=", "é",  "]"};
    std::string result;
    for (int i = below(6); i > 0; --i) result += kPieces[static_cast<size_t>(below(std::size(kPieces)))];
    return result;
  }
  std::string key() { return text(); }

  Value scalar(int depth) {
    switch (below(depth > 0 ? 7 : 5)) {
      case 0:
        return Value();
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<int64_t>(random_()) * (below(2) == 0 ? 1 : -1);
      case 3: {
        const double infinity = std::numeric_limits<double>::infinity();
        return below(8) == 0
                   ? (below(2) == 0 ? infinity : -infinity)
                   : std::ldexp(static_cast<double>(static_cast<int64_t>(random_())), below(400) - 200);
      }
      case 4:
        return text();
      case 5:
        return List{scalar(depth - 1), scalar(depth - 1)};
      default:
        return List{Value(table(1)), scalar(depth - 1)};
    }
  }

  std::mt19937_64 random_;
};

/// Equal but for the order of keys.
bool same_values(const Table& a, const Table& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a) {
    const Value* other = b.find(key);
    if (other == nullptr) return false;
    const Table* table = value.get_if<Table>();
    const bool same = table == nullptr ? value == *other
                                       : other->is<Table>() && same_values(*table, *other->get_if<Table>());
    if (!same) return false;
  }
  return true;
}

TEST(Toml, RoundTripsRandomTrees) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Table table = RandomTree(seed).table(4);
    const std::string text = toml_text(table);
    EXPECT_EQ(parse_toml(text, "t"), table) << text;
    const std::string breadth = toml_text(table, TomlLayout::kBreadthFirst);
    EXPECT_TRUE(same_values(parse_toml(breadth, "t"), table)) << breadth;
  }
}

TEST(Toml, SurvivesMutations) {
  const std::string original = read_file(kData + "stats_for_quantisation.toml").substr(0, 700);
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = original.substr(0, random() % original.size() + 1);
    for (unsigned j = random() % 4; j > 0; --j) text[random() % text.size()] = static_cast<char>(random());
    try {
      parse_toml(text, "t");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace detent
