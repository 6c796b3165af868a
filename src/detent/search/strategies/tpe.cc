#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "detent/search/strategy.h"
#include "detent/search/study.h"

// Tree-structured Parzen estimators (Bergstra et al. 2011, "Algorithms for hyper-parameter optimization")
// over categories: the trials are parted into a good quarter and the rest, best fronts first. Of candidates
// drawn from the formats' frequencies in the good ones, the one is taken that is likeliest there compared
// with the rest.

namespace detent {
namespace {

constexpr size_t kBegin = 2 * kTrialBatch;  // random ones
constexpr int kCandidates = 24;
constexpr double kPrior = 1;  // trials' worth of every format as likely

/// Frequencies of the formats of each choice.
class Frequencies {
 public:
  explicit Frequencies(const SearchSpace& space) {
    for (const Choice& choice : space.choices) {
      const auto formats = static_cast<double>(choice.formats.size());
      counts_.emplace_back(choice.formats.size(), kPrior / formats);
    }
  }

  void add(const Assignment& assignment) {
    for (size_t i = 0; i < assignment.size(); ++i) counts_[i][static_cast<size_t>(assignment[i])] += 1;
    total_ += 1;
  }
  double log_probability(const Assignment& assignment) const {
    double sum = 0;
    for (size_t i = 0; i < assignment.size(); ++i)
      sum += std::log(counts_[i][static_cast<size_t>(assignment[i])] / total_);
    return sum;
  }
  Assignment draw(RandomDraws& draws) const {
    Assignment drawn;
    for (const std::vector<double>& counts : counts_) {
      double rest = draws.share() * total_;
      size_t format = 0;
      while (format + 1 < counts.size() && rest >= counts[format]) rest -= counts[format++];
      drawn.push_back(static_cast<int>(format));
    }
    return drawn;
  }

 private:
  std::vector<std::vector<double>> counts_;
  double total_ = kPrior;
};

/// Candidates that are `known` do not count; where all are, any assignment that is not.
Assignment likeliest(const Frequencies& good, const Frequencies& rest, const std::set<Assignment>& known,
                     const SearchSpace& space, RandomDraws& draws) {
  Assignment best;
  double most = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCandidates; ++i) {
    Assignment candidate = good.draw(draws);
    if (known.contains(candidate)) continue;
    const double ratio = good.log_probability(candidate) - rest.log_probability(candidate);
    if (ratio <= most) continue;
    most = ratio;
    best = std::move(candidate);
  }
  for (int i = 0; i < kCandidates && best.empty(); ++i) {
    Assignment drawn = draws.assignment(space);
    if (!known.contains(drawn)) best = std::move(drawn);
  }
  return best.empty() ? draws.assignment(space) : best;
}

}  // namespace

void search_tpe(Study& study, Sensitivities&) {
  RandomDraws draws(study.seed());
  std::vector<Assignment> batch;
  for (size_t i = 0; i < kBegin; ++i) batch.push_back(draws.assignment(study.space()));
  study.measure(batch);
  while (!study.ended()) {
    std::vector<CostAndLoss> points;
    for (const Trial& trial : study.trials()) points.push_back(study.point(trial));
    const std::vector<size_t> order = best_first(points);
    Frequencies good(study.space());
    Frequencies rest(study.space());
    std::set<Assignment> known;
    for (const Trial& trial : study.trials()) known.insert(trial.assignment);
    for (size_t i = 0; i < order.size(); ++i)
      (4 * i < order.size() ? good : rest).add(study.trials()[order[i]].assignment);
    batch.clear();
    for (size_t i = 0; i < kTrialBatch; ++i) {
      batch.push_back(likeliest(good, rest, known, study.space(), draws));
      known.insert(batch.back());
    }
    study.measure(batch);
    if (static_cast<double>(study.trials().size()) >= study.space().size()) return;
  }
}

}  // namespace detent
