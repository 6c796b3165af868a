#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "detent/core/error_of_for_test.h"
#include "detent/core/fields.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/progress.h"
#include "detent/core/tensor.h"
#include "detent/core/text_table.h"
#include "detent/core/value.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(NearestName, FindsMisspellingsAndNothingElse) {
  const std::vector<std::string> names = {"toy", "toy_tiny", "mnist_cnn"};
  EXPECT_EQ(nearest_name("toy-tiny", names), "toy_tiny");
  EXPECT_EQ(nearest_name("mnits_cnn", names), "mnist_cnn");
  EXPECT_EQ(nearest_name("TOY", names), "toy");
  EXPECT_EQ(nearest_name("gptqq", std::vector<std::string>{"gptaq", "gptq"}), "gptq");
  EXPECT_EQ(nearest_name("resnet50", names), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), names), "");
  EXPECT_THAT(unknown_name_message("model", "toi", names), HasSubstr("did you mean \"toy\"?"));
}

TEST(Error, EscapesWhatNamesOfFilesMayHold) {
  const std::string name("a\0b\x1b[2J\xff", 8);
  EXPECT_STREQ(Error("node \"" + name + "\"").what(), "node \"a\\u0000b\\u001b[2J\\xff\"");
  EXPECT_STREQ(UsageError("got " + name).what(), "got a\\u0000b\\u001b[2J\\xff");
  EXPECT_EQ(error_of([&] { fail("{}: got {}", "file", name); }), "file: got a\\u0000b\\u001b[2J\\xff");
  EXPECT_STREQ(Error("two\nlines of \xc3\xa9").what(), "two\nlines of \xc3\xa9");
  try {
    DETENT_CHECK(false, "name {}", name);
  } catch (const CheckFailure& failure) {
    EXPECT_THAT(failure.what(), testing::EndsWith("name a\\u0000b\\u001b[2J\\xff"));
  }
}

TEST(Tensor, CountsElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({int64_t{1} << 40, 0, int64_t{1} << 40}), 0);
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(element_count({2, -1}), Error);
}

template <class Bits>
Tensor repeated(DType dtype, Bits bits, Bits last) {
  constexpr int64_t kSize = 70'001;  // for several threads
  Tensor tensor(dtype, {kSize});
  const std::span<Bits> elements(reinterpret_cast<Bits*>(tensor.bytes().data()), kSize);
  std::ranges::fill(elements, bits);
  elements.back() = last;
  return tensor;
}

TEST(Tensor, IsFiniteWithoutNanAndInfinity) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(repeated(DType::kFloat32, -kLargest, kLargest).is_finite());
  EXPECT_FALSE(repeated(DType::kFloat32, 1.0F, -kInfinity).is_finite());
  EXPECT_FALSE(repeated(DType::kFloat32, 1.0F, std::nanf("")).is_finite());
  EXPECT_TRUE(repeated(DType::kFloat64, 1e300, -1e308).is_finite());
  EXPECT_FALSE(repeated(DType::kFloat64, 1.0, -std::nan("")).is_finite());
  EXPECT_TRUE(Tensor(DType::kFloat32, {0}).is_finite());
  EXPECT_TRUE(repeated<uint8_t>(DType::kInt8, 0x7f, 0xff).is_finite());
}

/// The largest number of the format and the one after it, which is NaN or infinity.
TEST(Tensor, IsFiniteInNarrowFloats) {
  const auto check = []<class Bits>(DType dtype, Bits largest) {
    const Bits sign = static_cast<Bits>(~(std::numeric_limits<Bits>::max() / 2));
    const Bits negative = static_cast<Bits>(sign | largest);
    EXPECT_TRUE(repeated(dtype, largest, negative).is_finite()) << dtype_name(dtype);
    EXPECT_FALSE(repeated(dtype, largest, static_cast<Bits>(largest + 1)).is_finite()) << dtype_name(dtype);
    EXPECT_FALSE(repeated(dtype, largest, static_cast<Bits>(negative + 1)).is_finite()) << dtype_name(dtype);
  };
  check(DType::kFloat16, uint16_t{0x7bff});
  check(DType::kBFloat16, uint16_t{0x7f7f});
  check(DType::kFloat8E5M2, uint8_t{0x7b});
  check(DType::kFloat8E4M3, uint8_t{0x7e});
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor tensor = Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  Tensor shared = tensor;
  Tensor clone = tensor.clone();
  shared.values<float>()[0] = 9;
  EXPECT_EQ(tensor.values<float>()[0], 9);
  EXPECT_EQ(clone.values<float>()[0], 1);
  EXPECT_FALSE(clone.equals(tensor));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes().data()) % 64, 0U);
}

