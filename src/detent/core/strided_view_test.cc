#include "detent/core/strided_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace detent {
namespace {

/// Where each element of a view lies, in row-major order.
std::vector<int64_t> places(const StridedView& view) {
  std::vector<int64_t> places = {view.offset};
  for (size_t d = 0; d < view.shape.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < view.shape[d]; ++i) next.push_back(place + i * view.strides[d]);
    }
    places = std::move(next);
  }
  return places;
}

class Random {
 public:
  explicit Random(uint32_t seed) : generator_(seed) {}
  int64_t of(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator_);
  }

  /// A view of a tensor of this shape: permuted, cut, repeated or in another shape.
  StridedView view(const Shape& shape) {
    StridedView view = StridedView::of(shape);
    switch (of(0, 3)) {
      case 0:
        for (size_t d = shape.size(); d-- > 1;) {
          const auto with = static_cast<size_t>(of(0, static_cast<int64_t>(d)));
          std::swap(view.shape[d], view.shape[with]);
          std::swap(view.strides[d], view.strides[with]);
        }
        return view;
      case 1: {
        const auto d = static_cast<size_t>(of(0, std::ssize(shape) - 1));
        const int64_t begin = of(0, shape[d] - 1);
        view.offset = begin * view.strides[d];
        view.shape[d] = of(1, shape[d] - begin);
        return view;
      }
      case 2:
        view.shape.push_back(of(1, 2));
        view.strides.push_back(0);
        return view;
      default:
        return StridedView::of(in_another_shape(element_count(shape)));
    }
  }

 private:
  Shape in_another_shape(int64_t elements) {
    Shape shape;
    while (elements > 1 && shape.size() < 3) {
      int64_t size = of(1, elements);
      while (elements % size != 0) --size;
      shape.push_back(size);
      elements /= size;
    }
    shape.push_back(elements);
    return shape;
  }

  std::mt19937 generator_;
};

TEST(StridedView, ViewsOfViewsHaveTheirElements) {
  int composed = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const StridedView inner = random.view({random.of(1, 4), random.of(1, 4), random.of(1, 5)});
    const StridedView outer = random.view(inner.shape);
    const std::optional<StridedView> both = outer.over(inner);
    if (!both) continue;
    ++composed;
    const std::vector<int64_t> inner_places = places(inner);
    std::vector<int64_t> wanted;
    for (const int64_t element : places(outer)) wanted.push_back(inner_places[static_cast<size_t>(element)]);
    ASSERT_EQ(places(*both), wanted) << seed;
  }
  EXPECT_GT(composed, 2000);
}

TEST(StridedView, DimensionsOfOneElementHaveNoStep) {
  const StridedView part{{1, 4, 1, 3}, {0, 3, 7, 1}, 24};
  EXPECT_TRUE(part.is_contiguous());
  EXPECT_TRUE(part.keeps_order());
  const StridedView transposed{{1, 4, 3}, {0, 1, 4}, 0};
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_FALSE(transposed.keeps_order());
  const StridedView cut{{2, 3}, {5, 1}, 1};
  EXPECT_FALSE(cut.is_contiguous());
  EXPECT_TRUE(cut.keeps_order());
}

/// A permuted matrix as one line has no strides.
TEST(StridedView, SomeViewsOfViewsAreNone) {
  const StridedView transposed{{3, 2}, {1, 3}, 0};
  EXPECT_FALSE(StridedView::of({6}).over(transposed));
  EXPECT_EQ(StridedView::of({3, 2, 1}).over(transposed)->strides, (std::vector<int64_t>{1, 3, 0}));
  EXPECT_FALSE((StridedView{{2}, {-1}, 1}.over(transposed)));
}

}  // namespace
}  // namespace detent
