#pragma once

#include <span>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// The sizes tried for dimensions that a model leaves open. Windows of most networks fit into the others, and
/// halves of halves are whole.
inline constexpr int64_t kFirstBatch = 127;
inline constexpr int64_t kSecondBatch = 191;
inline constexpr int64_t kFirstSize = 64;
inline constexpr int64_t kSecondSize = 96;

/// Whether elements of a result that are the same for two choices of the sizes of open dimensions differ for
/// others: size / 200 does not for 127 and 191, size > 10 neither. Elements of the inputs that differ between
/// the choices are tried on the line through both, which keeps x - x and x / x the same.
bool depends_on_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                           const Operand& first_result, const Operand& second_result);

}  // namespace detent
