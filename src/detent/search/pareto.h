#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace detent {

/// Two numbers; smaller is better.
struct CostAndLoss {
  double cost = 0;
  double loss = 0;

  bool operator==(const CostAndLoss&) const = default;
};

/// Whether `a` is nowhere worse than `b`, and somewhere better.
bool dominates(const CostAndLoss& a, const CostAndLoss& b);

/// Indices of the points that no other dominates, by ascending cost; of equal points the first. Points that
/// are not finite are on no front, and last of all.
std::vector<size_t> pareto_front(std::span<const CostAndLoss> points);

/// For each point, how many fronts have to be taken away before it is on one (Deb et al. 2002, NSGA-II).
std::vector<int> front_ranks(std::span<const CostAndLoss> points);

/// All points, the better ones first: by rank, and within a front those first whose neighbours are farther
/// away, relative to the front's extent (crowding distance).
std::vector<size_t> best_first(std::span<const CostAndLoss> points);

/// Whether every point of `others` is a point of `points` or dominated by one, and one of them dominated.
bool front_dominates(std::span<const CostAndLoss> points, std::span<const CostAndLoss> others);

/// At most `count` of `front`, which is sorted by cost: the first, the last, and those between that lie
/// closest to even steps of the logarithm of the cost.
std::vector<size_t> spread(std::span<const CostAndLoss> front, size_t count);

}  // namespace detent
