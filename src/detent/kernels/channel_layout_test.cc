#include "detent/kernels/tensor_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

class ChannelLayout : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam(), "test"); }
  void TearDown() override { set_simd_target(simd_targets().front(), "test"); }
};

/// Nothing beside the elements is written.
TEST_P(ChannelLayout, ElementsGoWhereTheyBelong) {
  for (const int64_t channels : {1, 2, 3, 4, 5, 16, 19}) {
    for (const int64_t positions : {0, 1, 3, 4, 7, 16, 50}) {
      const int64_t plane = positions + 3;
      const auto size = static_cast<size_t>(plane * channels);
      std::vector<float> planes(size);
      std::iota(planes.begin(), planes.end(), 0.0F);
      std::vector<float> last(size, -1);
      channels_to_last(planes.data(), plane, channels, positions, last.data());
      std::vector<float> back(size, -1);
      channels_to_front(last.data(), channels, positions, back.data(), plane);
      for (int64_t i = 0; i < std::ssize(last); ++i) {
        const int64_t c = i % channels;
        const int64_t x = i / channels;
        const bool is_inside = x < positions;
        ASSERT_EQ(last[static_cast<size_t>(i)],
                  is_inside ? planes[static_cast<size_t>(c * plane + x)] : -1.0F);
      }
      for (int64_t i = 0; i < std::ssize(back); ++i) {
        const float wanted = i % plane < positions ? planes[static_cast<size_t>(i)] : -1.0F;
        ASSERT_EQ(back[static_cast<size_t>(i)], wanted) << channels << " x " << positions;
      }
    }
  }
}

TEST_P(ChannelLayout, BytesGoWhereTheyBelong) {
  for (const int64_t rows : {0, 1, 15, 16, 17, 40}) {
    for (const int64_t columns : {1, 8, 16, 35, 48}) {
      const int64_t from_step = rows + 5;
      const int64_t to_step = columns + 3;
      std::vector<uint8_t> from(static_cast<size_t>(from_step * columns));
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 37 + i / 256);
      std::vector<uint8_t> to(static_cast<size_t>(to_step * rows), 9);
      transpose_bytes(from.data(), from_step, rows, columns, to.data(), to_step, 0x81);
      for (int64_t i = 0; i < std::ssize(to); ++i) {
        const int64_t j = i % to_step;
        const int wanted = j < columns ? from[static_cast<size_t>(j * from_step + i / to_step)] ^ 0x81 : 9;
        ASSERT_EQ(to[static_cast<size_t>(i)], wanted) << rows << " x " << columns;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, ChannelLayout, testing::ValuesIn(simd_targets()));

}  // namespace
}  // namespace detent