TEST(Tensor, RowsAndReshapeShareStorage) {
  const Tensor tensor = Tensor::from<int32_t>({3, 2}, std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  EXPECT_EQ(tensor.rows(1, 3).values<int32_t>()[0], 2);
  EXPECT_EQ(tensor.rows(1, 1).numel(), 0);
  EXPECT_EQ(tensor.reshaped({6}).dim(-1), 6);
  EXPECT_THROW(tensor.reshaped({5}), CheckFailure);
  EXPECT_THROW(tensor.rows(2, 4), CheckFailure);
  EXPECT_THROW(static_cast<void>(tensor.values<float>()), CheckFailure);
}

TEST(ParallelFor, CoversTheRangeOnceAtFixedCuts) {
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    std::vector<std::atomic<int>> visits(1003);
    parallel_for(1003, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      EXPECT_LE(end - begin, 10);
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelFor, RethrowsTheFirstException) {
  set_thread_count(4);
  EXPECT_THROW(parallel_for(100, 1,
                            [](int64_t begin, int64_t) {
                              if (begin == 37) fail("row 37");
                            }),
               Error);
}

TEST(ParallelFor, CallsFromInsideRunOnTheSameThread) {
  set_thread_count(3);
  std::atomic<int64_t> covered = 0;
  std::atomic<int64_t> elsewhere = 0;
  parallel_for(100, 7, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(in_parallel_for());
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(end - begin, 1, [&](int64_t, int64_t) {
      ++covered;
      elsewhere += std::this_thread::get_id() == here ? 0 : 1;
    });
  });
  EXPECT_FALSE(in_parallel_for());
  EXPECT_EQ(covered, 100);
  EXPECT_EQ(elsewhere, 0);
}

TEST(Value, KeepsOrderAndPrints) {
  Table table = {{"b", 1}, {"a", List{Value(1.0), Value("x"), Value()}}};
  table.table("nested")["on"] = true;
  EXPECT_EQ(value_text(table), R"({b = 1, a = [1.0, "x", NA], nested = {on = true}})");
  EXPECT_THAT(table.keys(), testing::ElementsAre("b", "a", "nested"));
  EXPECT_TRUE(table.erase("b"));
  EXPECT_FALSE(table.contains("b"));
}

TEST(Value, LargeTablesKeepOrderAndFindKeysAfterEveryChange) {
  Table table;
  const int64_t count = 100'000;  // minutes, if look-up took linear time
  for (int64_t i = 0; i < count; ++i) table["key" + std::to_string(i)] = i;
  Table copy = table;
  ASSERT_TRUE(copy.erase("key40"));
  EXPECT_FALSE(copy.erase("key40"));
  EXPECT_FALSE(copy.contains("key40"));
  copy["key40"] = 0;
  const Table moved = std::move(copy);
  EXPECT_EQ(moved.size(), table.size());
  EXPECT_EQ(moved.keys().back(), "key40");
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(*table.find("key" + std::to_string(i))->get_if<int64_t>(), i);
    ASSERT_EQ(*moved.find("key" + std::to_string(i))->get_if<int64_t>(), i == 40 ? 0 : i);
  }
  EXPECT_EQ(table.find("key"), nullptr);
  const Table small = {{"a", 1}};
  table = small;
  EXPECT_EQ(table, small);
  EXPECT_FALSE(table.contains("key1"));
}

TEST(Value, FloatsReadBackAndLookLikeFloats) {
  EXPECT_EQ(float_text(2), "2.0");
  EXPECT_EQ(float_text(0.0833507776260376), "0.0833507776260376");
  EXPECT_EQ(float_text(1e-8), "1e-08");
  EXPECT_EQ(float_text(1e300), "1e+300");
}

enum class Colour { kRed, kGreen };
constexpr std::array<const char*, 2> enum_names(Colour) { return {"red", "green"}; }

struct Sample {
  int width = 8;
  std::optional<double> ratio;
  Colour colour = Colour::kRed;
  std::vector<int64_t> sizes = {1};

