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

template <class Function>
Tensor paired(const Tensor& left, const Tensor& right, Function function) {
  constexpr int64_t kGrain = 16384;
  Pair pair(left, right);
  const float* const a = std::as_const(pair.a).values<float>().data();
  const float* const b = std::as_const(pair.b).values<float>().data();
  float* const to = pair.result.values<float>().data();
  const bool one_a = pair.a.numel() == 1;
  const bool one_b = pair.b.numel() == 1;
  parallel_for(pair.result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (one_b) {
      const float one = *b;
      for (int64_t i = begin; i < end; ++i) to[i] = function(a[one_a ? 0 : i], one);
    } else if (one_a) {
      const float one = *a;
      for (int64_t i = begin; i < end; ++i) to[i] = function(one, b[i]);
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = function(a[i], b[i]);
    }
  });
  return pair.result;
}

template <float (*Function)(float, float)>
Tensor exact(const FloatNode& n) {
  return paired(n.as_tensor(0), n.as_tensor(1), [](float a, float b) { return Function(a, b); });
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
  if (!n.is_absent(1)) result = paired(result, n.as_tensor(1), larger);
  if (!n.is_absent(2)) result = paired(result, n.as_tensor(2), smaller);
  return result;
}

Tensor power(const FloatNode& n) {
  Pair pair(n.as_tensor(0), n.as_tensor(1));
  apply_power(pair.a.values<float>(), pair.b.values<float>(), pair.result.values<float>());
  return pair.result;
}

}  // namespace

FloatOperators float_pair_operators() {
  return {{"add", exact<sum>, true},      {"sub", exact<difference>, true}, {"mul", exact<product>, true},
          {"div", exact<quotient>, true}, {"maximum", exact<larger>, true}, {"minimum", exact<smaller>, true},
          {"prelu", exact<sloped>, true}, {"clamp", clamped, true},         {"pow", power}};
}

}  // namespace detent
