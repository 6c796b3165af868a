#include "detent/search/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Journal, RefusesLinesOfOtherNumbers) {
  const TemporaryPath file("evaluations.jsonl");
  file.overwrite("{\"key\": \"trial 1\", \"numbers\": [1, 2.5]}\n{\"key\": \"trial 2\", \"numbers\": []}\n");
  const Journal journal(file.get(), true, single_process());
  EXPECT_THAT(*journal.find("trial 1", 2), ElementsAre(1, 2.5));
  EXPECT_EQ(journal.find("trial 3", 2), nullptr);
  const std::string path = file.get().string();
  EXPECT_EQ(error_of([&] { journal.find("trial 1", 7); }), path + ": \"trial 1\": got 2 numbers, expected 7");
  EXPECT_EQ(error_of([&] { journal.with_prefix("trial ", 2); }),
            path + ": \"trial 2\": got 0 numbers, expected 2");
}

TEST(Journal, RefusesWhatIsNoNumber) {
  for (const char* number : {"\"nan\"", "\"a\"", "[]", "null"}) {
    const TemporaryPath file("evaluations.jsonl");
    file.overwrite(std::string("{\"key\": \"k\", \"numbers\": [") + number + "]}\n");
    EXPECT_THAT(error_of([&] { Journal(file.get(), true, single_process()); }),
                HasSubstr("expected a number"))
        << number;
  }
}

}  // namespace
}  // namespace detent
