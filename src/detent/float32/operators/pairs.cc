#include <algorithm>
#include <cmath>

#include "detent/core/parallel.h"
#include "detent/float32/float_node.h"
#include "detent/float32/functions.h"
#include "detent/float32/result_tensor.h"
#include "detent/graph/operators.h"
#include "detent/integer/element_movement.h"

namespace detent {
namespace {

/// Repeated to `shape`; a single number stays one.
Tensor broadcast(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape || tensor.numel() == 1) return tensor;
  return gathered(tensor, StridedView::broadcast(tensor.shape(), shape));
}

struct Pair {
  Tensor a;
  Tensor b;
  Tensor result;

  explicit Pair(const Tensor& left, const Tensor& right)
      : result(result_tensor(broadcast_shapes(left.shape(), right.shape()))) {
    a = broadcast(left, result.shape());
    b = broadcast(right, result.shape());
  }
};

template <float (*Function)(float, float)>
void apply(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, float* results) {
  if (a_step == 0 && b_step == 0) {
    std::fill_n(results, count, Function(*a, *b));
  } else if (b_step == 0) {
    const float one = *b;
    for (int64_t i = 0; i < count; ++i) results[i] = Function(a[i], one);
  } else if (a_step == 0) {
    const float one = *a;
    for (int64_t i = 0; i < count; ++i) results[i] = Function(one, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) results[i] = Function(a[i], b[i]);
  }
}

Tensor paired(const Tensor& left, const Tensor& right, PairFunction function) {
  constexpr int64_t kGrain = 16384;
  Pair pair(left, right);
  const float* const a = std::as_const(pair.a).values<float>().data();
  const float* const b = std::as_const(pair.b).values<float>().data();
  float* const to = pair.result.values<float>().data();
  const int64_t a_step = pair.a.numel() == 1 ? 0 : 1;
  const int64_t b_step = pair.b.numel() == 1 ? 0 : 1;
  parallel_for(pair.result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    function(a + begin * a_step, a_step, b + begin * b_step, b_step, end - begin, to + begin);
  });
  return pair.result;
}

template <float (*Function)(float, float)>
Tensor exact(const FloatNode& n) {
  return paired(n.as_tensor(0), n.as_tensor(1), apply<Function>);
}

float sum(float a, float b) { return a + b; }
float difference(float a, float b) { return a - b; }
float product(float a, float b) { return a * b; }
float quotient(float a, float b) { return a / b; }
// NaN of either is NaN.
float larger(float a, float b) { return a > b || std::isnan(a) ? a : b; }
float smaller(float a, float b) { return a < b || std::isnan(a) ? a : b; }
float sloped(float x, float slope) { return x < 0 ? x * slope : x; }

Tensor clamped(const FloatNode& n) {
  Tensor result = n.tensor(0);
  if (!n.is_absent(1)) result = paired(result, n.as_tensor(1), apply<larger>);
  if (!n.is_absent(2)) result = paired(result, n.as_tensor(2), apply<smaller>);
  return result;
}

Tensor power(const FloatNode& n) {
  Pair pair(n.as_tensor(0), n.as_tensor(1));
  apply_power(pair.a.values<float>(), pair.b.values<float>(), pair.result.values<float>());
  return pair.result;
}

template <float (*Function)(float, float)>
FloatOperator exact_pairs(std::string_view op) {
  return {op, exact<Function>, true, nullptr, apply<Function>};
}

}  // namespace

FloatOperators float_pair_operators() {
  return {exact_pairs<sum>("add"),      exact_pairs<difference>("sub"), exact_pairs<product>("mul"),
          exact_pairs<quotient>("div"), exact_pairs<larger>("maximum"), exact_pairs<smaller>("minimum"),
          exact_pairs<sloped>("prelu"), {"clamp", clamped, true},       {"pow", power}};
}

}  // namespace detent
