#include "detent/passes/reconstruction/adaround.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/passes/reconstruction/better_rows.h"
#include "detent/passes/reconstruction/grid_neighbours.h"
#include "detent/passes/reconstruction/product.h"

namespace detent {
namespace {

constexpr int64_t kRowGrain = 4;

// The rectified sigmoid h(v) = clamp(1.2 * sigmoid(v) - 0.1, 0, 1) reaches 0 and 1 at finite v.
constexpr float kStretch = 1.2F;
constexpr float kShift = -0.1F;

float logistic(float v) { return 1 / (1 + std::exp(-v)); }
/// v with h(v) = h, for h in [0, 1].
float inverse_rectified(float h) { return -std::log(kStretch / (h - kShift) - 1); }

/// One weight between the two values of the grid next to it.
struct Choice {
  float low;
  float high;  // the same as `low` beyond the ends of the grid
  float v;     // what is learned
  float first_moment = 0;
  float second_moment = 0;

  bool is_open() const { return low < high; }
  float share() const { return std::clamp(kStretch * logistic(v) + kShift, 0.0F, 1.0F); }
  bool is_up() const { return logistic(v) >= 0.5F; }
};

Choice choice_between(std::span<const float> values, float weight) {
  const GridNeighbours next = grid_neighbours(values, weight);
  return {next.low, next.high, next.are_two() ? inverse_rectified(next.share) : 0};
}

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

/// The rows that share a Gram matrix, while their rounding is learned.
class Learner {
 public:
  Learner(const Matrix<double>& gram, const ValueGrid& grid, const Tensor& weight, int64_t row_begin,
          int64_t row_end)
      : n_(gram.rows()),
        rows_(row_end - row_begin),
        weight_(weight.values<float>().data() + row_begin * n_),
        difference_(rows_, n_),
        gradient_(rows_, n_),
        gram_(n_, n_) {
    for (int64_t i = 0; i < n_; ++i) std::copy_n(gram.row(i), n_, gram_.row(i));
    for (int64_t i = 0; i < rows_ * n_; ++i) {
      choices_.push_back(choice_between(grid.values(row_begin * n_ + i), weight_[i]));
    }
  }

  /// `loss_scale`: what the output error is multiplied with.
  void step(const AdaRoundOptions& options, int64_t iteration, float loss_scale) {
    const std::optional<double> exponent = regularizer_exponent(options, iteration);
    const auto beta = static_cast<float>(exponent.value_or(0));
    const float penalty = exponent ? static_cast<float>(options.regularization) : 0.0F;
    const Adam adam(options.learning_rate, iteration);
    for_each_row([&](int64_t r) {
      for (int64_t i = 0; i < n_; ++i) {
        const Choice& choice = at(r, i);
        difference_(r, i) = choice.low + (choice.high - choice.low) * choice.share() - weight_[r * n_ + i];
      }
    });
    multiply(difference_, gram_, gradient_);
    for_each_row([&](int64_t r) {
      for (int64_t i = 0; i < n_; ++i) {
        Choice& choice = at(r, i);
        if (!choice.is_open()) continue;
        const float s = logistic(choice.v);
        const float share = kStretch * s + kShift;
        if (share <= 0 || share >= 1) continue;  // where the gradient of h is 0
        float gradient = 2 * loss_scale * gradient_(r, i) * (choice.high - choice.low);
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
  Choice& at(int64_t r, int64_t i) { return choices_[static_cast<size_t>(r * n_ + i)]; }
  template <class Body>
  void for_each_row(const Body& body) {
    parallel_for(rows_, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r);
    });
  }

  int64_t n_;
  int64_t rows_;
  const float* weight_;
  Matrix<float> difference_;
  Matrix<float> gradient_;
  Matrix<float> gram_;
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

}  // namespace detent
