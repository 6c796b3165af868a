#pragma once

#include <optional>
#include <vector>

#include "detent/autograd/interpreter.h"
#include "detent/graph/graph.h"
#include "detent/training/options.h"

namespace detent {

/// The penalty on weights whose widths are learned (owned parameter "width"):
///
///     width_penalty * max(cost / width_budget - 1, 0),   cost = the sum of width * its elements
///
/// and with mac_bits of width * its products, with average_bits divided by the elements; the widths are real
/// numbers here.
class WidthBudget {
 public:
  /// Throws Error where there is a budget and no width to learn.
  WidthBudget(const Graph& graph, const Interpreter& interpreter, const TrainingOptions& options);

  /// Undefined without a budget.
  at::Tensor penalty() const;
  /// Cost of the widths as they are used, rounded.
  double cost() const;
  /// Whether the rounded widths cost no more than the budget; true where there is none.
  bool is_kept() const { return !budget_ || cost() <= *budget_; }

 private:
  struct Width {
    at::Tensor bits;
    double price = 0;  // of a bit
  };

  std::optional<double> budget_;
  double penalty_;
  std::vector<Width> widths_;
};

}  // namespace detent
