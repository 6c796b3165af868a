#include "detent/search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "detent/reconstruction/matrix.h"

namespace detent {
namespace {

/// A step of one format in one of so many choices makes two networks e times less alike.
constexpr double kReach = 1.5;
/// The share of what networks have beyond their parts that no other tells of.
constexpr double kOwnShare = 0.02;
/// Before anything was seen, as if one prediction had missed by this.
constexpr double kFirstDeviation = 0.2;
/// Parts are fitted again when so many more networks were seen, or this share of them; the rest more often.
constexpr size_t kFirstFit = 8;
constexpr size_t kPartsShare = 8;
constexpr size_t kRestShare = 32;

}  // namespace

Surrogate::Surrogate(const SearchSpace& space, const Sensitivities& sensitivities)
    : parts_(space, sensitivities),
      next_parts_(kFirstFit),
      squares_(kFirstDeviation * kFirstDeviation),
      count_(1) {
  for (size_t c = 0; c < space.choices.size(); ++c) {
    if (space.choices[c].formats.size() > 1) open_.push_back(c);
  }
}

double Surrogate::likeness(const Assignment& a, const Assignment& b) const {
  int steps = 0;
  for (const size_t c : open_) steps += std::abs(a[c] - b[c]);
  return std::exp(-kReach * steps / static_cast<double>(std::max<size_t>(1, open_.size())));
}

void Surrogate::fit_parts() {
  parts_.fit(seen_);
  next_parts_ = seen_.size() + std::max(kFirstFit, seen_.size() / kPartsShare);
}

void Surrogate::fit_rest() {
  const auto n = static_cast<int64_t>(seen_.size());
  Matrix<double> covariance(n, n);
  std::vector<double> beyond;
  for (int64_t i = 0; i < n; ++i) {
    const auto& [assignment, distortion] = seen_[static_cast<size_t>(i)];
    for (int64_t j = 0; j < i; ++j)
      covariance(i, j) = likeness(assignment, seen_[static_cast<size_t>(j)].first);
    covariance(i, i) = 1 + kOwnShare;
    beyond.push_back(std::log(std::max(distortion, kLeastDistortion)) - std::log(parts_.sum(assignment)));
  }
  weights_ = solved(covariance, beyond);
  next_rest_ = seen_.size() + std::max<size_t>(1, seen_.size() / kRestShare);
}

double Surrogate::predict(const Assignment& assignment) const {
  double beyond = 0;
  for (size_t i = 0; i < weights_.size(); ++i) beyond += weights_[i] * likeness(assignment, seen_[i].first);
  return std::log(parts_.sum(assignment)) + beyond;
}

void Surrogate::see(const Assignment& assignment, double distortion) {
  const auto known = std::ranges::find(seen_, assignment, &std::pair<Assignment, double>::first);
  if (known != seen_.end()) {
    known->second = distortion;
    return;
  }
  const double miss = std::log(std::max(distortion, kLeastDistortion)) - predict(assignment);
  constexpr double kForgets = 0.95;  // predictions become better with what is seen
  squares_ = kForgets * squares_ + miss * miss;
  count_ = kForgets * count_ + 1;
  seen_.emplace_back(assignment, distortion);
  const bool is_due = seen_.size() >= next_parts_;
  if (is_due) fit_parts();
  if (is_due || seen_.size() >= next_rest_) fit_rest();
}

double Surrogate::deviation() const { return std::sqrt(squares_ / count_); }

}  // namespace detent
