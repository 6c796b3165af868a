#include "detent/datasets/sample_readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"

#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kPlane = size_t{32} * 32;

/// A record whose planes are all `red`, `green` and `blue`.
std::string record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(kPlane, red) + std::string(kPlane, green) + std::string(kPlane, blue);
}

std::string cifar_error(const std::filesystem::path& path, const CifarLayout& layout) {
  return detent::error_of([&] { read_cifar(std::vector{path}, layout); });
}

TEST(Cifar, JoinsTheRecordsOfAllFiles) {
  const TemporaryPath first("first.bin");
  const TemporaryPath second("second.bin");
  write_file(first.get(), record("\3", 1, 2, 3) + record("\7", 4, 5, 6));
  write_file(second.get(), record("\1", 7, 8, 9) + record("\2", 10, 11, 12));
  const CifarImages read =
      read_cifar(std::vector<std::filesystem::path>{first.get(), second.get()}, {2, {10}});
  EXPECT_THAT(read.labels, ElementsAre(3, 7, 1, 2));
  EXPECT_EQ(read.images.shape(), (Shape{4, 3, 32, 32}));
  const auto pixels = read.images.values<uint8_t>();
  for (size_t plane = 0; plane < 12; ++plane) {
    EXPECT_EQ(pixels[plane * kPlane], plane + 1);
    EXPECT_EQ(pixels[(plane + 1) * kPlane - 1], plane + 1);
  }
}

TEST(Cifar, TheLastLabelByteIsTheClass) {
  const TemporaryPath path("test.bin");
  write_file(path.get(), record("\x13\x63", 0, 0, 0));
  EXPECT_THAT(read_cifar(std::vector<std::filesystem::path>{path.get()}, {1, {20, 100}}).labels,
              ElementsAre(99));
}

TEST(Cifar, OtherSizesAndLabelsAreErrors) {
  const TemporaryPath path("test.bin");
  const std::string two = record("\3", 1, 2, 3) + record("\7", 4, 5, 6);
  const CifarLayout layout = {2, {10}};
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3073}, two.size() - 1}) {
    write_file(path.get(), two.substr(0, size));
    EXPECT_THAT(cifar_error(path.get(), layout),
                AllOf(HasSubstr(path.get().string()), HasSubstr(fmt::format("has {} bytes", size)),
                      HasSubstr("expected 6146 (2 records of 3073 bytes)"), HasSubstr("truncated")));
  }
  write_file(path.get(), two + "x");
  EXPECT_THAT(cifar_error(path.get(), layout),
              AllOf(HasSubstr("has 6147 bytes"), HasSubstr("the file is of another kind")));
  write_file(path.get(), two);
  EXPECT_THAT(cifar_error(path.get(), {2, {7}}), HasSubstr("label byte 0 of record 1 is 7, expected 0 to 6"));
  write_file(path.get(), record("\x14\x01", 0, 0, 0));
  EXPECT_THAT(cifar_error(path.get(), {1, {20, 100}}),
              HasSubstr("label byte 0 of record 0 is 20, expected 0 to 19"));
  EXPECT_THROW(read_cifar(std::vector{path.get() / "missing"}, layout), Error);
}

}  // namespace
}  // namespace detent
