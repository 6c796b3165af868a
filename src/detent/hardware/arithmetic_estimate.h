#pragma once

#include <cstdint>

#include "detent/hardware/circuit.h"

namespace detent {

/// About how many 6-input tables synthesis makes of a layer of arithmetic, without chains of carries. A
/// number of codes times constants, with D digits other than 0 of all constants (in the form with the
/// fewest), are D b bits of codes of b bits, of which a sum of S bits is made. A full adder takes two tables
/// and leaves two of three bits, one that ripples leaves one of two: 2 (D b - S) + S tables. A code below 0
/// counts a bit more, as its sign reaches further. Then
///
///     sum * multiplier + offset      2 (D - 1) S, D digits of the multiplier
///     clamp(v, low, high)            2 tables a bit of v, and of the code
///     n comparisons with constants   n (S / 5 rounded up), and 2 (n - 1) to count them
///     the larger of two codes        5 / 2 tables a bit; against a constant 1
///
/// docs/hardware.md holds it against yosys.
int64_t estimated_luts(const Layer& layer);

}  // namespace detent
