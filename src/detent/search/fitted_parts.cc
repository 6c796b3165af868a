#include "detent/search/surrogate.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/reconstruction/matrix.h"

namespace detent {
namespace {

/// By how much, relatively, sums of parts usually miss a network, and sensitivities what they tell of a part.
constexpr double kMiss = 0.03;
constexpr double kPriorMiss = 0.3;
/// Parts below this share of the smallest distortion of all can be told apart by no one.
constexpr double kLeastPartShare = 1e-3;
/// Rather than below 0, where a fit puts what is nearly nothing, a part is this share of its sensitivity.
constexpr double kLeastPart = 0.01;

}  // namespace

FittedParts::FittedParts(const SearchSpace& space, const Sensitivities& sensitivities)
    : sensitivities_(sensitivities), parts_(sensitivities.losses) {
  for (const Choice& choice : space.choices) {
    std::vector<size_t>& places = places_.emplace_back();
    for (size_t f = 0; f < choice.formats.size(); ++f) places.push_back(count_++);
  }
}

double FittedParts::sum_of_pairs(const Assignment& assignment) const {
  const auto loss = [&](size_t c) {
    return std::max(sensitivities_.losses[c][static_cast<size_t>(assignment[c])], 0.0);
  };
  double sum = 0;
  for (const PairCorrelation& pair : sensitivities_.pairs)
    sum += 2 * pair.correlation * std::sqrt(loss(pair.first) * loss(pair.second));
  return sum;
}

double FittedParts::sum(const Assignment& assignment) const {
  double sum = sum_of_pairs(assignment);
  for (size_t c = 0; c < assignment.size(); ++c) sum += parts_[c][static_cast<size_t>(assignment[c])];
  return std::max(sum, kLeastDistortion);
}

// Parts are p_i = l_i + s_i u_i, with the sensitivity l_i and its scale s_i = max(l_i, something). Of a
// network of distortion D with pairs q, the relative miss is r = (D - q - sum l_i) / D - sum (s_i / D) u_i,
// and the u are sought for which  sum r^2 / miss^2 + sum u_i^2 / prior^2  is least: (X^T X + w I) u = X^T y.
void FittedParts::fit(std::span<const std::pair<Assignment, double>> measured) {
  if (measured.empty()) return;
  double least = std::ranges::min(measured, {}, &std::pair<Assignment, double>::second).second;
  least = std::max(least, kLeastDistortion);
  const auto scale = [&](size_t c, size_t f) {
    return std::max(sensitivities_.losses[c][f], kLeastPartShare * least);
  };
  const auto n = static_cast<int64_t>(count_);
  Matrix<double> h(n, n);
  constexpr double kPriorWeight = (kMiss / kPriorMiss) * (kMiss / kPriorMiss);
  for (int64_t i = 0; i < n; ++i) h(i, i) = kPriorWeight;
  std::vector<double> b(count_);
  std::vector<std::pair<size_t, double>> row;
  for (const auto& [assignment, given] : measured) {
    const double distortion = std::max(given, kLeastDistortion);
    double miss = distortion - sum_of_pairs(assignment);
    row.clear();
    for (size_t c = 0; c < assignment.size(); ++c) {
      const auto f = static_cast<size_t>(assignment[c]);
      miss -= sensitivities_.losses[c][f];
      row.emplace_back(places_[c][f], scale(c, f) / distortion);
    }
    for (const auto& [i, x] : row) {
      b[i] += x * miss / distortion;
      for (const auto& [j, y] : row) {
        if (j <= i) h(static_cast<int64_t>(i), static_cast<int64_t>(j)) += x * y;
      }
    }
  }
  const std::vector<double> u = solved(h, b);
  for (size_t c = 0; c < parts_.size(); ++c) {
    for (size_t f = 0; f < parts_[c].size(); ++f) {
      const double loss = sensitivities_.losses[c][f];
      parts_[c][f] = std::max(loss + scale(c, f) * u[places_[c][f]], kLeastPart * std::max(loss, 0.0));
    }
  }
}

}  // namespace detent
