#include <algorithm>

#include "detent/search/strategy.h"
#include "detent/search/study.h"

// Deb et al. 2002, "A fast and elitist multiobjective genetic algorithm: NSGA-II": parents by tournaments of
// two, uniform crossover, each gene changed with probability 1 / n, the better half of parents and children
// survives by rank and crowding.

namespace detent {
namespace {

constexpr size_t kPopulation = 2 * kTrialBatch;

/// The better of two that are drawn; `population` is sorted, the best first.
const Assignment& tournament(const std::vector<Trial>& population, RandomDraws& draws) {
  const int first = draws.below(population.size());
  const int second = draws.below(population.size());
  return population[static_cast<size_t>(std::min(first, second))].assignment;
}

Assignment child_of(const Assignment& a, const Assignment& b, const SearchSpace& space, RandomDraws& draws) {
  Assignment child;
  for (size_t i = 0; i < a.size(); ++i) child.push_back(draws.below(2) == 0 ? a[i] : b[i]);
  for (size_t i = 0; i < child.size(); ++i) {
    if (draws.below(child.size()) == 0) child[i] = draws.below(space.choices[i].formats.size());
  }
  return child;
}

std::vector<Trial> survivors(std::vector<Trial> all, const Study& study) {
  std::vector<CostAndLoss> points;
  for (const Trial& trial : all) points.push_back(study.point(trial));
  std::vector<Trial> kept;
  for (const size_t i : best_first(points)) {
    if (kept.size() == kPopulation) break;
    const auto same = [&](const Trial& trial) { return trial.assignment == all[i].assignment; };
    if (std::ranges::none_of(kept, same)) kept.push_back(all[i]);
  }
  return kept;
}

}  // namespace

void search_nsga2(Study& study, Sensitivities&) {
  RandomDraws draws(study.seed());
  std::vector<Assignment> first;
  for (size_t i = 0; i < kPopulation; ++i) first.push_back(draws.assignment(study.space()));
  std::vector<Trial> population = study.measure(first);
  while (!study.ended()) {
    population = survivors(std::move(population), study);
    std::vector<Assignment> children;
    for (size_t i = 0; i < kPopulation; ++i) {
      const Assignment& a = tournament(population, draws);
      children.push_back(child_of(a, tournament(population, draws), study.space(), draws));
    }
    const std::vector<Trial> measured = study.measure(children);
    population.insert(population.end(), measured.begin(), measured.end());
    if (static_cast<double>(study.trials().size()) >= study.space().size()) return;
  }
}

}  // namespace detent
