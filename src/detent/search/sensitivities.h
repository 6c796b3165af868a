#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "detent/search/knapsack.h"
#include "detent/search/space.h"
#include "detent/search/study.h"

namespace detent {

/// How much of the distortion of two layers that add to one residual is common: the distortion of both
/// together is d1 + d2 + 2 r sqrt(d1 d2).
struct PairCorrelation {
  size_t first = 0;  // choices
  size_t second = 0;
  double correlation = 0;
};

/// Effect of each format of each operand alone on the network's output, all else in float.
struct Sensitivities {
  int64_t samples = 0;
  std::vector<std::vector<double>> losses;  // distortion, by choice and format
  std::vector<PairCorrelation> pairs;       // of weights, along residuals
};

/// Choices of weights in chains, in execution order: of layers whose results meet in additions before another
/// layer reads them.
std::vector<std::vector<size_t>> residual_chains(const Graph& network, const SearchSpace& space);

/// On at most so many samples. Nothing in `losses` when the study has ended.
Sensitivities measure_sensitivities(Study& study, int64_t samples);

/// The assignments with the least distortion for their cost, as sensitivities predict it.
class PredictedFront {
 public:
  PredictedFront(const Study& study, const Sensitivities& sensitivities);

  size_t size() const { return front_.size(); }
  int64_t cost(size_t i) const { return front_.cost(i); }
  double loss(size_t i) const { return front_.loss(i); }
  Assignment assignment(size_t i) const;
  /// The best that costs no more than `assignment`.
  size_t within(const Assignment& assignment) const;
  /// The best whose cost, as the study counts it, is not above `cost`; the cheapest where there is none.
  size_t below(const Study& study, double cost) const;
  /// At most `count` of them, evenly spread.
  std::vector<size_t> spread_places(size_t count) const;

 private:
  /// The choices of one node, and the formats that each option of the item stands for.
  struct Item {
    std::vector<size_t> choices;
    std::vector<std::vector<int>> formats;
  };

  std::vector<KnapsackItem> make_items(const Study& study, const Sensitivities& sensitivities);

  CostKind kind_;
  const CostModel& model_;
  size_t choice_count_;
  std::vector<Item> items_;
  KnapsackFront front_;
};

}  // namespace detent
