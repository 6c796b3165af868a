#include <algorithm>
#include <array>
#include <span>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// Floats in double, each sum rounded once; integers wrap.
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

/// Lines along a dimension, `step` of which lie side by side.
struct LineGroup {
  int64_t size;
  int64_t step;
  bool exclusive;
  bool reverse;
};

/// The next element of adjacent lines, whose sums so far these are.
template <class T, bool kExclusive>
void add_next(const T* from, std::span<SumOf<T>> sums, T* to) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const SumOf<T> sum = sums[i] + static_cast<SumOf<T>>(from[i]);
    to[i] = static_cast<T>(kExclusive ? sums[i] : sum);
    sums[i] = sum;
  }
}

template <class T>
void add_up(const T* from, const LineGroup& lines, T* to) {
  constexpr int64_t kTogether = 64;
  std::array<SumOf<T>, kTogether> sums;
  for (int64_t line = 0; line < lines.step; line += kTogether) {
    const auto together = std::span(sums).first(static_cast<size_t>(std::min(kTogether, lines.step - line)));
    std::ranges::fill(together, SumOf<T>(0));
    for (int64_t i = 0; i < lines.size; ++i) {
      const int64_t at = (lines.reverse ? lines.size - 1 - i : i) * lines.step + line;
      lines.exclusive ? add_next<T, true>(from + at, together, to + at)
                      : add_next<T, false>(from + at, together, to + at);
    }
  }
}

Tensor cumulative_sums(const FloatNode& n) {
  const Tensor given = n.operand(0);
  const Tensor x = widened(given);
  const size_t dim = n.dimension(n.integer(1), x.shape().size());
  const LineGroup lines{
      .size = x.shape()[dim],
      .step = element_count({x.shape().begin() + static_cast<int64_t>(dim) + 1, x.shape().end()}),
      .exclusive = boolean_attribute(n.node, "exclusive"),
      .reverse = boolean_attribute(n.node, "reverse")};
  Tensor result = result_tensor(x.dtype(), x.shape());
  if (x.numel() == 0) return to_dtype(result, given.dtype());
  constexpr int64_t kGrain = 8192;
  const int64_t of_group = lines.size * lines.step;
  visit_numbers(x.dtype(), [&]<class T>(T) {
    parallel_for(x.numel() / of_group, std::max<int64_t>(1, kGrain / of_group),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t at = begin * of_group; at < end * of_group; at += of_group)
                     add_up(words_of<T>(x) + at, lines, words_of<T>(result) + at);
                 });
  });
  return to_dtype(result, given.dtype());
}

}  // namespace

FloatOperators cumulative_operators() { return {{"cumsum", cumulative_sums}}; }

}  // namespace detent
