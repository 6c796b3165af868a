#include "detent/search/study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace detent {
namespace {

/// Whether `a` is nowhere worse than `b`, and somewhere better.
bool dominates(const CostAndLoss& a, const CostAndLoss& b) {
  return a.cost <= b.cost && a.loss <= b.loss && !(a == b);
}

std::vector<CostAndLoss> random_points(std::mt19937& random) {
  std::vector<CostAndLoss> points(random() % 40);
  for (CostAndLoss& point : points)
    point = {static_cast<double>(random() % 12), static_cast<double>(random() % 12)};
  return points;
}

TEST(Pareto, FrontHoldsWhatNothingDominates) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::vector<CostAndLoss> points = random_points(random);
    const std::vector<size_t> front = pareto_front(points);
    for (size_t i = 0; i < points.size(); ++i) {
      const bool dominated =
          std::ranges::any_of(points, [&](const auto& other) { return dominates(other, points[i]); });
      const bool listed = std::ranges::any_of(front, [&](size_t k) { return points[k] == points[i]; });
      EXPECT_EQ(listed, !dominated);
    }
    for (size_t k = 1; k < front.size(); ++k) {
      EXPECT_LT(points[front[k - 1]].cost, points[front[k]].cost);
      EXPECT_GT(points[front[k - 1]].loss, points[front[k]].loss);
    }
  }
}

TEST(Pareto, RanksAreThoseOfFrontsTakenAwayOneByOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const std::vector<CostAndLoss> points = random_points(random);
    const std::vector<int> ranks = front_ranks(points);
    std::vector<bool> left(points.size(), true);
    for (int rank = 0; std::ranges::count(left, true) > 0; ++rank) {
      std::vector<bool> next = left;
      for (size_t i = 0; i < points.size(); ++i) {
        if (!left[i]) continue;
        bool dominated = false;
        for (size_t k = 0; k < points.size(); ++k)
          dominated = dominated || (left[k] && dominates(points[k], points[i]));
        EXPECT_EQ(ranks[i] == rank, !dominated);
        next[i] = dominated;
      }
      left = next;
    }
    const std::vector<size_t> order = best_first(points);
    EXPECT_EQ(order.size(), points.size());
    EXPECT_TRUE(std::ranges::is_sorted(order, {}, [&](size_t i) { return ranks[i]; }));
  }
}

TEST(Pareto, WhatIsNotFiniteIsOnNoFrontAndTheLastOfAll) {
  const double nan = std::nan("");
  const std::vector<CostAndLoss> points = {{0, nan}, {3, 1}, {0, HUGE_VAL}, {nan, 0}, {1, 2}};
  EXPECT_EQ(pareto_front(points), (std::vector<size_t>{4, 1}));
  EXPECT_EQ(best_first(points), (std::vector<size_t>{4, 1, 0, 2, 3}));
  EXPECT_EQ(pareto_front(std::vector<CostAndLoss>{{0, nan}}), std::vector<size_t>());
}

TEST(Pareto, SpreadKeepsEndsAndOrder) {
  std::vector<CostAndLoss> front;
  for (int i = 1; i <= 100; ++i) front.push_back({static_cast<double>(i), -static_cast<double>(i)});
  const std::vector<size_t> chosen = spread(front, 8);
  EXPECT_LE(chosen.size(), 8U);
  EXPECT_GE(chosen.size(), 6U);
  EXPECT_EQ(chosen.front(), 0U);
  EXPECT_EQ(chosen.back(), 99U);
  EXPECT_TRUE(std::ranges::is_sorted(chosen));
  EXPECT_EQ(spread(std::span(front).first(3), 8).size(), 3U);
}

}  // namespace
}  // namespace detent
