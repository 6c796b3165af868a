#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"

namespace detent {
namespace {

/// The lines of a tensor along one dimension.
struct Lines {
  int64_t count;
  int64_t size;
  int64_t step;  // between the elements of a line

  Lines(const Shape& shape, size_t dim)
      : count(0),
        size(shape[dim]),
        step(element_count({shape.begin() + static_cast<int64_t>(dim) + 1, shape.end()})) {
    count = element_count({shape.begin(), shape.begin() + static_cast<int64_t>(dim)}) * step;
  }
  /// Where a line begins in a tensor whose lines have `length` elements.
  int64_t first(int64_t line, int64_t length) const { return line / step * step * length + line % step; }

  template <class Visit>
  void for_each(Visit visit) const {
    constexpr int64_t kGrain = 8192;
    parallel_for(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(size, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t line = begin; line < end; ++line) visit(line);
                 });
  }
};

size_t dim_along(const FloatNode& n, const Tensor& x) {
  return n.dimension(integer_attribute(n.node, "dim"), x.shape().size());
}

/// Whether a is larger (or smaller) than b; NaN is before all else in either order, as in numpy and PyTorch.
template <class T, bool kLargest>
bool is_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return kLargest ? a > b : a < b;
}

/// Most elements of a line are not beyond what is held, which one comparison tells; NaN passes it.
template <class T, bool kLargest>
int64_t extreme_of_line(const T* from, int64_t size, int64_t step, bool last) {
  int64_t best = 0;
  T held = size > 0 ? from[0] : T();
  for (int64_t i = 1; i < size; ++i) {
    const T next = from[i * step];
    if (!last && (kLargest ? next <= held : next >= held)) continue;
    if (last && (kLargest ? next < held : next > held)) continue;
    if (last ? is_before<T, kLargest>(held, next) : !is_before<T, kLargest>(next, held)) continue;
    best = i;
    held = next;
  }
  return best;
}

template <bool kLargest>
Tensor position_of_extreme(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const Tensor numbers = widened(x);
  const Lines lines(x.shape(), dim_along(n, x));
  const bool last = boolean_attribute(n.node, "select_last_index");
  Tensor result(DType::kInt64, n.inferred().front().shape);
  int64_t* const to = words_of<int64_t>(result);
  visit_numbers(numbers.dtype(), [&]<class T>(T) {
    lines.for_each([&](int64_t line) {
      const T* const from = words_of<T>(numbers) + lines.first(line, lines.size);
      to[line] = extreme_of_line<T, kLargest>(from, lines.size, lines.step, last);
    });
  });
  return result;
}

/// Integers in the order of the elements; both zeros have one, and all NaNs the largest.
template <class T>
uint32_t ordered_bits(T x) {
  constexpr uint32_t kSign = 1U << 31;
  if constexpr (std::is_same_v<T, float>) {
    if (std::isnan(x)) return ~0U;
    const auto bits = std::bit_cast<uint32_t>(x + 0.0F);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else {
    return static_cast<uint32_t>(static_cast<int32_t>(x)) ^ kSign;
  }
}

/// The places of the first k of a line, in order; equal elements in that of their positions. They stay until
/// the thread's next call.
template <class T>
std::span<const int64_t> first_places(const T* from, const Lines& lines, int64_t k, bool largest) {
  thread_local std::vector<int64_t> order;
  order.resize(static_cast<size_t>(lines.size));
  if constexpr (sizeof(T) <= sizeof(uint32_t)) {
    if (lines.size <= std::numeric_limits<uint32_t>::max()) {
      // An element above how far its place is from the end.
      thread_local std::vector<uint64_t> keys;
      keys.resize(order.size());
      for (size_t i = 0; i < keys.size(); ++i) {
        const uint32_t bits = ordered_bits(from[static_cast<int64_t>(i) * lines.step]);
        keys[i] = uint64_t{largest ? bits : ~bits} << 32 | (keys.size() - 1 - i);
      }
      std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), std::greater());
      for (size_t i = 0; i < static_cast<size_t>(k); ++i)
        order[i] = lines.size - 1 - static_cast<int64_t>(keys[i] & 0xFFFFFFFF);
      return order;
    }
  }
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
    const T at_a = from[a * lines.step];
    const T at_b = from[b * lines.step];
    if (largest ? is_before<T, true>(at_a, at_b) : is_before<T, true>(at_b, at_a)) return true;
    if (largest ? is_before<T, true>(at_b, at_a) : is_before<T, true>(at_a, at_b)) return false;
    return a < b;
  });
  return order;
}

/// The first k in order; equal elements in that of their positions.
std::vector<Tensor> top(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const Tensor numbers = widened(x);
  const size_t dim = dim_along(n, x);
  const Lines lines(x.shape(), dim);
  const int64_t k = n.integer(1);
  if (k < 0 || k > lines.size)
    fail("node \"{}\" (topk): input 1 is {}, expected 0 to {}", n.node.name, k, lines.size);
  Shape shape = x.shape();
  shape[dim] = k;
  Tensor values(numbers.dtype(), shape);
  Tensor places(DType::kInt64, shape);
  const bool largest = boolean_attribute(n.node, "largest");
  visit_numbers(numbers.dtype(), [&]<class T>(T) {
    lines.for_each([&](int64_t line) {
      const T* const from = words_of<T>(numbers) + lines.first(line, lines.size);
      const std::span<const int64_t> order = first_places(from, lines, k, largest);
      const int64_t first = lines.first(line, k);
      for (int64_t i = 0; i < k; ++i) {
        words_of<int64_t>(places)[first + i * lines.step] = order[static_cast<size_t>(i)];
        words_of<T>(values)[first + i * lines.step] = from[order[static_cast<size_t>(i)] * lines.step];
      }
    });
  });
  return {to_dtype(values, x.dtype()), places};
}

}  // namespace

FloatOperators dimension_operators() {
  return {{"argmax", position_of_extreme<true>, true},
          {"argmin", position_of_extreme<false>, true},
          {.op = "topk", .compute = nullptr, .is_exact = true, .compute_all = top}};
}

}  // namespace detent