  static constexpr std::array kFormerNames = {FormerName{"bits", "width"}};
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits", Between{1, 32});
    visit("ratio", self.ratio, "a ratio");
    visit("colour", self.colour, "a colour");
    visit("sizes", self.sizes, "sizes");
  }
};

std::string fields_error(const Table& table) {
  Sample sample;
  return detent::error_of([&] { read_fields(sample, table, "file.toml, [a]"); });
}

TEST(Fields, RoundTrip) {
  Sample sample;
  read_fields(sample, {{"colour", "green"}, {"ratio", 2}, {"sizes", 3}}, "test");
  EXPECT_EQ(sample.colour, Colour::kGreen);
  EXPECT_EQ(sample.ratio, 2.0);
  EXPECT_EQ(sample.sizes, std::vector<int64_t>{3});
  Sample again;
  read_fields(again, write_fields(sample), "test");
  EXPECT_EQ(write_fields(again), write_fields(sample));
  EXPECT_EQ(value_text(write_changed_fields(sample)), R"({ratio = 2.0, colour = "green", sizes = [3]})");
}

TEST(Fields, SayWhatIsWrong) {
  EXPECT_EQ(
      fields_error({{"widht", 3}}),
      "file.toml, [a]: unknown key \"widht\": did you mean \"width\"? (known: width, ratio, colour, sizes)");
  EXPECT_EQ(fields_error({{"width", 33}}),
            "file.toml, [a]: key \"width\": got 33, expected at least 1 and at most 32");
  EXPECT_EQ(fields_error({{"width", "8"}}),
            "file.toml, [a]: key \"width\": got \"8\" (a string), expected integer");
  EXPECT_EQ(fields_error({{"width", 2.5}}),
            "file.toml, [a]: key \"width\": got 2.5 (a float), expected integer");
  EXPECT_THAT(fields_error({{"colour", "gren"}}), HasSubstr("did you mean \"green\"?"));
  EXPECT_EQ(fields_error({{"ratio", Value()}}), "");
  EXPECT_EQ(fields_error({{"ratio", HUGE_VAL}}),
            "file.toml, [a]: key \"ratio\": got inf, expected a finite number");
  EXPECT_EQ(fields_error({{"ratio", std::nan("")}}),
            "file.toml, [a]: key \"ratio\": got nan, expected a finite number");
  EXPECT_THAT(fields_error({{"width", Value()}}), HasSubstr("got NA"));
}

TEST(Fields, FormerNamesAreReadWithAWarning) {
  Sample sample;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  read_fields(sample, {{"bits", 4}}, "file.toml, [a]");
  spdlog::default_logger()->flush();
  const std::string log = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_EQ(sample.width, 4);
  EXPECT_THAT(log, HasSubstr("the key \"bits\" is now called \"width\""));
  EXPECT_EQ(fields_error({{"bits", 33}}),
            "file.toml, [a]: key \"bits\": got 33, expected at least 1 and at most 32");
  EXPECT_EQ(fields_error({{"bits", 4}, {"width", 4}}),
            "file.toml, [a]: got \"bits\" and \"width\", which are the same");
  EXPECT_EQ(describe_fields<Sample>().front().former_names, std::vector<std::string>{"bits"});
}

TEST(Log, FormatsOnlyWhatItsLevelShows) {
  const auto level = spdlog::default_logger()->level();
  spdlog::default_logger()->set_level(spdlog::level::warn);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log_info("{} samples", 1);
  log_warning("{} of {} samples", 2, "three");
  spdlog::default_logger()->flush();
  const std::string log = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  spdlog::default_logger()->set_level(level);
  EXPECT_THAT(log, HasSubstr("2 of three samples"));
  EXPECT_THAT(log, Not(HasSubstr("1 samples")));
}

TEST(TextTable, AlignsNumbersAndQuotesCsv) {
  TextTable table({"name", "n"});
  table.add_row({"a,b", "1"});
  table.add_row({"c", "10.5"});
  EXPECT_EQ(table.to_text(),
            "| name |    n |\n"
            "|------|-----:|\n"
            "| a,b  |    1 |\n"
            "| c    | 10.5 |\n");
  EXPECT_EQ(table.to_csv(), "name,n\n\"a,b\",1\nc,10.5\n");
  EXPECT_THROW(table.add_row({"x"}), CheckFailure);
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(7.2), "0:07");
  EXPECT_EQ(duration_text(123), "2:03");
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

}  // namespace
}  // namespace detent
