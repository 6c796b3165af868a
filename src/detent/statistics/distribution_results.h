#pragma once

#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// Distributions from the results of an operand's statistics: one, or one for each kept position in
/// row-major order. `results` is a table of statistic name -> result; range_min_max gives the
/// range, variance_precise or variance_online mean and variance, average_range the average range, histogram
/// the bins (each stands for its middle, one that holds 0 for 0). Others are passed over.
/// Throws Error, beginning with `where`, on results that are not as the statistics give them, and on those
/// that keep different positions.
std::vector<Distribution> distributions_of_results(const Table& results, const std::string& where);

}  // namespace detent
