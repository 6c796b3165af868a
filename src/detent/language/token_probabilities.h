#pragma once

#include <cstdint>
#include <span>

namespace detent {

// What rows of logits mean, in double, by operations that IEEE 754 defines, sums in sixteen lanes that are
// added up in a fixed order. The bits depend neither on the processor nor on threads. NaN where a logit is
// NaN or the largest is infinite.

/// log(sum of exp(logits)); within 1e-14 of the exact value times the larger of it and 1.
double log_sum_exp(std::span<const float> logits);

/// sum of p log(p / q) of the shares p of `reference` and q of `logits`, whose log_sum_exp these are.
double divergence(std::span<const float> reference, double reference_sum, std::span<const float> logits,
                  double sum);

/// The index of the largest; of the first of several.
int64_t most_likely(std::span<const float> logits);

/// exp(x), on every processor the same bits; infinity where it is too large.
double exact_exp(double x);

}  // namespace detent
