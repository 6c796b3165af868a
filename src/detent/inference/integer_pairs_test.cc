#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "detent/core/strided_view.h"
#include "detent/inference/float_node.h"

namespace detent {
namespace {

template <class T>
Tensor counted_elements(const Shape& shape, int64_t factor) {
  std::vector<T> values;
  for (int64_t i = 0; i < element_count(shape); ++i) values.push_back(static_cast<T>(i * factor % 211 - 100));
  return Tensor::from(shape, values);
}

Tensor computed_pairs(const char* op, const Tensor& a, const Tensor& b) {
  const Node node{
      .name = "n", .op = op, .inputs = {NodeInput::of("a"), NodeInput::of("b")}, .attributes = {}};
  std::vector<FloatFlow> inputs(2);
  inputs[0].tensor = a;
  inputs[1].tensor = b;
  const NamedTensors none;
  return find_float_operator(op)->results({.node = node, .inputs = inputs, .parameters = none}).at(0);
}

template <class T>
void expect_pairs(const Shape& left, const Shape& right) {
  const Tensor a = counted_elements<T>(left, 7);
  const Tensor b = counted_elements<T>(right, 31);
  const Shape shape = broadcast_shapes(left, right);
  const Tensor all_a = gathered(a, StridedView::broadcast(left, shape));
  const Tensor all_b = gathered(b, StridedView::broadcast(right, shape));
  const Tensor sums = computed_pairs("add", a, b);
  const Tensor products = computed_pairs("mul", a, b);
  ASSERT_EQ(sums.shape(), shape);
  ASSERT_EQ(products.shape(), shape);
  for (size_t i = 0; i < static_cast<size_t>(sums.numel()); ++i) {
    const T x = all_a.values<T>()[i];
    const T y = all_b.values<T>()[i];
    ASSERT_EQ(sums.values<T>()[i], static_cast<T>(x + y)) << i;
    ASSERT_EQ(products.values<T>()[i], static_cast<T>(x * y)) << i;
  }
}

/// Indices of a deformable convolution are as many as its values; parts of lines go to different threads.
TEST(IntegerPairs, AreThoseOfEachElement) {
  for (const auto& [left, right] : std::vector<std::pair<Shape, Shape>>{{{3, 9001}, {3, 1}},
                                                                        {{1, 9001}, {5, 1}},
                                                                        {{4, 1, 9001}, {1, 2, 9001}},
                                                                        {{40000}, {40000}},
                                                                        {{1}, {40000}},
                                                                        {{2, 0}, {2, 1}},
                                                                        {{7}, {1}}}) {
    expect_pairs<int64_t>(left, right);
    expect_pairs<int32_t>(left, right);
    expect_pairs<double>(left, right);
  }
}

}  // namespace
}  // namespace detent
