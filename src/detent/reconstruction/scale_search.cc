#include "detent/reconstruction/scale_search.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "detent/formats/groups/calibrating.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/grouping.h"
#include "detent/reconstruction/matrix.h"
#include "detent/statistics/calibration.h"

namespace detent {
namespace {

/// 1 first: it wins where nothing is better.
std::vector<double> factors_of(const ScaleSearchOptions& options) {
  std::vector<double> factors = {1};
  for (int64_t i = 0; i < options.candidates; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(options.candidates - 1);
    factors.push_back(options.smallest + share * (options.largest - options.smallest));
  }
  return factors;
}

/// Ranges of the groups, each times a factor of its own.
QuantSpec with_ranges(const QuantSpec& spec, const std::vector<Distribution>& ranges,
                      const std::vector<double>& factors, const std::string& where) {
  std::vector<Distribution> scaled;
  for (size_t g = 0; g < ranges.size(); ++g) {
    const std::array ends = {static_cast<float>(static_cast<double>(ranges[g].range->low) * factors[g]),
                             static_cast<float>(static_cast<double>(ranges[g].range->high) * factors[g])};
    scaled.push_back(Distribution::range_of(ends));
  }
  return calibrate(spec, scaled, {.calibrator = Calibrator::kMinMax}, where);
}

/// The squared error that each group makes in the outputs.
class GroupErrors {
 public:
  GroupErrors(const Grouping& grouping, const Tensor& weight, const std::vector<Matrix<double>>& grams)
      : grouping_(grouping), weight_(weight), columns_(grams.front().rows()) {
    for (int64_t begin = 0; begin < columns_;) {
      const int64_t end = std::min(columns_, grouping.end_of_run(begin));
      for (const Matrix<double>& gram : grams) blocks_[begin].push_back(block_of(gram, begin, end));
      begin = end;
    }
  }

  std::vector<double> of(const Tensor& rounded) const {
    std::vector<double> errors(static_cast<size_t>(grouping_.groups()), 0.0);
    for (const auto& [begin, grams] : blocks_) {
      const int64_t rows = weight_.dim(0) / std::ssize(grams);
      for (size_t g = 0; g < grams.size(); ++g) {
        const int64_t first = static_cast<int64_t>(g) * rows;
        const Matrix<float> difference = differences(rounded, first, rows, begin, grams[g].rows());
        const Matrix<float> product = multiply(difference, grams[g]);
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t k = 0; k < grams[g].rows(); ++k)
            sum += static_cast<double>(difference(row, k)) * static_cast<double>(product(row, k));
          errors[static_cast<size_t>(grouping_.group_of((first + row) * columns_ + begin))] +=
              std::max(sum, 0.0);
        }
      }
    }
    return errors;
  }

 private:
  static Matrix<float> block_of(const Matrix<double>& gram, int64_t begin, int64_t end) {
    Matrix<float> block(end - begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t k = begin; k < end; ++k) block(i - begin, k - begin) = static_cast<float>(gram(i, k));
    }
    return block;
  }

  Matrix<float> differences(const Tensor& rounded, int64_t first_row, int64_t rows, int64_t begin,
                            int64_t count) const {
    Matrix<float> difference(rows, count);
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>((first_row + row) * columns_ + begin);
      const float* exact = weight_.values<float>().data() + at;
      const float* chosen = rounded.values<float>().data() + at;
      for (int64_t k = 0; k < count; ++k) difference(row, k) = exact[k] - chosen[k];
    }
    return difference;
  }

  Grouping grouping_;
  const Tensor& weight_;
  int64_t columns_;
  /// By the first column of each run that shares a scale within a row: its part of each matrix.
  std::map<int64_t, std::vector<Matrix<float>>> blocks_;
};

Grouping grouping_of(const QuantSpec& spec, const Tensor& weight) {
  if (spec.granularity == Granularity::kTensor) return {.outer = 1, .length = 1, .inner = weight.numel()};
  return make_grouping(spec, weight.shape());
}

}  // namespace

bool has_searchable_scales(const QuantSpec& spec) {
  return is_calibratable(spec.format) && is_ranged(spec.format) && !is_fitted(spec.format) &&
         spec.scale_rule == ScaleRule::kGiven;
}

SearchedScales search_scales(const QuantSpec& spec, const Tensor& weight,
                             const std::vector<Matrix<double>>& grams, const ScaleSearchOptions& options,
                             const std::string& where) {
  const std::vector<Distribution> ranges = weight_distributions(weight, spec, Calibrator::kMinMax, where);
  const GroupErrors group_errors(grouping_of(spec, weight), weight, grams);
  const auto total = [](const std::vector<double>& errors) {
    return std::accumulate(errors.begin(), errors.end(), 0.0);
  };
  std::vector<double> best(ranges.size(), 1.0);
  std::vector<double> least;
  SearchedScales searched{.spec = spec};
  for (const double factor : factors_of(options)) {
    const QuantSpec tried = with_ranges(spec, ranges, std::vector<double>(ranges.size(), factor), where);
    const std::vector<double> errors = group_errors.of(fake_quantize(tried, weight));
    if (least.empty()) {
      searched.before = total(errors);
      least = errors;
    }
    for (size_t g = 0; g < errors.size(); ++g) {
      if (errors[g] >= least[g]) continue;
      least[g] = errors[g];
      best[g] = factor;
    }
  }
  searched.spec = with_ranges(spec, ranges, best, where);
  searched.after = total(least);
  searched.signal = total(group_errors.of(Tensor(DType::kFloat32, weight.shape())));
  return searched;
}

}  // namespace detent
