#include "detent/kernels/broadcast_lines.h"

#include <gtest/gtest.h>

#include <numeric>

namespace detent {
namespace {

Tensor counted(const Shape& shape) {
  Tensor tensor(DType::kInt32, shape);
  std::iota(tensor.values<int32_t>().begin(), tensor.values<int32_t>().end(), 0);
  return tensor;
}

TEST(BroadcastLines, FindElementsAsCopiesHaveThem) {
  const std::array<Shape, 2> cases[] = {{Shape{2, 3, 4}, {2, 3, 4}}, {Shape{2, 3, 4}, {}},
                                        {Shape{2, 3, 4}, {4}},       {Shape{2, 3, 4}, {3, 1}},
                                        {Shape{2, 1, 4}, {3, 1}},    {Shape{5, 1}, {1, 7}},
                                        {Shape{1, 1}, {1}},          {Shape{2, 1, 3, 1, 2}, {2, 1, 5, 1}},
                                        {Shape{0, 3}, {3}},          {Shape{2, 1, 1}, {2, 3, 4}}};
  for (const std::array<Shape, 2>& shapes : cases) {
    const Shape whole = broadcast_shapes(shapes[0], shapes[1]);
    SCOPED_TRACE(shape_text(whole));
    const BroadcastLines<2> lines(whole, shapes);
    const int64_t count = element_count(whole);
    for (size_t i = 0; i < 2; ++i) {
      const Tensor expected =
          gathered(counted(shapes[i]), StridedView::broadcast(shapes[i], whole)).reshaped({count});
      for (const int64_t begin : {int64_t{0}, count / 3}) {
        int64_t next = begin;
        lines.run(begin, count, [&](int64_t first, const std::array<int64_t, 2>& places, int64_t length) {
          EXPECT_EQ(first, next);
          for (int64_t k = 0; k < length; ++k)
            EXPECT_EQ(places[i] + k * lines.steps()[i],
                      expected.values<int32_t>()[static_cast<size_t>(first + k)]);
          next = first + length;
        });
        EXPECT_EQ(next, count);
      }
    }
  }
}

/// A column beside a row: one line for each element of the column.
TEST(BroadcastLines, AreAsLongAsTheShapesAllow) {
  const auto lines_of = [](const Shape& whole, const std::array<Shape, 2>& shapes) {
    int64_t count = 0;
    BroadcastLines<2>(whole, shapes).run(0, element_count(whole), [&](int64_t, const auto&, int64_t) {
      ++count;
    });
    return count;
  };
  EXPECT_EQ(lines_of({6, 5, 4}, {Shape{6, 5, 4}, {6, 5, 4}}), 1);
  EXPECT_EQ(lines_of({6, 5, 4}, {Shape{6, 5, 4}, {5, 4}}), 6);
  EXPECT_EQ(lines_of({6, 5}, {Shape{6, 1}, {1, 5}}), 6);
  EXPECT_EQ(lines_of({6, 5, 1}, {Shape{6, 5, 1}, {1, 1, 1}}), 1);
}

}  // namespace
}  // namespace detent
