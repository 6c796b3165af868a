#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <type_traits>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/broadcast_lines.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

constexpr int64_t kComparisonGrain = 16384;

/// Calls `visit` with how far elements of a line are apart, which loops are compiled for.
template <class Visit>
void visit_step(int64_t step, const Visit& visit) {
  if (step == 0) return visit(std::integral_constant<int64_t, 0>());
  visit(std::integral_constant<int64_t, 1>());
}

/// result[i] = function(a[i], b[i]) of elements T that broadcast.
template <class T, class Function>
Tensor compared_elements(const Tensor& left, const Tensor& right, Function function) {
  Tensor result = unfilled_tensor(DType::kBool, broadcast_shapes(left.shape(), right.shape()));
  bool* const to = words_of<bool>(result);
  const T* const a = words_of<T>(left);
  const T* const b = words_of<T>(right);
  const BroadcastLines<2> lines(result.shape(), {left.shape(), right.shape()});
  parallel_for(result.numel(), kComparisonGrain, [&](int64_t begin, int64_t end) {
    visit_step(lines.steps()[0], [&](auto a_step) {
      visit_step(lines.steps()[1], [&](auto b_step) {
        lines.run(begin, end, [&](int64_t first, const std::array<int64_t, 2>& at, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            to[first + i] = function(a[at[0] + i * a_step], b[at[1] + i * b_step]);
        });
      });
    });
  });
  return result;
}

/// Elements of one type.
template <class Function>
Tensor compared(const Tensor& left, const Tensor& right, Function function) {
  const Tensor a = widened(left);
  const Tensor b = widened(right);
  return visit_numbers(a.dtype(), [&]<class T>(T) { return compared_elements<T>(a, b, function); });
}

Tensor equal(const FloatNode& n) { return compared(n.operand(0), n.operand(1), std::equal_to()); }
Tensor less(const FloatNode& n) { return compared(n.operand(0), n.operand(1), std::less()); }
Tensor not_above(const FloatNode& n) { return compared(n.operand(0), n.operand(1), std::less_equal()); }
Tensor greater(const FloatNode& n) { return compared(n.operand(1), n.operand(0), std::less()); }
Tensor not_below(const FloatNode& n) { return compared(n.operand(1), n.operand(0), std::less_equal()); }

template <bool (*Function)(bool, bool)>
Tensor logical(const FloatNode& n) {
  return compared_elements<bool>(n.operand(0), n.operand(1), Function);
}
bool both(bool a, bool b) { return a && b; }
bool either(bool a, bool b) { return a || b; }
bool only_one(bool a, bool b) { return a != b; }

/// A test of floats.
template <class Function>
Tensor tested(const Tensor& x, Function function) {
  const Tensor wide = to_dtype(x, DType::kFloat64);
  Tensor result = unfilled_tensor(DType::kBool, x.shape());
  std::ranges::transform(wide.values<double>(), result.values<bool>().begin(), function);
  return result;
}

Tensor negation(const FloatNode& n) {
  const Tensor x = n.operand(0);
  Tensor result = unfilled_tensor(DType::kBool, x.shape());
  std::ranges::transform(x.values<bool>(), result.values<bool>().begin(), std::logical_not());
  return result;
}

Tensor not_a_number(const FloatNode& n) {
  return tested(n.operand(0), [](double x) { return std::isnan(x); });
}

Tensor infinite(const FloatNode& n) {
  const bool positive = boolean_attribute(n.node, "positive");
  const bool negative = boolean_attribute(n.node, "negative");
  return tested(n.operand(0),
                [=](double x) { return (positive && x == HUGE_VAL) || (negative && x == -HUGE_VAL); });
}

Tensor chosen(const FloatNode& n) {
  const Tensor condition = n.operand(0);
  const Tensor a = n.operand(1);
  const Tensor b = n.operand(2);
  Tensor result =
      unfilled_tensor(a.dtype(), broadcast_shapes(condition.shape(), broadcast_shapes(a.shape(), b.shape())));
  const BroadcastLines<3> lines(result.shape(), {condition.shape(), a.shape(), b.shape()});
  visit_words(a.dtype(), [&]<class Word>(Word) {
    const bool* const is_a = words_of<bool>(condition);
    const Word* const from_a = words_of<Word>(a);
    const Word* const from_b = words_of<Word>(b);
    Word* const to = words_of<Word>(result);
    parallel_for(result.numel(), kComparisonGrain, [&](int64_t begin, int64_t end) {
      visit_step(lines.steps()[0], [&](auto mark_step) {
        visit_step(lines.steps()[1], [&](auto a_step) {
          visit_step(lines.steps()[2], [&](auto b_step) {
            lines.run(begin, end, [&](int64_t first, const std::array<int64_t, 3>& at, int64_t count) {
              for (int64_t i = 0; i < count; ++i) {
                const Word one = from_a[at[1] + i * a_step];
                const Word other = from_b[at[2] + i * b_step];
                to[first + i] = is_a[at[0] + i * mark_step] ? one : other;
              }
            });
          });
        });
      });
    });
  });
  return result;
}

}  // namespace

FloatOperators comparison_operators() {
  return {{"eq", equal, true},
          {"lt", less, true},
          {"le", not_above, true},
          {"gt", greater, true},
          {"ge", not_below, true},
          {"logical_and", logical<both>, true},
          {"logical_or", logical<either>, true},
          {"logical_xor", logical<only_one>, true},
          {"logical_not", negation, true},
          {"isnan", not_a_number, true},
          {"isinf", infinite, true},
          {"where", chosen, true}};
}

}  // namespace detent
