#pragma once

#include <optional>
#include <span>
#include <vector>

#include "detent/core/element_types.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"

namespace detent {

/// A node's result if it follows from known inputs and is small; otherwise nullopt. Computed in its own type:
/// integers wrap, floats are rounded to float32.
std::optional<Tensor> known_elements(const OperatorSchema& schema, const Node& node,
                                     std::span<const Operand> inputs, const Operand& result);

/// The node's Unary function on float32 elements; nullopt for others.
std::optional<Tensor> unary_elements(const Node& node, const Tensor& from);

/// Whether both are known and equal.
bool have_same_elements(const Operand& a, const Operand& b);

/// Inputs 0 and 1 in the type of the first tensor input, broadcast to the shape of the result; nullopt if one
/// is unknown or the type has no arithmetic.
std::optional<BroadcastPair> known_pair(std::span<const Operand> inputs, const Operand& result);

/// function(a, b) of their elements, as elements of the result's type.
template <class Function>
std::optional<Tensor> paired_elements(std::span<const Operand> inputs, const Operand& result,
                                      Function function) {
  const std::optional<BroadcastPair> pair = known_pair(inputs, result);
  if (!pair) return std::nullopt;
  Tensor elements(result.dtype, result.shape);
  visit_numbers(pair->a.dtype(), [&]<class T>(T) {
    using Result = decltype(function(T(), T()));
    const T* const a = words_of<T>(pair->a);
    const T* const b = words_of<T>(pair->b);
    for (size_t i = 0; Result & to : elements.values<Result>()) {
      to = function(a[i * static_cast<size_t>(pair->a_step)], b[i * static_cast<size_t>(pair->b_step)]);
      ++i;
    }
  });
  return elements;
}

/// The same for an operator without bool inputs.
template <class Function>
std::optional<Tensor> arithmetic_elements(std::span<const Operand> inputs, const Operand& result) {
  return paired_elements(inputs, result, []<class T>(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a;
    else
      return Function::of(a, b);
  });
}

/// Elements of an input of sizes, axes or positions; nullopt if known only at run time. Throws Error, naming
/// the input, unless it is an integer tensor of at most one dimension.
std::optional<std::vector<int64_t>> known_integers(std::span<const Operand> inputs, size_t index);

/// The same for an input of any numbers.
std::optional<std::vector<double>> known_numbers(std::span<const Operand> inputs, size_t index);

/// An input as a tensor; a number becomes one of that type.
std::optional<Tensor> known_tensor(std::span<const Operand> inputs, size_t index, DType dtype);
/// Elements of a list of integers.
std::optional<std::vector<int64_t>> listed_integers(const Value& constant);

/// Whether the input exists.
bool is_given(std::span<const Operand> inputs, size_t index);

}  // namespace detent
