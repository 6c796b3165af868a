#include "detent/search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace detent {
namespace {

constexpr double kLeast = 1e-12;  // a distortion of which no logarithm is infinite
/// How much what was seen weighs against the sensitivities: as a network as near as this would.
constexpr double kPrior = 0.3;
/// A step of one format in one of so many choices makes two networks e times less alike.
constexpr double kReach = 5;
/// Before anything was seen, as if one prediction had missed by this.
constexpr double kFirstDeviation = 0.2;

}  // namespace

Surrogate::Surrogate(const SearchSpace& space, const Sensitivities& sensitivities)
    : sensitivities_(sensitivities), squares_(kFirstDeviation * kFirstDeviation), count_(1) {
  for (size_t c = 0; c < space.choices.size(); ++c) {
    if (space.choices[c].formats.size() > 1) open_.push_back(c);
  }
}

double Surrogate::sum_of_parts(const Assignment& assignment) const {
  const auto loss = [&](size_t c) { return sensitivities_.losses[c][static_cast<size_t>(assignment[c])]; };
  double sum = 0;
  for (size_t c = 0; c < assignment.size(); ++c) sum += loss(c);
  for (const PairCorrelation& pair : sensitivities_.pairs) {
    const double product = std::max(loss(pair.first), 0.0) * std::max(loss(pair.second), 0.0);
    sum += 2 * pair.correlation * std::sqrt(product);
  }
  return std::log(std::max(sum, kLeast));
}

double Surrogate::predict(const Assignment& assignment) const {
  const double per_step = kReach / static_cast<double>(std::max<size_t>(1, open_.size()));
  double weights = kPrior;
  double sum = 0;
  for (const Seen& seen : seen_) {
    int steps = 0;
    for (const size_t c : open_) steps += std::abs(assignment[c] - seen.assignment[c]);
    const double weight = std::exp(-per_step * steps);
    weights += weight;
    sum += weight * seen.beyond;
  }
  return sum_of_parts(assignment) + sum / weights;
}

void Surrogate::see(const Assignment& assignment, double distortion) {
  const double beyond = std::log(std::max(distortion, kLeast)) - sum_of_parts(assignment);
  const auto known = std::ranges::find(seen_, assignment, &Seen::assignment);
  if (known != seen_.end()) {
    known->beyond = beyond;
    return;
  }
  const double miss = sum_of_parts(assignment) + beyond - predict(assignment);
  constexpr double kForgets = 0.95;  // predictions become better with what is seen
  squares_ = kForgets * squares_ + miss * miss;
  count_ = kForgets * count_ + 1;
  seen_.push_back({assignment, beyond});
}

double Surrogate::deviation() const { return std::sqrt(squares_ / count_); }

}  // namespace detent
