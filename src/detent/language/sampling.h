#pragma once

#include <cstdint>
#include <span>

namespace detent {

// Probabilities of rows of logits, in double, by operations that IEEE 754 defines, sums in sixteen lanes that
// are added up in a fixed order. The bits depend neither on the processor nor on threads. NaN where a logit
// is NaN or the largest is infinite.

/// log(sum of exp(logits)); within 1e-14 of the exact value times the larger of it and 1.
double log_sum_exp(std::span<const float> logits);

/// sum of p log(p / q) of the shares p of `reference` and q of `logits`, whose log_sum_exp these are.
double divergence(std::span<const float> reference, double reference_sum, std::span<const float> logits,
                  double sum);

/// Index of the first largest element.
int64_t most_likely(std::span<const float> logits);

/// exp(x), on every processor the same bits; infinity where it is too large.
double exact_exp(double x);

/// Sampling options. Defaults leave the model's distribution unchanged.
struct SamplingOptions {
  double temperature = 0;  // logits are divided by it; 0: the most likely token, the first of equal ones
  int64_t top_k = 0;       // only so many of the most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens whose shares together reach it
  double min_p = 0;        // only tokens whose share is at least this part of the largest
  double repetition_penalty =
      1;  // positive logits of tokens that were there are divided by it, others multiplied
  uint64_t seed = 0;
};

/// Throws UsageError naming an invalid option.
void check_sampling_options(const SamplingOptions& options);

/// Draws the token at `position` of a sequence. Penalty, temperature, top_k, top_p and min_p apply in this
/// order, each to the distribution that the one before has left. The draw is a function of seed and position
/// (formats/elements/counter_random.h), computed by operations that IEEE 754 defines: the same token on every
/// processor. Logits of -infinity are never drawn; throws Error where one is NaN or all are -infinity.
int64_t draw_token(std::span<const float> logits, std::span<const int64_t> sequence, int64_t position,
                   const SamplingOptions& options);

}  // namespace detent
