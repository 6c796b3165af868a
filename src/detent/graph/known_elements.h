#pragma once

#include <optional>
#include <span>
#include <vector>

#include "detent/graph/operators.h"

namespace detent {

/// The elements of a node's result, in row-major order, where they follow from those of its inputs and are
/// few; otherwise nothing. Integers are exact up to 2^53, which no size reaches.
std::optional<std::vector<double>> known_elements(const OperatorSchema& schema, const Node& node,
                                                  std::span<const Operand> inputs, const Operand& result);

/// Elements of an element-wise function of two inputs, which broadcast; nothing where one has neither one
/// element nor as many as the result.
std::optional<std::vector<double>> broadcast_elements(const Operand& a, const Operand& b,
                                                      const Operand& result,
                                                      const std::function<double(double, double)>& function);

/// The elements of an input that gives sizes, axes or positions, as integers of at most 2^53 in magnitude;
/// nothing where only a run knows them. Throws Error, naming the input, when it is no tensor of integers of
/// at most one dimension.
std::optional<std::vector<int64_t>> known_integers(std::span<const Operand> inputs, size_t index);

/// The same of an input of any numbers.
std::optional<std::vector<double>> known_numbers(std::span<const Operand> inputs, size_t index);

/// Whether there is an input of that index.
bool is_given(std::span<const Operand> inputs, size_t index);

}  // namespace detent
