#include "detent/language/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/elements/counter_random.h"

namespace detent {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Candidate {
  int64_t token;
  double score;  // a logit, then the share beside the largest one's
};

bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

std::vector<Candidate> candidates_of(std::span<const float> logits, std::span<const int64_t> sequence,
                                     double penalty) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) fail("the network gives NaN for token {}: none can be drawn", i);
    candidates[i] = {static_cast<int64_t>(i), static_cast<double>(logits[i])};
  }
  if (penalty == 1) return candidates;
  std::vector<bool> penalized(logits.size());
  for (const int64_t token : sequence) {
    const auto place = static_cast<size_t>(token);
    if (place >= penalized.size() || penalized[place]) continue;
    penalized[place] = true;
    double& score = candidates[place].score;
    score = score > 0 ? score / penalty : score * penalty;
  }
  return candidates;
}

/// Scores become exp((score - largest) / temperature).
void to_shares(std::vector<Candidate>& candidates, double largest, double temperature) {
  for (Candidate& candidate : candidates)
    candidate.score = candidate.score == kNever ? 0 : exact_exp((candidate.score - largest) / temperature);
}

double sum_of(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.score;
  return sum;
}

/// The most likely ones whose shares together reach `top_p`, at least one.
void keep_top_p(std::vector<Candidate>& candidates, double top_p) {
  const double wanted = top_p * sum_of(candidates);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || sum < wanted)) sum += candidates[kept++].score;
  candidates.resize(kept);
}

void restrict_to(std::vector<Candidate>& candidates, const SamplingOptions& options) {
  const bool some = options.top_k > 0 && static_cast<size_t>(options.top_k) < candidates.size();
  if (some) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(options.top_k);
    std::nth_element(candidates.begin(), end, candidates.end(), is_likelier);
    candidates.erase(end, candidates.end());
  }
  if (options.top_p < 1) {
    std::sort(candidates.begin(), candidates.end(), is_likelier);
    keep_top_p(candidates, options.top_p);
  }
  // The largest share is exp(0) = 1.
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.score < options.min_p; });
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

/// In [0, 1), of 53 bits.
double uniform_draw(uint64_t seed, int64_t position) {
  const CounterKey key = counter_key(seed, static_cast<uint64_t>(position));
  const uint64_t high = counter_draw(key, 0);
  const uint64_t low = counter_draw(key, 1);
  constexpr int kDropped = 11;
  return static_cast<double>((high << 32 | low) >> kDropped) * 0x1p-53;
}

}  // namespace

void check_sampling_options(const SamplingOptions& options) {
  const auto check = [](bool is_right, const char* option, double value, const char* allowed) {
    if (!is_right) throw UsageError(fmt::format("{}: got {}, expected {}", option, value, allowed));
  };
  check(options.temperature >= 0 && std::isfinite(options.temperature), "--temperature", options.temperature,
        "0 or more");
  check(options.top_k >= 0, "--top-k", static_cast<double>(options.top_k), "0 (all) or more");
  check(options.top_p > 0 && options.top_p <= 1, "--top-p", options.top_p, "more than 0, at most 1");
  check(options.min_p >= 0 && options.min_p <= 1, "--min-p", options.min_p, "0 to 1");
  check(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty), "--repetition-penalty",
        options.repetition_penalty, "more than 0");
}

int64_t draw_token(std::span<const float> logits, std::span<const int64_t> sequence, int64_t position,
                   const SamplingOptions& options) {
  std::vector<Candidate> candidates = candidates_of(logits, sequence, options.repetition_penalty);
  const auto best = std::min_element(candidates.begin(), candidates.end(), is_likelier);
  if (best == candidates.end() || best->score == kNever)
    fail("the network gives no token a share: none can be drawn");
  if (options.temperature == 0 || best->score == std::numeric_limits<double>::infinity()) return best->token;
  to_shares(candidates, best->score, options.temperature);
  restrict_to(candidates, options);
  double left = uniform_draw(options.seed, position) * sum_of(candidates);
  int64_t drawn = -1;
  for (const Candidate& candidate : candidates) {
    if (candidate.score == 0) continue;
    drawn = candidate.token;  // the last one where rounding has left a rest
    left -= candidate.score;
    if (left < 0) break;
  }
  return drawn;
}

}  // namespace detent
