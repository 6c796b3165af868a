#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "detent/formats/kernel_environment.h"
#include "detent/kernels/window_places.h"

namespace detent {
namespace {

class LargestRows : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam(), "test"); }
  void TearDown() override { set_simd_target(simd_targets().front(), "test"); }
};

/// Few values, so that many are equal: zeros of both signs, infinities, NaN of several payloads among them.
TEST_P(LargestRows, AreThoseOfTheReference) {
  const float values[] = {0.0F,
                          -0.0F,
                          1.0F,
                          -2.0F,
                          HUGE_VALF,
                          -HUGE_VALF,
                          std::bit_cast<float>(0x7FC00001U),
                          std::bit_cast<float>(0xFFC00002U)};
  std::mt19937 random(1);
  for (const size_t row_count : {size_t{1}, size_t{2}, size_t{4}, size_t{9}, size_t{49}}) {
    for (size_t count = 1; count < 70; ++count) {
      std::vector<std::vector<float>> elements(row_count, std::vector<float>(count));
      std::vector<const float*> rows;
      for (std::vector<float>& row : elements) {
        for (float& x : row) x = values[random() % (count % 2 == 0 ? 6 : std::size(values))];
        rows.push_back(row.data());
      }
      std::vector<float> got(count + 1, 7);
      std::vector<float> wanted(count + 1, 7);
      std::vector<int32_t> rows_got(count + 1, -7);
      std::vector<int32_t> rows_wanted(count + 1, -7);
      const auto columns = static_cast<int64_t>(count);
      largest_and_its_rows(rows.data(), std::ssize(rows), columns, got.data(), rows_got.data());
      largest_and_its_rows_reference(rows.data(), std::ssize(rows), columns, wanted.data(),
                                     rows_wanted.data());
      EXPECT_EQ(rows_got, rows_wanted) << row_count << " x " << count;
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i])) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, LargestRows, testing::ValuesIn(simd_targets()));

}  // namespace
}  // namespace detent
