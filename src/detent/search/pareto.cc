#include "detent/search/study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace detent {
namespace {

/// The finite points: others have no place in an order.
std::vector<size_t> by_cost(std::span<const CostAndLoss> points) {
  std::vector<size_t> order;
  for (size_t i = 0; i < points.size(); ++i)
    if (std::isfinite(points[i].cost) && std::isfinite(points[i].loss)) order.push_back(i);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(points[a].cost, points[a].loss) < std::pair(points[b].cost, points[b].loss);
  });
  return order;
}

/// For each point of one front, how far its neighbours are from each other, in both numbers.
std::vector<double> crowding(std::span<const CostAndLoss> points, const std::vector<size_t>& front) {
  std::vector<double> distance(front.size(), std::numeric_limits<double>::infinity());
  const CostAndLoss& first = points[front.front()];
  const CostAndLoss& last = points[front.back()];
  const double cost_extent = std::max(last.cost - first.cost, std::numeric_limits<double>::min());
  const double loss_extent = std::max(first.loss - last.loss, std::numeric_limits<double>::min());
  for (size_t i = 1; i + 1 < front.size(); ++i) {
    const CostAndLoss& before = points[front[i - 1]];
    const CostAndLoss& after = points[front[i + 1]];
    distance[i] = (after.cost - before.cost) / cost_extent + (before.loss - after.loss) / loss_extent;
  }
  return distance;
}

}  // namespace

std::vector<size_t> pareto_front(std::span<const CostAndLoss> points) {
  std::vector<size_t> front;
  for (const size_t i : by_cost(points)) {
    if (front.empty() || points[i].loss < points[front.back()].loss) front.push_back(i);
  }
  return front;
}

std::vector<int> front_ranks(std::span<const CostAndLoss> points) {
  std::vector<int> ranks(points.size(), std::numeric_limits<int>::max());
  std::vector<CostAndLoss> last_of_front;  // the one with the least loss so far
  for (const size_t i : by_cost(points)) {
    size_t rank = 0;
    // In order of cost a point is dominated by a front if its last one loses no more, unless they are equal.
    while (rank < last_of_front.size() && last_of_front[rank].loss <= points[i].loss &&
           !(last_of_front[rank] == points[i])) {
      ++rank;
    }
    if (rank == last_of_front.size()) last_of_front.emplace_back();
    last_of_front[rank] = points[i];
    ranks[i] = static_cast<int>(rank);
  }
  return ranks;
}

std::vector<size_t> best_first(std::span<const CostAndLoss> points) {
  const std::vector<int> ranks = front_ranks(points);
  std::vector<std::vector<size_t>> fronts;
  for (const size_t i : by_cost(points)) {
    const auto rank = static_cast<size_t>(ranks[i]);
    if (rank >= fronts.size()) fronts.resize(rank + 1);
    fronts[rank].push_back(i);
  }
  std::vector<size_t> order;
  for (const std::vector<size_t>& front : fronts) {
    const std::vector<double> distance = crowding(points, front);
    std::vector<size_t> places(front.size());
    std::iota(places.begin(), places.end(), size_t{0});
    std::ranges::stable_sort(places, std::greater<>(), [&](size_t i) { return distance[i]; });
    for (const size_t place : places) order.push_back(front[place]);
  }
  for (size_t i = 0; i < points.size(); ++i)
    if (ranks[i] == std::numeric_limits<int>::max()) order.push_back(i);
  return order;
}

std::vector<size_t> spread(std::span<const CostAndLoss> front, size_t count) {
  std::vector<size_t> chosen;
  if (front.size() <= count) {
    chosen.resize(front.size());
    std::iota(chosen.begin(), chosen.end(), size_t{0});
    return chosen;
  }
  const auto place = [&](size_t i) { return std::log(std::max(front[i].cost, 1e-9)); };
  const double step =
      (place(front.size() - 1) - place(0)) / static_cast<double>(std::max<size_t>(count, 2) - 1);
  for (size_t k = 0, i = 0; k < count; ++k) {
    const double wanted = place(0) + static_cast<double>(k) * step;
    while (i + 1 < front.size() && std::fabs(place(i + 1) - wanted) <= std::fabs(place(i) - wanted)) ++i;
    if (k + 1 == count) i = front.size() - 1;
    if (chosen.empty() || chosen.back() != i) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace detent
