#include "detent/datasets/datasets.h"

#include <algorithm>
#include <random>
#include <utility>

namespace detent {
namespace {

constexpr int64_t kSamples = 512;
constexpr size_t kFeatures = 4;
constexpr int64_t kToyClasses = 2;

Shape sample_shape_of_points() { return {1, 2, 2}; }

/// numpy.random.RandomState(seed): MT19937, which the standard library seeds the same way.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : generator_(seed) {}

  /// `rand()`: in [0, 1), a multiple of 2^-53; the upper 27 bits come from the first of two draws.
  double uniform() {
    const auto high = static_cast<double>(generator_() >> 5);
    const auto low = static_cast<double>(generator_() >> 6);
    return (high * 0x1p26 + low) / 0x1p53;
  }

 private:
  std::mt19937 generator_;
};

class ToyTiny final : public Dataset {
 public:
  ToyTiny(std::vector<float> points, std::vector<int64_t> labels)
      : Dataset(sample_shape_of_points(), kToyClasses, std::move(labels), "computed"),
        points_(std::move(points)) {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    const auto point = std::span(points_).subspan(static_cast<size_t>(index) * kFeatures, kFeatures);
    std::copy(point.begin(), point.end(), target.begin());
  }

  std::vector<float> points_;  // kFeatures a sample
};

std::unique_ptr<Dataset> make_toy_tiny(Split split, const DatasetOptions&) {
  NumpyRandomState random(static_cast<uint32_t>(split));  // seeds 0, 1, 2, 3
  std::vector<float> points;
  std::vector<int64_t> labels;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    double sum = 0;  // of the doubles, in order, as numpy adds four numbers
    for (size_t feature = 0; feature < kFeatures; ++feature) {
      const double coordinate = (random.uniform() - 0.5) * 10;
      sum += coordinate;
      points.push_back(static_cast<float>(coordinate));
    }
    labels.push_back(sum > 0 ? 1 : 0);
  }
  return std::make_unique<ToyTiny>(std::move(points), std::move(labels));
}

}  // namespace

DatasetInfo toy_tiny_info() {
  DatasetInfo info;
  info.name = "toy_tiny";
  info.aliases = {"toy-tiny"};
  info.help =
      "512 random points in [-5, 5)^4 a split; the class is 1 where their sum is positive. This is the "
      "version of "
      "the ternary statistics tutorial; MASE's present one has 10240 points a split, in [-1, 1)^4.";
  info.task = "classification";
  info.sample_shape = sample_shape_of_points();
  info.class_count = kToyClasses;
  info.make = make_toy_tiny;
  info.has_validation = [](const DatasetOptions&) { return true; };
  return info;
}

}  // namespace detent
