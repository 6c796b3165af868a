#include "detent/workflows/network_data.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "detent/passes/calibration_set.h"

namespace detent {
namespace {

/// Samples of one data set after those of another.
class JoinedInputs final : public CalibrationSet {
 public:
  struct Place {
    const Dataset* dataset;
    int64_t index;
  };

  explicit JoinedInputs(std::vector<Place> places) : places_(std::move(places)) {}

  int64_t size() const override { return std::ssize(places_); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    std::vector<Tensor> joined;
    for (int64_t i = begin; i < end;) {
      std::vector<int64_t> indices;
      const Dataset* dataset = places_[static_cast<size_t>(i)].dataset;
      for (; i < end && places_[static_cast<size_t>(i)].dataset == dataset; ++i)
        indices.push_back(places_[static_cast<size_t>(i)].index);
      append(joined, dataset->batch(indices).inputs);
    }
    return joined;
  }
  uint64_t fingerprint() const override { return 0; }

 private:
  /// One sample of a number has no dimension for it.
  static Tensor as_rows(const Tensor& tensor) { return tensor.rank() == 0 ? tensor.reshaped({1}) : tensor; }

  static void append(std::vector<Tensor>& joined, const std::vector<Tensor>& more) {
    if (joined.empty()) {
      joined = more;
      return;
    }
    for (size_t i = 0; i < more.size(); ++i) {
      const Tensor first = as_rows(joined[i]);
      const Tensor second = as_rows(more[i]);
      Shape shape = first.shape();
      shape[0] += second.dim(0);
      Tensor both(first.dtype(), shape);
      std::ranges::copy(first.bytes(), both.bytes().begin());
      std::ranges::copy(second.bytes(), both.bytes().begin() + std::ssize(first.bytes()));
      joined[i] = std::move(both);
    }
  }

  std::vector<Place> places_;
};

}  // namespace

JudgedSamples judged_samples(const Dataset& validation, const Dataset& training, int64_t count,
                             const RandomSource& random) {
  std::vector<JoinedInputs::Place> places;
  JudgedSamples samples;
  for (const Dataset* dataset : {&validation, &training}) {
    for (const int64_t index : random.shuffled_order(dataset->size())) {
      if (std::ssize(places) == count) break;
      places.push_back({dataset, index});
      samples.labels.push_back(dataset->has_labels() ? dataset->labels()[static_cast<size_t>(index)] : -1);
    }
    if (&validation == &training) break;
  }
  samples.inputs = std::make_shared<JoinedInputs>(std::move(places));
  return samples;
}

}  // namespace detent
