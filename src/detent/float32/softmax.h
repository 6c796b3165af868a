#pragma once

#include <cstdint>
#include <span>

namespace detent {

/// exp(x - m) / sum of exp(x - m) of each line of `count` elements, where m is the largest; or, as `log`, its
/// logarithm, x - m - log(sum). In float32: exp within 1 unit in the last place, sums in sixteen lanes
/// (lanes.h), then products with the reciprocal of the sum. The bits do not depend on the processor. Shares
/// below 2^-126 of the largest one are 0. `results` may be `values`.
void softmax(std::span<const float> values, std::span<float> results, int64_t count, bool log);

/// The same without vectors.
void softmax_reference(std::span<const float> values, std::span<float> results, int64_t count, bool log);

}  // namespace detent
