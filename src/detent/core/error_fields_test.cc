#include "detent/core/error_fields.h"

#include <vector>

#include <gtest/gtest.h>

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

TEST(ErrorFields, LeaveFaultsOfTheCommandLineTheirExitCode) {
  EXPECT_THROW(about_file("x.mz", [] { throw UsageError("no such option"); }), UsageError);
}

}  // namespace
}  // namespace detent
