#include "detent/reconstruction/learned_rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/rounding.h"
#include "detent/reconstruction/gram.h"
#include "detent/reconstruction/gram_rows.h"

namespace detent {
namespace {

float logistic(float v) { return 1 / (1 + std::exp(-v)); }
/// v with h(v) = h, for h in [0, 1] (formats/rounding.h).
float inverse_rectified(float h) { return -std::log(kStretch / (h - kStretchFrom) - 1); }

/// One weight between the two values of the grid next to it.
struct Choice {
  float low;
  float high;  // the same as `low` beyond the ends of the grid
  float v;     // what is learned
  float first_moment = 0;
  float second_moment = 0;

  bool is_open() const { return low < high; }
  float share() const { return std::clamp(kStretch * logistic(v) + kStretchFrom, 0.0F, 1.0F); }
  bool is_up() const { return logistic(v) >= 0.5F; }
};

/// Adam (Kingma and Ba 2014, arXiv:1412.6980).
class Adam {
 public:
  Adam(double rate, int64_t iteration)
      : rate_(static_cast<float>(rate)),
        first_correction_(correction(kBeta1, iteration)),
        second_correction_(correction(kBeta2, iteration)) {}

  void step(float gradient, Choice& choice) const {
    choice.first_moment += (1 - kBeta1) * (gradient - choice.first_moment);
    choice.second_moment += (1 - kBeta2) * (gradient * gradient - choice.second_moment);
    const float root = std::sqrt(choice.second_moment * second_correction_);
    choice.v -= rate_ * choice.first_moment * first_correction_ / (root + kEpsilon);
  }

 private:
  static constexpr float kBeta1 = 0.9F;
  static constexpr float kBeta2 = 0.999F;
  static constexpr float kEpsilon = 1e-8F;
  static float correction(float beta, int64_t iteration) {
    return static_cast<float>(1 /
                              (1 - std::pow(static_cast<double>(beta), static_cast<double>(iteration + 1))));
  }

  float rate_;
  float first_correction_;
  float second_correction_;
};

class Learner {
 public:
  Learner(const Matrix<double>& gram, const ValueGrid& grid, const Tensor& weight, int64_t row_begin,
          int64_t row_end)
      : rows_(gram, weight, row_begin, row_end) {
    for (const GridNeighbours& next : rows_.neighbours(grid))
      choices_.push_back({next.low, next.high, next.are_two() ? inverse_rectified(next.share) : 0});
  }

  /// `loss_scale`: what the output error is multiplied with.
  void step(const AdaRoundOptions& options, int64_t iteration, float loss_scale) {
    const std::optional<double> exponent = regularizer_exponent(options, iteration);
    const auto beta = static_cast<float>(exponent.value_or(0));
    const float penalty = exponent ? static_cast<float>(options.regularization) : 0.0F;
    const Adam adam(options.learning_rate, iteration);
    rows_.multiply_differences([&](int64_t element) {
      const Choice& choice = choices_[static_cast<size_t>(element)];
      return choice.low + (choice.high - choice.low) * choice.share();
    });
    const int64_t n = rows_.columns();
    rows_.for_each_row([&](int64_t r) {
      for (int64_t i = 0; i < n; ++i) {
        Choice& choice = choices_[static_cast<size_t>(r * n + i)];
        if (!choice.is_open()) continue;
        const float s = logistic(choice.v);
        const float share = kStretch * s + kStretchFrom;
        if (share <= 0 || share >= 1) continue;  // where the gradient of h is 0
        float gradient = 2 * loss_scale * rows_.product(r, i) * (choice.high - choice.low);
        const float from_middle = 2 * share - 1;
        if (penalty > 0) {
          gradient -=
              penalty * 2 * beta * std::copysign(std::pow(std::fabs(from_middle), beta - 1), from_middle);
        }
        adam.step(gradient * kStretch * s * (1 - s), choice);
      }
    });
  }

  void write(float* target) const {
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      target[i] = choice.is_up() ? choice.high : choice.low;
    }
  }

 private:
  GramRows rows_;
  std::vector<Choice> choices_;
};

}  // namespace

double rounding_regularizer(double h, double beta) { return 1 - std::pow(std::fabs(2 * h - 1), beta); }

std::optional<double> regularizer_exponent(const AdaRoundOptions& options, int64_t iteration) {
  const double begin = options.warm_up * static_cast<double>(options.iterations);
  const double at = static_cast<double>(iteration);
  if (at < begin) return std::nullopt;
  const double share = (at - begin) / std::max(static_cast<double>(options.iterations) - begin, 1.0);
  return options.beta_begin + (options.beta_end - options.beta_begin) * share;
}

void adaround(const Matrix<double>& gram, const ValueGrid& grid, const AdaRoundOptions& options,
              Tensor& weight, int64_t row_begin, int64_t row_end) {
  const int64_t n = gram.rows();
  choose_better_rows(gram, grid, weight, row_begin, row_end, [&](double nearest_error, Tensor& learned) {
    // Then both terms are of the order of the number of weights, whatever the layer's inputs.
    const auto loss_scale =
        static_cast<float>(static_cast<double>((row_end - row_begin) * n) / nearest_error);
    Learner learner(gram, grid, weight, row_begin, row_end);
    for (int64_t i = 0; i < options.iterations; ++i) learner.step(options, i, loss_scale);
    learner.write(learned.values<float>().data() + row_begin * n);
  });
}

void choose_better_rows(const Matrix<double>& gram, const ValueGrid& grid, Tensor& weight, int64_t row_begin,
                        int64_t row_end,
                        const std::function<void(double nearest_error, Tensor& rounded)>& learn) {
  const int64_t n = gram.rows();
  DETENT_CHECK(weight.numel() == weight.dim(0) * n, "weight {}, Gram matrix of {}",
               shape_text(weight.shape()), n);
  Tensor nearest = weight.clone();
  const std::span<float> values = nearest.values<float>();
  for (int64_t i = row_begin * n; i < row_end * n; ++i) {
    float& value = values[static_cast<size_t>(i)];
    value = grid.rounded(i, value);
  }
  const std::vector<double> nearest_errors = output_errors(gram, nearest, weight, row_begin, row_end);
  const double before = std::accumulate(nearest_errors.begin(), nearest_errors.end(), 0.0);
  Tensor learned = nearest.clone();
  if (before > 0) learn(before, learned);
  const std::vector<double> errors = output_errors(gram, learned, weight, row_begin, row_end);
  for (int64_t r = row_begin; r < row_end; ++r) {
    const auto row = static_cast<size_t>(r - row_begin);
    const Tensor& better = errors[row] <= nearest_errors[row] ? learned : nearest;
    std::copy_n(better.values<float>().data() + r * n, n, weight.values<float>().data() + r * n);
  }
}

}  // namespace detent
