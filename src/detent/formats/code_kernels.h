#pragma once

#include <cstdint>

#include "detent/formats/codes/all.h"
#include "detent/formats/group.h"

namespace detent {

/// The codes of the elements [begin, end) of a tensor, from the values that simulate_range gave. The pointers
/// are to element `begin`.
void code_range(const GroupCoders& coders, const Grouping& grouping, const float* values, uint32_t* codes,
                int64_t begin, int64_t end);

/// The inverse.
void value_range(const GroupCoders& coders, const Grouping& grouping, const uint32_t* codes, float* values,
                 int64_t begin, int64_t end);

/// The index of the first NaN, else `count`.
int64_t first_nan(const float* values, int64_t count);

}  // namespace detent
