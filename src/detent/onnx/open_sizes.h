#pragma once

#include <span>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// The two sizes that are tried for dimensions that a model leaves open: a power of two, so that halves of
/// halves are whole, and half as much again. Batches are others, so that no size is taken for one of them; on
/// the line through both choices all are 1 at the same place.
struct OpenSizes {
  int64_t size = 64;

  int64_t first() const { return size; }
  int64_t second() const { return size / 2 * 3; }
  int64_t first_batch() const { return 2 * size - 1; }
  int64_t second_batch() const { return 3 * size - 1; }
};

/// In the order in which they are tried: windows of most networks fit into the first, some have longer ones,
/// or tables of fewer positions.
inline constexpr OpenSizes kTriedSizes[] = {{64}, {512}, {16}, {4096}, {65536}, {4}};

/// Whether elements of a result that are the same for two choices of the sizes of open dimensions differ for
/// others: size / 200 does not for 127 and 191, size > 10 neither. Elements of the inputs that differ between
/// the choices are tried on the line through both, which keeps x - x and x / x the same.
bool depends_on_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                           const Operand& first_result, const Operand& second_result, OpenSizes sizes = {});

}  // namespace detent
