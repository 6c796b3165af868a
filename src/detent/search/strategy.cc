#include "detent/search/strategy.h"

#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"

namespace detent {

std::span<const Strategy> all_strategies() {
  static const std::vector<Strategy> kStrategies = {
      {"guided", "sensitivities, an exact integer programme over them, refinement by measurements",
       search_guided},
      {"random", "every assignment as likely as any other", search_random},
      {"tpe", "tree-structured Parzen estimators", search_tpe},
      {"nsga2", "an evolution of the front: NSGA-II", search_nsga2},
      {"brute_force", "all assignments, of small spaces", search_brute_force},
  };
  return kStrategies;
}

const Strategy& find_strategy(std::string_view name, const std::string& where) {
  std::vector<std::string> known;
  for (const Strategy& strategy : all_strategies()) {
    if (strategy.name == name) return strategy;
    known.push_back(strategy.name);
  }
  fail_unknown(where, "strategy", name, known, {.key = "strategy"});
}

}  // namespace detent
