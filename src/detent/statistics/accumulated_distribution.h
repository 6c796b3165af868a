#pragma once

#include "detent/statistics/accumulators.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// One slot's accumulated values, for a calibrator; parts that `data` did not need are absent.
/// Where values are kept, the bins are the values themselves while all that `data` allows are exact; beyond,
/// the cells of a KeyHistogram, each standing for its middle, which no interval grid limits. Infinities are
/// in the range, so that a calibrator which would have to cover them says so, and nowhere else.
Distribution distribution_of(const Accumulators& data, size_t slot);

}  // namespace detent
