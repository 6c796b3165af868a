#include "detent/graph/element_movement.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace detent {
namespace {

/// Dimensions of any order, repeated, of one element, backwards and with gaps.
TEST(ElementMovement, GathersWhatAViewShows) {
  std::mt19937 generator(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  std::vector<int32_t> numbers(2000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor from = Tensor::from<int32_t>({2000}, numbers);
  for (int round = 0; round < 500; ++round) {
    StridedView view{.shape = {}, .strides = {}, .offset = 1000};
    int64_t next = 1;
    for (int64_t rank = draw(0, 4); rank > 0; --rank) {
      const int64_t size = draw(1, 4);
      const int64_t way = draw(0, 5);
      view.shape.insert(view.shape.begin(), size);
      view.strides.insert(view.strides.begin(), way == 0 ? 0 : way == 1 ? -next : next);
      next *= size + (way == 2 ? 1 : 0);
    }
    if (view.shape.size() > 1 && draw(0, 1) == 1) {
      std::swap(view.shape.front(), view.shape.back());
      std::swap(view.strides.front(), view.strides.back());
    }
    const Tensor result = gathered(from, view);
    ASSERT_EQ(result.shape(), view.shape);
    for (int64_t i = 0; i < result.numel(); ++i) {
      int64_t at = view.offset;
      int64_t rest = i;
      for (size_t d = view.shape.size(); d-- > 0; rest /= view.shape[d])
        at += rest % view.shape[d] * view.strides[d];
      ASSERT_EQ(result.values<int32_t>()[static_cast<size_t>(i)], at) << shape_text(view.shape) << " " << i;
    }
  }
}

TEST(ElementMovement, GathersNothingOfNothing) {
  const Tensor from = Tensor::from<int32_t>({2}, std::vector<int32_t>{1, 2});
  EXPECT_EQ(gathered(from, {.shape = {3, 0}, .strides = {0, 1}}).shape(), Shape({3, 0}));
}

}  // namespace
}  // namespace detent
