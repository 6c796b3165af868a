#include <algorithm>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/broadcast_lines.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

template <class Function, class T = float>
void apply(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count, T* results) {
  if (a_step == 0 && b_step == 0) {
    std::fill_n(results, count, Function::of(*a, *b));
  } else if (b_step == 0 && a_step == 1) {
    const T one = *b;
    for (int64_t i = 0; i < count; ++i) results[i] = Function::of(a[i], one);
  } else if (a_step == 0 && b_step == 1) {
    const T one = *a;
    for (int64_t i = 0; i < count; ++i) results[i] = Function::of(one, b[i]);
  } else if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) results[i] = Function::of(a[i], b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) results[i] = Function::of(a[i * a_step], b[i * b_step]);
  }
}

template <class Function>
Tensor of_floats(const BroadcastPair& pair) {
  Tensor result = result_tensor(pair.shape);
  const float* const a = pair.a.values<float>().data();
  const float* const b = pair.b.values<float>().data();
  float* const to = result.values<float>().data();
  constexpr int64_t kGrain = 16384;
  parallel_for(result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    apply<Function>(a + begin * pair.a_step, pair.a_step, b + begin * pair.b_step, pair.b_step, end - begin,
                    to + begin);
  });
  return result;
}

/// result[i] = function(a[i], b[i]) of elements T that broadcast.
template <class Function, class T>
Tensor of_elements(const Tensor& left, const Tensor& right) {
  Tensor result = result_tensor(left.dtype(), broadcast_shapes(left.shape(), right.shape()));
  const BroadcastLines<2> lines(result.shape(), {left.shape(), right.shape()});
  const T* const a = words_of<T>(left);
  const T* const b = words_of<T>(right);
  T* const to = words_of<T>(result);
  constexpr int64_t kGrain = 16384;
  parallel_for(result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    lines.run(begin, end, [&](int64_t first, const std::array<int64_t, 2>& at, int64_t count) {
      apply<Function, T>(a + at[0], lines.steps()[0], b + at[1], lines.steps()[1], count, to + first);
    });
  });
  return result;
}

/// Tensors of integers and of float64; shorter floats, which float32 holds, are rounded from there.
template <class Function>
Tensor of_others(const Tensor& left, const Tensor& right) {
  const DType dtype = left.dtype();
  if (is_floating_point(dtype) && dtype != DType::kFloat64)
    return to_dtype(of_floats<Function>(BroadcastPair(to_float32(left), to_float32(right))), dtype);
  return visit_numbers(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      return left;
    else
      return of_elements<Function, T>(left, right);
  });
}

/// Tensors of integers, which alone have bits.
template <class Function>
Tensor of_bits(const FloatNode& n) {
  const Tensor left = n.operand(0);
  return visit_numbers(left.dtype(), [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return of_elements<Function, T>(left, n.operand(1));
    else
      return left;
  });
}

template <class Function>
Tensor paired(const Tensor& left, const Tensor& right) {
  if (left.dtype() != DType::kFloat32) return of_others<Function>(left, right);
  return of_floats<Function>(BroadcastPair(left, right));
}

template <class Function>
Tensor pair(const FloatNode& n) {
  return paired<Function>(n.operand(0), n.operand(1));
}

Tensor clamped(const FloatNode& n) {
  Tensor result = n.tensor(0);
  if (!n.is_absent(1)) result = paired<Larger>(result, n.operand(1));
  if (!n.is_absent(2)) result = paired<Smaller>(result, n.operand(2));
  return result;
}

/// Operands of different types are powered in double, and the result is cut to the base's type.
Tensor mixed_power(const Tensor& base, const Tensor& exponent) {
  const BroadcastPair pair(to_dtype(base, DType::kFloat64), to_dtype(exponent, DType::kFloat64));
  Tensor result(DType::kFloat64, pair.shape);
  const double* const a = words_of<double>(pair.a);
  const double* const b = words_of<double>(pair.b);
  double* const to = words_of<double>(result);
  for (int64_t i = 0; i < result.numel(); ++i) to[i] = std::pow(a[i * pair.a_step], b[i * pair.b_step]);
  return to_dtype(result, base.dtype());
}

Tensor power(const FloatNode& n) {
  const Tensor base = n.operand(0);
  Tensor exponent = n.operand(1);
  if (is_floating_point(base.dtype()) && !is_floating_point(exponent.dtype()))
    exponent = to_dtype(exponent, base.dtype());
  if (base.dtype() == DType::kFloat32 && exponent.dtype() == DType::kFloat32) {
    const bool is_square = exponent.numel() == 1 && exponent.values<float>()[0] == 2;
    if (is_square && exponent.rank() <= base.rank()) return of_floats<Product>(BroadcastPair(base, base));
    const BroadcastPair pair(base, exponent);
    Tensor result = result_tensor(pair.shape);
    apply_power(pair.a.values<float>(), pair.b.values<float>(), result.values<float>());
    return result;
  }
  return base.dtype() == exponent.dtype() ? of_others<Power>(base, exponent) : mixed_power(base, exponent);
}

/// By one number for all elements. Squares are products, which are exact before they are rounded.
std::optional<RowFunction> power_by_number(const FloatNode& n, const Shape& /*input*/) {
  double scratch = 0;
  const double* const number = n.node.inputs[1].constant.number(scratch);
  if (!n.node.inputs[1].is_constant() || number == nullptr) return std::nullopt;
  const auto exponent = static_cast<float>(*number);
  return RowFunction{1, [exponent](std::span<const float> values, std::span<float> results) {
                       if (exponent == 2) {
                         std::ranges::transform(values, results.begin(), [](float x) { return x * x; });
                       } else {
                         apply_power(values, std::span(&exponent, 1), results);
                       }
                     }};
}

template <class Function>
FloatOperator exact_pairs(std::string_view op) {
  return {op, pair<Function>, true, nullptr, apply<Function>};
}

}  // namespace

FloatOperators float_pair_operators() {
  return {exact_pairs<Sum>("add"),
          exact_pairs<Difference>("sub"),
          exact_pairs<Product>("mul"),
          exact_pairs<Quotient>("div"),
          exact_pairs<FloorRest>("remainder"),
          exact_pairs<TruncationRest>("fmod"),
          exact_pairs<Larger>("maximum"),
          exact_pairs<Smaller>("minimum"),
          exact_pairs<Sloped>("prelu"),
          {"bitwise_and", of_bits<CommonBits>, true},
          {"bitwise_or", of_bits<AllBits>, true},
          {"bitwise_xor", of_bits<DifferentBits>, true},
          {"clamp", clamped, true},
          {"pow", power, false, power_by_number}};
}

}  // namespace detent
