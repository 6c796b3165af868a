#include "detent/core/error.h"
#include "detent/search/random_draws.h"
#include "detent/search/strategy.h"

namespace detent {

void search_brute_force(Study& study, Sensitivities&) {
  constexpr double kMost = 1e6;
  if (study.space().size() > kMost) {
    fail(
        "brute_force: there are {:.3g} assignments, expected at most {:.0f}: give fewer formats, or another "
        "--strategy",
        study.space().size(), kMost);
  }
  const std::vector<Choice>& choices = study.space().choices;
  Assignment next(choices.size(), 0);
  bool is_last = false;
  while (!study.ended() && !is_last) {
    std::vector<Assignment> batch;
    while (batch.size() < kBatch && !is_last) {
      batch.push_back(next);
      size_t digit = 0;
      while (digit < next.size() && ++next[digit] == static_cast<int>(choices[digit].formats.size()))
        next[digit++] = 0;
      is_last = digit == next.size();
    }
    study.measure(batch);
  }
}

}  // namespace detent
