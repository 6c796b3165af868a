#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "detent/inference/float_node.h"

namespace detent {
namespace {

std::vector<Tensor> results_of(const char* op, const Tensor& x, const Table& attributes,
                               std::optional<int64_t> k = {}) {
  Node node{.name = "n", .op = op, .inputs = {NodeInput::of("x")}, .attributes = attributes};
  std::vector<FloatFlow> inputs(1);
  inputs[0].tensor = x;
  if (k) {
    node.inputs.push_back(NodeInput::of_constant(Value(*k)));
    inputs.emplace_back().number = Value(*k);
  }
  const NamedTensors none;
  return find_float_operator(op)->results({.node = node, .inputs = inputs, .parameters = none});
}

template <class T>
std::vector<T> elements() {
  std::vector<T> values;
  for (int i = 0; i < 40; ++i) values.push_back(static_cast<T>(i * 29 % 17 - 5));
  values.insert(values.end(), {std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()});
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kMost = std::numeric_limits<T>::infinity();
    values.insert(values.end(), {T(-0.0), NAN, T(0.0), kMost, -NAN, -kMost, NAN, T(1e-40), T(-1e-40)});
  }
  return values;
}

/// NaN is above all else.
template <class T>
bool is_above(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}

template <class T>
void expect_order() {
  const std::vector<T> x = elements<T>();
  const auto size = std::ssize(x);
  const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
  for (const bool largest : {true, false}) {
    std::vector<int64_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return largest ? is_above(at(a), at(b)) : is_above(at(b), at(a));
    });
    for (const int64_t k : {int64_t{1}, int64_t{7}, size}) {
      const auto results =
          results_of("topk", Tensor::from({1, size}, x), {{"dim", -1}, {"largest", largest}}, k);
      for (int64_t i = 0; i < k; ++i)
        EXPECT_EQ(results.at(1).template values<int64_t>()[static_cast<size_t>(i)],
                  order[static_cast<size_t>(i)])
            << largest << " " << k;
    }
  }
}

TEST(AlongDimension, TheFirstElementsAreThoseOfAStableSort) {
  expect_order<float>();
  expect_order<double>();
  expect_order<uint8_t>();
  expect_order<int8_t>();
  expect_order<int32_t>();
  expect_order<int64_t>();
}

/// NaN is before all else in either order, of which the first or the last is taken.
template <class T>
void expect_extreme(std::vector<T> x) {
  for (; x.size() > 1; x.pop_back()) {
    for (const bool largest : {true, false}) {
      for (const bool last : {true, false}) {
        size_t best = 0;
        for (size_t i = 1; i < x.size(); ++i) {
          const auto is_nan = [](T value) { return std::isnan(static_cast<double>(value)); };
          const bool both = is_nan(x[i]) || is_nan(x[best]);
          const auto before = [&](T a, T b) { return both || largest ? is_above(a, b) : a < b; };
          if (last ? !before(x[best], x[i]) : before(x[i], x[best])) best = i;
        }
        const auto results = results_of(largest ? "argmax" : "argmin", Tensor::from({1, std::ssize(x)}, x),
                                        {{"dim", -1}, {"keepdim", false}, {"select_last_index", last}});
        EXPECT_EQ(results.at(0).template values<int64_t>()[0], static_cast<int64_t>(best))
            << largest << last << x.size();
      }
    }
  }
}

TEST(AlongDimension, ExtremesAreThoseOfALoop) {
  expect_extreme(elements<float>());
  expect_extreme(elements<double>());
  expect_extreme(elements<uint8_t>());
  expect_extreme(elements<int32_t>());
}

/// Each line by itself.
template <class T>
void expect_sums(const Shape& shape, size_t dim) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  Tensor x(Tensor::from<T>({1}, std::vector<T>{0}).dtype(), shape);
  int64_t drawn = 0;
  for (T& element : x.values<T>())
    element = static_cast<T>(static_cast<double>(++drawn * 7919 % 1009 - 400) * 0.37);
  const int64_t step = element_count({shape.begin() + static_cast<int64_t>(dim) + 1, shape.end()});
  const int64_t size = shape[dim];
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      std::vector<T> expected(x.values<T>().size());
      for (int64_t line = 0; line < x.numel() / size; ++line) {
        Sum sum = 0;
        for (int64_t i = 0; i < size; ++i) {
          const int64_t place = reverse ? size - 1 - i : i;
          const auto at = static_cast<size_t>((line / step * size + place) * step + line % step);
          const Sum after = sum + static_cast<Sum>(x.values<T>()[at]);
          expected[at] = static_cast<T>(exclusive ? sum : after);
          sum = after;
        }
      }
      const auto results = results_of("cumsum", x, {{"exclusive", exclusive}, {"reverse", reverse}},
                                      static_cast<int64_t>(dim));
      EXPECT_TRUE(results.at(0).equals(Tensor::from(shape, expected))) << exclusive << reverse << dim;
    }
  }
}

TEST(AlongDimension, CumulativeSumsAreThoseOfEachLine) {
  for (size_t dim = 0; dim < 3; ++dim) {
    expect_sums<float>({3, 5, 150}, dim);
    expect_sums<double>({3, 5, 2}, dim);
    expect_sums<int64_t>({2, 7, 65}, dim);
  }
}

}  // namespace
}  // namespace detent
