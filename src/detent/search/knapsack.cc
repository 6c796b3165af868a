#include "detent/search/knapsack.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr size_t kMostOptions = 255;

}  // namespace

KnapsackFront::KnapsackFront(std::vector<KnapsackItem> items, int64_t most_units) : items_(std::move(items)) {
  for (const KnapsackItem& item : items_) {
    DETENT_CHECK(!item.options.empty() && item.options.size() <= kMostOptions, "{} options",
                 item.options.size());
    cheapest_.push_back(std::ranges::min(item.options, {}, &KnapsackOption::cost).cost);
  }
  choose_unit(most_units);
  std::vector<double> least(static_cast<size_t>(width_), kImpossible);
  least[0] = 0;
  int64_t rows = 1;
  for (size_t i = 0; i < items_.size(); ++i) {
    least = add_item(i, least, rows);
    rows = steps_.back().rows;
  }
  collect(least);
}

void KnapsackFront::choose_unit(int64_t most_units) {
  int64_t divisor = 0;
  int64_t span = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    int64_t dearest = 0;
    for (const KnapsackOption& option : items_[i].options) {
      divisor = std::gcd(divisor, option.cost - cheapest_[i]);
      dearest = std::max(dearest, option.cost - cheapest_[i]);
    }
    span += dearest;
  }
  unit_ = std::max<int64_t>(divisor, 1);
  is_exact_ = span / unit_ <= most_units;
  if (!is_exact_) unit_ = (span + most_units - 1) / most_units;
  width_ = 1;
  for (size_t i = 0; i < items_.size(); ++i) {
    int64_t widest = 0;
    for (size_t o = 0; o < items_[i].options.size(); ++o) widest = std::max(widest, units_of(i, o));
    width_ += widest;
  }
}

int64_t KnapsackFront::units_of(size_t item, size_t option) const {
  return (items_[item].options[option].cost - cheapest_[item] + unit_ - 1) / unit_;
}

std::vector<double> KnapsackFront::add_item(size_t item, const std::vector<double>& before,
                                            int64_t rows_before) {
  const std::vector<KnapsackOption>& options = items_[item].options;
  const std::vector<double>& pairs = items_[item].with_previous;
  const bool next_asks = item + 1 < items_.size() && !items_[item + 1].with_previous.empty();
  const int64_t rows = next_asks ? std::ssize(options) : 1;
  Steps steps{rows, std::vector<uint16_t>(static_cast<size_t>(rows * width_))};
  std::vector<double> least(static_cast<size_t>(rows * width_), kImpossible);
  for (size_t o = 0; o < options.size(); ++o) {
    const int64_t units = units_of(item, o);
    const int64_t target_row = next_asks ? static_cast<int64_t>(o) * width_ : 0;
    for (int64_t row = 0; row < rows_before; ++row) {
      const size_t pair = static_cast<size_t>(row) * options.size() + o;
      const double loss = options[o].loss + (pairs.empty() ? 0 : pairs[pair]);
      const auto from = static_cast<uint16_t>(static_cast<int64_t>(o) * rows_before + row);
      for (int64_t c = 0; c + units < width_; ++c) {
        const double sum = before[static_cast<size_t>(row * width_ + c)] + loss;
        const auto target = static_cast<size_t>(target_row + c + units);
        if (sum >= least[target]) continue;
        least[target] = sum;
        steps.from[target] = from;
      }
    }
  }
  steps_.push_back(std::move(steps));
  return least;
}

std::vector<int> KnapsackFront::trace(int64_t units) const {
  std::vector<int> taken(items_.size());
  int64_t row = 0;  // the last item is not kept apart
  for (size_t i = items_.size(); i-- > 0;) {
    const uint16_t from = steps_[i].from[static_cast<size_t>(row * width_ + units)];
    const int64_t rows_before = i == 0 ? 1 : steps_[i - 1].rows;
    taken[i] = static_cast<int>(from / rows_before);
    row = from % rows_before;
    units -= units_of(i, static_cast<size_t>(taken[i]));
  }
  return taken;
}

void KnapsackFront::collect(const std::vector<double>& least) {
  std::vector<Solution> found;
  for (int64_t c = 0; c < width_; ++c) {
    const double loss = least[static_cast<size_t>(c)];
    if (loss == kImpossible || (!found.empty() && loss >= found.back().loss)) continue;
    const std::vector<int> options = trace(c);
    int64_t cost = 0;
    for (size_t i = 0; i < items_.size(); ++i)
      cost += items_[i].options[static_cast<size_t>(options[i])].cost;
    found.push_back({cost, loss, c});
  }
  // Rounded up, a dearer state may cost less than the one before.
  std::ranges::stable_sort(found, {}, &Solution::cost);
  for (const Solution& solution : found) {
    if (!solutions_.empty() && solution.loss >= solutions_.back().loss) continue;
    if (!solutions_.empty() && solution.cost == solutions_.back().cost) solutions_.pop_back();
    solutions_.push_back(solution);
  }
}

std::optional<size_t> KnapsackFront::within(int64_t budget) const {
  const auto beyond = std::ranges::upper_bound(solutions_, budget, {}, &Solution::cost);
  if (beyond == solutions_.begin()) return std::nullopt;
  return static_cast<size_t>(beyond - solutions_.begin()) - 1;
}

}  // namespace detent
