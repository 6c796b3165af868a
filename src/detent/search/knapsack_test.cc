#include "detent/search/knapsack.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace detent {
namespace {

struct ItemValue {
  int64_t cost = 0;
  double loss = 0;
};

ItemValue value_of(const std::vector<KnapsackItem>& items, const std::vector<int>& taken) {
  ItemValue value;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto option = static_cast<size_t>(taken[i]);
    value.cost += items[i].options[option].cost;
    value.loss += items[i].options[option].loss;
    if (items[i].with_previous.empty()) continue;
    value.loss +=
        items[i].with_previous[static_cast<size_t>(taken[i - 1]) * items[i].options.size() + option];
  }
  return value;
}

/// The least loss that costs no more, by trying everything.
double least_loss(const std::vector<KnapsackItem>& items, int64_t budget) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> taken(items.size(), 0);
  while (true) {
    const ItemValue value = value_of(items, taken);
    if (value.cost <= budget) least = std::min(least, value.loss);
    size_t digit = 0;
    while (digit < taken.size() && ++taken[digit] == std::ssize(items[digit].options)) taken[digit++] = 0;
    if (digit == taken.size()) return least;
  }
}

std::vector<KnapsackItem> random_items(std::mt19937& random, int64_t step) {
  const auto below = [&](uint32_t count) { return random() % count; };
  std::vector<KnapsackItem> items(1 + below(5));
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].options.resize(1 + below(4));
    for (KnapsackOption& option : items[i].options)
      option = {step * static_cast<int64_t>(below(40)), static_cast<double>(below(1000)) / 64 - 2};
    if (i == 0 || below(2) == 0) continue;
    for (size_t k = 0; k < items[i].options.size() * items[i - 1].options.size(); ++k)
      items[i].with_previous.push_back(static_cast<double>(below(256)) / 64 - 2);
  }
  return items;
}

TEST(Knapsack, FindsWhatTryingEverythingFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<KnapsackItem> items = random_items(random, 1 + static_cast<int64_t>(random() % 1000));
    const KnapsackFront front(items);
    ASSERT_TRUE(front.is_exact());
    ASSERT_GT(front.size(), 0U);
    int64_t dearest = 0;
    for (size_t i = 0; i < front.size(); ++i) {
      const ItemValue value = value_of(items, front.taken(i));
      ASSERT_EQ(value.cost, front.cost(i));
      ASSERT_NEAR(value.loss, front.loss(i), 1e-9);
      if (i > 0) {
        ASSERT_GT(front.cost(i), front.cost(i - 1));
        ASSERT_LT(front.loss(i), front.loss(i - 1));
      }
      dearest = front.cost(i);
    }
    for (const int64_t budget : {front.cost(0), (front.cost(0) + dearest) / 2, dearest, dearest + 1000}) {
      const auto within = front.within(budget);
      ASSERT_TRUE(within.has_value());
      ASSERT_NEAR(front.loss(*within), least_loss(items, budget), 1e-9) << "round " << round;
    }
    ASSERT_FALSE(front.within(front.cost(0) - 1).has_value());
  }
}

TEST(Knapsack, KeepsBudgetsWhereCostsAreTooFineForTheTable) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const std::vector<KnapsackItem> items = random_items(random, 997);
    const KnapsackFront front(items, 16);
    for (size_t i = 0; i < front.size(); ++i) {
      const ItemValue value = value_of(items, front.taken(i));
      ASSERT_EQ(value.cost, front.cost(i));
      ASSERT_NEAR(value.loss, front.loss(i), 1e-9);
    }
  }
}

TEST(Knapsack, OfOneOptionEachThereIsOneSolution) {
  const KnapsackFront front({{.options = {{5, 1.0}}}, {.options = {{7, 2.0}}}});
  ASSERT_EQ(front.size(), 1U);
  EXPECT_EQ(front.cost(0), 12);
  EXPECT_EQ(front.taken(0), (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace detent
