#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/inference/float_nodes.h"
#include "detent/kernels/window_places.h"

namespace detent {
namespace {

Value listed(const std::vector<int64_t>& numbers) { return Value(numbers); }

/// The largest element of a window and its place, one window and one element after the other.
void expect_largest(const WindowPlaces& over, const Tensor& x, const std::vector<FloatFlow>& got) {
  const int64_t windows = element_count(over.windows);
  const int64_t positions = element_count(over.places);
  const auto from = x.values<float>();
  const auto values = got[0].tensor.values<float>();
  const auto places = got[1].tensor.values<int64_t>();
  ASSERT_EQ(std::ssize(values), x.dim(0) * x.dim(1) * windows);
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    int64_t wanted = -1;
    for (int64_t tap = 0; tap < element_count(over.kernel); ++tap) {
      const int64_t place = over.place_of(i % windows, tap);
      if (place < 0) continue;
      const int64_t element = i / windows * positions + place;
      const float value = from[static_cast<size_t>(element)];
      if (wanted < 0 || value > from[static_cast<size_t>(wanted)] || std::isnan(value)) wanted = element;
    }
    ASSERT_EQ(places[static_cast<size_t>(i)], wanted) << i;
    const float largest = from[static_cast<size_t>(wanted)];
    ASSERT_TRUE(values[static_cast<size_t>(i)] == largest || std::isnan(largest)) << i;
  }
}

/// Windows of one to three dimensions, dilated ones and some that begin or end in a border.
TEST(LargestPlaces, AreThoseOfEachWindow) {
  std::mt19937 random(5);
  const auto of = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int again = 0; again < 300; ++again) {
    const auto dims = static_cast<size_t>(of(1, 3));
    WindowPlaces over;
    Shape shape = {of(1, 2), of(1, 3)};
    std::vector<int64_t> after;
    for (size_t d = 0; d < dims; ++d) {
      over.kernel.push_back(of(1, 3));
      over.stride.push_back(of(1, 3));
      over.dilation.push_back(of(1, 2));
      const int64_t reach = (over.kernel.back() - 1) * over.dilation.back();
      over.padding.push_back(over.dilation.back() == 1 ? of(0, over.kernel.back() - 1) : 0);
      after.push_back(over.dilation.back() == 1 ? of(0, over.kernel.back() - 1) : 0);
      over.places.push_back(reach + of(1, dims == 3 ? 5 : 40));
      over.windows.push_back(
          (over.places.back() + over.padding.back() + after.back() - reach - 1) / over.stride.back() + 1);
      shape.push_back(over.places.back());
    }
    Tensor x(DType::kFloat32, shape);
    for (float& value : x.values<float>()) value = of(0, 30) == 0 ? NAN : static_cast<float>(of(-4, 4));
    std::vector<int64_t> padding = over.padding;
    padding.insert(padding.end(), after.begin(), after.end());
    Node node{.name = "pool", .op = "max_pool_with_places", .inputs = {NodeInput::of("x")}};
    node.attributes = {{"kernel_size", listed(over.kernel)}, {"stride", listed(over.stride)},
                       {"padding", listed(padding)},         {"ceil_mode", false},
                       {"dilation", listed(over.dilation)},  {"column_major", false}};
    const FloatFlow input{x};
    expect_largest(over, x, FloatNodes().results(node, std::span(&input, 1)));
    if (HasFatalFailure()) break;
  }
}

}  // namespace
}  // namespace detent
