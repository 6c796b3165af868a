#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/cli/program_for_test.h"
#include "detent/datasets/published_data_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DataCommand, ListsWhatCanBeFetched) {
  const TemporaryPath root("data");
  const ProgramResult result = run_program({"data", "list", "--data-dir", root.get().string()});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("| mnist         | 11.6 MB"), HasSubstr("cifar100")));
  EXPECT_THAT(run_program({"data", "--help"}).output, HasSubstr("fetch"));
}

TEST(DataCommand, MistakesAreNamed) {
  const TemporaryPath root("data");
  const auto expect_failure = [&](std::vector<std::string> args, int status, const std::string& text) {
    args.insert(args.begin(), "data");
    const ProgramResult result = run_program(args);
    EXPECT_EQ(result.status, status);
    EXPECT_THAT(result.errors, HasSubstr(text));
  };
  expect_failure({}, 2, "a command is missing (known: ");
  expect_failure({"images/"}, 2, "`detent data <command> [arguments]`");
  expect_failure({"fetsch"}, 2, "did you mean \"fetch\"?");
  expect_failure({"fetch"}, 2, "name");
  expect_failure({"fetch", "mnist", "--attempts", "0"}, 2, "--attempts");
  expect_failure({"fetch", "imagenet", "--data-dir", root.get().string()}, 1, "unknown data set to fetch");
  expect_failure({"fetch", "mnist", "--data-dir", root.get().string(), "--from", "/missing"}, 1,
                 "cannot copy /missing/train-images-idx3-ubyte.gz");
}

TEST(DataCommand, FetchesPublishedMnistFromAFolder) {
  const auto published =
      published_data({"mnist/train-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"});
  if (!published) GTEST_SKIP() << "no mnist/train-images-idx3-ubyte.gz in $DETENT_DATA or ../shared/data";
  const TemporaryPath root("data");
  const std::vector<std::string> args = {
      "data", "fetch", "mnist", "--data-dir", root.get().string(), "--from", (*published / "mnist").string()};
  const ProgramResult first = run_program(args);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_EQ(first.output, "mnist: fetched to " + (root.get() / "mnist").string() + "\n");
  EXPECT_EQ(run_program(args).output, "mnist: is complete in " + (root.get() / "mnist").string() + "\n");
  EXPECT_THAT(run_program({"data", "list", "--data-dir", root.get().string()}).output, HasSubstr("complete"));
}

}  // namespace
}  // namespace detent
