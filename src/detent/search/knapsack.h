#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace detent {

/// Cost and loss of one option of an item.
struct KnapsackOption {
  int64_t cost = 0;
  double loss = 0;
};

/// One of its options is taken, at most 255.
struct KnapsackItem {
  std::vector<KnapsackOption> options;
  /// Additional loss of a pair of options of the item before and this one, [before][this] in row-major
  /// order; empty: none.
  std::vector<double> with_previous = {};
};

/// The multiple-choice knapsack with losses between neighbours, solved for every budget at once by dynamic
/// programming over the cost (Pisinger 1995, "A minimal algorithm for the multiple-choice knapsack problem",
/// section 2): table[i][o][c] is the least loss of the first i items that cost c and end with option o.
///
/// Exact where the costs, in units of what divides all their differences, span at most `most_units`. Beyond,
/// costs are rounded up to a coarser unit: a solution may then miss the least loss of its budget, but its
/// cost and loss are always its own.
class KnapsackFront {
 public:
  static constexpr int64_t kMostUnits = int64_t{1} << 17;

  explicit KnapsackFront(std::vector<KnapsackItem> items, int64_t most_units = kMostUnits);

  /// Solutions that no other one beats in both cost and loss, by ascending cost.
  size_t size() const { return solutions_.size(); }
  int64_t cost(size_t i) const { return solutions_[i].cost; }
  double loss(size_t i) const { return solutions_[i].loss; }
  /// The option taken of each item.
  std::vector<int> taken(size_t i) const { return trace(solutions_[i].units); }

  /// The one with the least loss that costs no more; none where nothing is that cheap.
  std::optional<size_t> within(int64_t budget) const;
  bool is_exact() const { return is_exact_; }

 private:
  struct Solution {
    int64_t cost;
    double loss;
    int64_t units;
  };
  /// The step that reached each state of one item: option * rows of the item before + its row.
  struct Steps {
    int64_t rows = 1;  // states are kept apart by the option taken where the next item asks
    std::vector<uint16_t> from;
  };

  void choose_unit(int64_t most_units);
  int64_t units_of(size_t item, size_t option) const;
  std::vector<double> add_item(size_t item, const std::vector<double>& before, int64_t rows_before);
  std::vector<int> trace(int64_t units) const;
  void collect(const std::vector<double>& least);

  std::vector<KnapsackItem> items_;
  std::vector<int64_t> cheapest_;  // of each item
  int64_t unit_ = 1;
  int64_t width_ = 1;  // of the table, in units
  bool is_exact_ = true;
  std::vector<Steps> steps_;
  std::vector<Solution> solutions_;
};

}  // namespace detent
