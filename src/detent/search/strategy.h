#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "detent/search/sensitivities.h"
#include "detent/search/space.h"
#include "detent/search/study.h"

namespace detent {

/// Draws that are the same with every standard library, unlike its distributions.
class RandomDraws {
 public:
  explicit RandomDraws(uint64_t seed) : engine_(seed) {}

  /// In [0, count).
  int below(size_t count) { return static_cast<int>(engine_() % count); }
  /// In [0, 1).
  double share() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }

  /// Every assignment as likely as any other.
  Assignment assignment(const SearchSpace& space) {
    Assignment drawn;
    for (const Choice& choice : space.choices) drawn.push_back(below(choice.formats.size()));
    return drawn;
  }

 private:
  std::mt19937_64 engine_;
};

/// Assignments that a strategy proposes at a time, whatever the number of workers.
inline constexpr size_t kTrialBatch = 8;

/// A way to choose what to measure next. It returns when the study has ended or nothing is left to try. What
/// it does may depend on the seed and on what the study returns, and on nothing else: not on time.
struct Strategy {
  std::string name;
  std::string help;
  std::function<void(Study& study, Sensitivities& found)> run;
  double most = std::numeric_limits<double>::infinity();  // assignments that it can try
};

/// In the order to list them: the first is the default.
std::span<const Strategy> all_strategies();
/// Throws Error where the space has more assignments than the strategy can try.
void check_size(const Strategy& strategy, double assignments);
/// Throws Error with the nearest known name.
const Strategy& find_strategy(std::string_view name, const std::string& where);

// One a file under strategies/.
void search_guided(Study& study, Sensitivities& found);
void search_random(Study& study, Sensitivities& found);
void search_tpe(Study& study, Sensitivities& found);
void search_nsga2(Study& study, Sensitivities& found);
void search_brute_force(Study& study, Sensitivities& found);

}  // namespace detent
