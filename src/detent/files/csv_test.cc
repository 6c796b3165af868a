#include "detent/files/array_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor csv_tensor(const std::string& text) {
  const TemporaryPath path("table.csv");
  path.overwrite(text);
  return read_csv(path.get());
}

std::string csv_error(const std::string& text) {
  return detent::error_of([&] { csv_tensor(text); });
}

TEST(Csv, ReadsNumbersWithOrWithoutHeader) {
  for (const char* text :
       {"1,-2.5,3e2\n0.1,5,-0\n", "a,b,c\n1,-2.5,3e2\n0.1,5,-0", "x\r\n1, -2.5 ,3e2\r\n\r\n0.1,5,-0\r\n",
        "\xef\xbb\xbf"
        "1,-2.5,3e2\n0.1,5,-0\n"}) {
    const Tensor table = csv_tensor(text);
    EXPECT_EQ(table.shape(), (Shape{2, 3}));
    EXPECT_THAT(table.values<float>(), ElementsAre(1, -2.5F, 300, 0.1F, 5, 0)) << text;
  }
}

TEST(Csv, AFaultyFirstSampleIsNoHeader) {
  for (const char* field : {"nan", "inf", "", "0x10", "+0.5", "\"1", "a"})
    EXPECT_THAT(csv_error(std::string(field) + ",0.5,1\n1,2,3\n"), HasSubstr("line 1, column 1: got "))
        << field;
  EXPECT_THAT(csv_error("nan\n1\n"), HasSubstr("line 1, column 1: got \"nan\""));
}

TEST(Csv, WhatIsBelowFloat32IsItsNearestNumber) {
  const Tensor table = csv_tensor("1e-50,-1e-400,1e-45,0." + std::string(400, '0') + "1, 1e-60 \n");
  EXPECT_THAT(table.values<float>(), ElementsAre(0, 0, std::numeric_limits<float>::denorm_min(), 0, 0));
  EXPECT_TRUE(std::signbit(table.values<float>()[1]));
}

TEST(Csv, WhatIsNoNumberIsNamedByLineAndColumn) {
  EXPECT_THAT(csv_error("1,2\n3,x\n"),
              HasSubstr("table.csv, line 2, column 2: got \"x\", expected a finite"));
  EXPECT_THAT(csv_error("h,h\n1,2\n3,\n"), HasSubstr("line 3, column 2: got \"\""));
  EXPECT_THAT(csv_error("1,2\n,3\n"), HasSubstr("line 2, column 1: got \"\""));
  for (const char* value : {"nan", "inf", "1e99", "0x10", "1 2", "1;2"}) {
    EXPECT_THAT(csv_error(std::string("1\n") + value), HasSubstr("expected a finite number")) << value;
  }
  EXPECT_THAT(csv_error(std::string("1\n1\0", 4)), HasSubstr("got \"1\\u0000\", expected a finite number"));
  EXPECT_THAT(csv_error("1\n1;2"), HasSubstr("expected a finite number: commas separate fields"));
  EXPECT_THAT(csv_error("1,-4e38"),
              HasSubstr("got \"-4e38\", expected a finite number of float32, at most 3.4028"));
  EXPECT_THAT(csv_error("1,2\n3\n"), HasSubstr("line 2: got 1 fields, expected 2"));
  for (const char* text : {"", "\n\n", "a,b\n"})
    EXPECT_THAT(csv_error(text), HasSubstr("no line of numbers"));
}

}  // namespace
}  // namespace detent
