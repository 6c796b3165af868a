#include "detent/core/error.h"
#include "detent/search/strategy.h"

namespace detent {

void search_brute_force(Study& study, Sensitivities&) {
  constexpr double kMost = 1e6;
  constexpr size_t kTogether = 64;  // what networks of a batch have in common is run once
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
    while (batch.size() < kTogether && !is_last) {
      batch.push_back(next);
      // The last layers change first, so that networks of a batch begin alike.
      size_t digit = next.size();
      while (digit > 0 && ++next[digit - 1] == static_cast<int>(choices[digit - 1].formats.size()))
        next[--digit] = 0;
      is_last = digit == 0;
    }
    study.measure(batch);
  }
}

}  // namespace detent
