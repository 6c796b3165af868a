#include "detent/search/strategy.h"

namespace detent {

void search_brute_force(Study& study, Sensitivities&) {
  constexpr size_t kTogether = 64;  // what networks of a batch have in common is run once
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
