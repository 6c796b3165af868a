#include "detent/search/strategy.h"

#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"

namespace detent {
namespace {

constexpr double kMostAssignments = 1e6;

}  // namespace

std::span<const Strategy> all_strategies() {
  static const std::vector<Strategy> kStrategies = {
      {"guided", "sensitivities, an exact integer programme over them, refinement by measurements",
       search_guided},
      {"random", "every assignment as likely as any other", search_random},
      {"tpe", "tree-structured Parzen estimators", search_tpe},
      {"nsga2", "an evolution of the front: NSGA-II", search_nsga2},
      {"brute_force", "all assignments, of small spaces", search_brute_force, kMostAssignments},
  };
  return kStrategies;
}

void check_size(const Strategy& strategy, double assignments) {
  if (assignments <= strategy.most) return;
  fail("{}: there are {:.3g} assignments, expected at most {:.0f}: give fewer formats, or another --strategy",
       strategy.name, assignments, strategy.most);
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
