#include "detent/core/error_fields.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "detent/core/fields.h"

namespace detent {
namespace {

ErrorFields caught(const auto& action) {
  try {
    action();
  } catch (const DetailedError& error) {
    return error.fields();
  }
  ADD_FAILURE() << "no DetailedError";
  return {};
}

TEST(ErrorFields, AreBesideTheTextThatIsMadeOfThem) {
  try {
    fail_value("net.toml: key \"width\"", "40", "1 to 32", {.key = "width"}, " (an integer)");
  } catch (const DetailedError& error) {
    EXPECT_STREQ(error.what(), "net.toml: key \"width\": got 40 (an integer), expected 1 to 32");
    EXPECT_EQ(error.fields(), (ErrorFields{.key = "width", .got = "40", .allowed = "1 to 32"}));
  }
  const std::vector<std::string> known = {"gptq", "gptaq"};
  EXPECT_EQ(caught([&] { fail_unknown("", "pass", "gptqq", known); }),
            (ErrorFields{.got = "gptqq", .allowed = "gptq, gptaq"}));
}

TEST(ErrorFields, AreThoseOfWhereTheFaultIsNearest) {
  const auto inner = [] { throw DetailedError("at n", {.node = "n", .key = "inner"}); };
  const auto fields = caught([&] { about_file("x.mz", [&] { about_key("outer", inner); }); });
  EXPECT_EQ(fields, (ErrorFields{.file = "x.mz", .node = "n", .key = "inner"}));
  EXPECT_EQ(caught([] { about_key("seed", [] { fail("no such {}", "seed"); }); }),
            (ErrorFields{.key = "seed"}));
  EXPECT_EQ(fields_of(Error("plain")), ErrorFields());
}

enum class Shade { kLight, kDark };
constexpr std::array<const char*, 2> enum_names(Shade) { return {"light", "dark"}; }

struct Options {
  int width = 8;
  double share = 0.5;
  Shade shade = Shade::kLight;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "", Between{1, 32});
    visit("share", self.share, "", Between{0});
    visit("shade", self.shade, "");
  }
};

TEST(ErrorFields, OfOptionsNameKeyValueAndWhatIsAllowed) {
  const auto fault = [](const char* key, const Value& value) {
    return caught([&] {
      Options options;
      read_fields(options, {{key, value}}, "net.toml");
    });
  };
  EXPECT_EQ(fault("width", 40),
            (ErrorFields{.key = "width", .got = "40", .allowed = "at least 1 and at most 32"}));
  EXPECT_EQ(fault("width", "wide"), (ErrorFields{.key = "width", .got = "\"wide\"", .allowed = "integer"}));
  EXPECT_EQ(fault("share", std::nan("")),
            (ErrorFields{.key = "share", .got = "nan", .allowed = "a finite number at least 0"}));
  EXPECT_EQ(fault("shade", "dim"), (ErrorFields{.key = "shade", .got = "dim", .allowed = "light, dark"}));
  EXPECT_EQ(fault("depth", 1),
            (ErrorFields{.key = "depth", .got = "depth", .allowed = "width, share, shade"}));
}

TEST(ErrorFields, LeaveFaultsOfTheCommandLineTheirExitCode) {
  EXPECT_THROW(about_file("x.mz", [] { throw UsageError("no such option"); }), UsageError);
}

}  // namespace
}  // namespace detent
