#include "detent/reconstruction/bounded_sums.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "detent/graph/accumulator.h"
#include "detent/inference/node_form.h"
#include "detent/reconstruction/rounded_columns.h"

namespace detent {
namespace {

/// How many steps of `unit` there are in what is left.
int64_t steps_in(int64_t left, int64_t unit) {
  return unit == 0 ? std::numeric_limits<int64_t>::max() : left / unit;
}

/// Rounds one row to codes within its budget.
class BoundedRow {
 public:
  BoundedRow(const BoundedSums& sums, int64_t row, std::span<const float> weights)
      : type_(sums.type(row)), budget_(sums) {
    std::vector<double> steps;
    for (const float weight : weights)
      steps.push_back(static_cast<double>(weight) / static_cast<double>(type_.scale));
    const int64_t range = sums.high - sums.low;
    const double most =
        range == 0 ? HUGE_VAL : 2 * static_cast<double>(sums.most) / static_cast<double>(range);
    threshold_ = soft_threshold(std::move(steps), most) * static_cast<double>(type_.scale);
  }

  float operator()(int64_t i, const double* row) {
    const double magnitude = std::max(std::fabs(row[i]) - threshold_, 0.0);
    const int32_t code = type_.code(static_cast<float>(std::copysign(magnitude, row[i])));
    const int64_t held = budget_.take(code - type_.zero_point);
    return type_.value(static_cast<int32_t>(held) + type_.zero_point);
  }

 private:
  const CodeType& type_;
  SumBudget budget_;
  double threshold_ = 0;
};

}  // namespace

std::optional<BoundedSums> bounded_sums(const Graph& graph, const Node& node) {
  const std::optional<Accumulator> accumulator = accumulator_of(node);
  if (!accumulator || accumulator->is_float() || !graph.requantization()) return std::nullopt;
  const std::optional<NodeForm> form = node_form(node, *graph.requantization());
  const auto* sums = form ? std::get_if<SumForm>(&*form) : nullptr;
  if (sums == nullptr) return std::nullopt;
  return BoundedSums{.weights = executed_types(*node.rounding("weight")),
                     .most = (int64_t{1} << (accumulator->width - 1)) - 1,
                     .low = sums->input.low - sums->input.zero_point,
                     .high = sums->input.high - sums->input.zero_point};
}

int64_t SumBudget::take(int64_t code) {
  const int64_t up = code > 0 ? high_ : -low_;  // what a step adds to the largest sum, and to the least
  const int64_t down = code > 0 ? -low_ : high_;
  const int64_t steps = std::min({std::abs(code), steps_in(above_, up), steps_in(below_, down)});
  above_ -= steps * up;
  below_ -= steps * down;
  return code > 0 ? steps : -steps;
}

double soft_threshold(std::vector<double> values, double most) {
  for (double& value : values) value = std::fabs(value);
  std::ranges::sort(values, std::greater<>());
  double sum = 0;
  double threshold = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    const double of_these = (sum - most) / static_cast<double>(i + 1);
    if (of_these > values[i]) break;
    threshold = of_these;
  }
  return std::max(threshold, 0.0);
}

void gptq_round(const GptqColumns& columns, const BoundedSums& sums, Tensor& weight, int64_t row_begin,
                int64_t row_end) {
  const auto count = static_cast<size_t>(columns.count());
  const auto make_row = [&](int64_t r) {
    return BoundedRow(sums, r, weight.values<float>().subspan(static_cast<size_t>(r) * count, count));
  };
  round_columns(columns, make_row, weight, row_begin, row_end);
}

}  // namespace detent
