#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/inference/code_type.h"
#include "detent/reconstruction/gptq.h"

namespace detent {

/// A layer on codes whose accumulators hold integers up to `most` in magnitude. Inputs, counted from their
/// zero point, reach from `low` <= 0 to `high` >= 0.
struct BoundedSums {
  std::vector<CodeType> weights;  // of all rows, or one a row
  int64_t most = 0;
  int64_t low = 0;
  int64_t high = 0;

  const CodeType& type(int64_t row) const {
    return weights[weights.size() == 1 ? 0 : static_cast<size_t>(row)];
  }
};

/// Nullopt where the layer's form has no sums of codes, or it has no accumulator of integers.
std::optional<BoundedSums> bounded_sums(const Graph& graph, const Node& node);

/// Amounts that the codes of a row may still add to its largest and its least sum.
class SumBudget {
 public:
  explicit SumBudget(const BoundedSums& sums)
      : low_(sums.low), high_(sums.high), above_(sums.most), below_(sums.most) {}

  /// The code nearest to `code`, towards 0, with which no sum of the row's products is beyond the
  /// accumulator.
  int64_t take(int64_t code);

 private:
  int64_t low_;
  int64_t high_;
  int64_t above_;
  int64_t below_;
};

/// The least t >= 0 with which the sum of max(|x| - t, 0) is at most `most`: the projection to an l1 ball
/// (Duchi et al. 2008, ICML).
double soft_threshold(std::vector<double> values, double most);

/// As gptq_round, with sums that accumulators hold for all inputs (AXE: Colbert et al. 2024,
/// arXiv:2409.17092): each column's value is brought towards 0 by the row's soft threshold, rounded, and cut
/// to what the budget of the row has left; columns that follow make up for all three.
void gptq_round(const GptqColumns& columns, const BoundedSums& sums, Tensor& weight, int64_t row_begin,
                int64_t row_end);

}  // namespace detent
