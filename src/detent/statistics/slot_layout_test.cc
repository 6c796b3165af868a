#include "detent/statistics/slot_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace detent {
namespace {

/// The elements of each slot in ascending order, the element at i being i.
std::map<size_t, std::vector<float>> elements_by_index(const Shape& shape, const std::vector<bool>& kept) {
  std::map<size_t, std::vector<float>> result;
  const int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    size_t slot = 0;
    int64_t stride = count;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      stride /= shape[dim];
      if (kept[dim])
        slot = slot * static_cast<size_t>(shape[dim]) + static_cast<size_t>(i / stride % shape[dim]);
    }
    result[slot].push_back(static_cast<float>(i));
  }
  return result;
}

TEST(SlotLayout, ReadsEachElementOfEachSlotOnce) {
  const Shape shapes[] = {{},        {1},          {7},       {5, 1},       {3, 40},      {2, 3, 4},
                          {4, 1, 5}, {2, 3, 4, 5}, {9001, 2}, {3, 33, 700}, {2, 2, 5000}, {2, 1, 3, 1, 17}};
  for (const Shape& shape : shapes) {
    std::vector<float> data(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    for (unsigned mask = 0; mask < 1U << shape.size(); ++mask) {
      std::vector<bool> kept;
      for (size_t dim = 0; dim < shape.size(); ++dim) kept.push_back((mask >> dim & 1U) != 0);
      const SlotLayout layout(shape, kept);
      for (const int64_t shortest_run : {1, 1000}) {
        std::map<size_t, std::vector<float>> read;
        for (size_t tile = 0; tile < layout.tiles(); ++tile) {
          layout.read_tile(data.data(), tile, shortest_run, [&](size_t slot, std::span<const float> chunk) {
            ASSERT_LE(chunk.size(), kChunkValues);
            ASSERT_GE(slot, layout.first_slot(tile));
            ASSERT_LT(slot, layout.first_slot(tile) + SlotLayout::kMaxTileSlots);
            read[slot].insert(read[slot].end(), chunk.begin(), chunk.end());
          });
        }
        for (auto& [slot, elements] : read) std::ranges::sort(elements);
        EXPECT_EQ(read, elements_by_index(shape, kept)) << shape_text(shape) << " " << mask;
        EXPECT_EQ(read.size(), layout.slots());
      }
    }
  }
}

TEST(SlotLayout, OfNoElementsHasNoTiles) {
  EXPECT_EQ(SlotLayout({0, 3}, {false, true}).tiles(), 0U);
  EXPECT_EQ(SlotLayout({2, 0}, {false, true}).tiles(), 0U);
}

}  // namespace
}  // namespace detent
