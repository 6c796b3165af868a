#include "detent/datasets/training_splits.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "detent/core/error.h"
#include "detent/datasets/sample_random.h"

namespace detent {

/// Some samples of another data set.
class DatasetPart final : public Dataset {
 public:
  DatasetPart(std::shared_ptr<const Dataset> whole, std::vector<int64_t> samples)
      : Dataset(whole->inputs(), whole->class_count(), labels_of(*whole, samples), whole->source()),
        whole_(std::move(whole)),
        samples_(std::move(samples)) {
    if (whole_->size_count() == 1) return;
    Sizes sizes;
    for (size_t size = 0; size < whole_->size_count(); ++size) sizes.shapes.push_back(whole_->shapes(size));
    for (const int64_t sample : samples_) sizes.of_samples.push_back(whole_->size_of_sample(sample));
    set_sizes(std::move(sizes));
  }

 private:
  static std::vector<int64_t> labels_of(const Dataset& whole, std::span<const int64_t> samples) {
    std::vector<int64_t> labels;
    for (const int64_t sample : samples) labels.push_back(whole.labels()[static_cast<size_t>(sample)]);
    return labels;
  }

  std::vector<Tensor> gather(std::span<const int64_t> indices, int64_t epoch) const override {
    std::vector<int64_t> in_whole;
    for (const int64_t index : indices) in_whole.push_back(samples_[static_cast<size_t>(index)]);
    return whole_->gather(in_whole, epoch);
  }

  std::shared_ptr<const Dataset> whole_;
  std::vector<int64_t> samples_;
};

namespace {

constexpr int64_t kHeldOutOf = 10;

/// By class, within a class at random: evenly spaced samples of this order have all classes alike.
std::vector<int64_t> by_class(std::span<const int64_t> labels) {
  std::vector<std::tuple<int64_t, double, int64_t>> order;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto sample = static_cast<int64_t>(i);
    order.emplace_back(labels[i], SampleRandom(0, 0, sample).uniform(), sample);
  }
  std::ranges::sort(order);
  std::vector<int64_t> samples;
  for (const auto& [label, place, sample] : order) samples.push_back(sample);
  return samples;
}

/// All samples but these, which are sorted.
std::vector<int64_t> all_but(std::span<const int64_t> samples, int64_t size) {
  std::vector<int64_t> rest;
  for (int64_t sample = 0; sample < size; ++sample) {
    if (!std::ranges::binary_search(samples, sample)) rest.push_back(sample);
  }
  return rest;
}

TrainingSplits divide(const std::shared_ptr<const Dataset>& whole) {
  std::vector<int64_t> held_out = held_out_samples(whole->labels());
  if (held_out.empty()) {
    fail(
        "{}: {} training samples are too few to hold some out for the validation: add validation samples, "
        "or take the test samples (--validation-split test)",
        whole->source(), whole->size());
  }
  TrainingSplits splits;
  splits.training = make_dataset_part(whole, all_but(held_out, whole->size()));
  splits.validation = make_dataset_part(whole, std::move(held_out));
  return splits;
}

}  // namespace

std::unique_ptr<Dataset> make_dataset_part(std::shared_ptr<const Dataset> whole,
                                           std::vector<int64_t> samples) {
  return std::make_unique<DatasetPart>(std::move(whole), std::move(samples));
}

std::vector<int64_t> held_out_samples(std::span<const int64_t> labels) {
  const std::vector<int64_t> order = by_class(labels);
  std::vector<int64_t> held_out;
  for (size_t i = kHeldOutOf / 2 - 1; i < order.size(); i += kHeldOutOf) held_out.push_back(order[i]);
  std::ranges::sort(held_out);
  return held_out;
}

TrainingSplits make_training_splits(std::string_view name, ValidationSplit validation,
                                    const DatasetOptions& options) {
  const DatasetInfo& info = dataset_info(name);
  std::unique_ptr<Dataset> training = make_dataset(name, Split::kTrain, options);
  if (validation == ValidationSplit::kTest)
    return {std::move(training), make_dataset(name, Split::kTest, options)};
  if (info.has_validation(options)) {
    return {std::move(training), make_dataset(name, Split::kValidation, options)};
  }
  return divide(std::move(training));
}

CalibrationSplits make_calibration_splits(std::string_view name, int64_t most,
                                          const DatasetOptions& options) {
  std::unique_ptr<Dataset> training = make_dataset(name, Split::kTrain, options);
  const bool divides =
      dataset_info(name).has_one_split(options) && training->has_labels() && training->size() > 1;
  if (!divides) return {std::move(training), make_dataset(name, Split::kTest, options), false};
  return divide_for_calibration(std::move(training), most);
}

CalibrationSplits divide_for_calibration(std::shared_ptr<const Dataset> whole, int64_t most) {
  const std::vector<int64_t> order = by_class(whole->labels());
  const int64_t count = std::min(whole->size() / 2, most);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i)
    chosen.push_back(order[static_cast<size_t>((2 * i + 1) * whole->size() / (2 * count))]);
  std::ranges::sort(chosen);
  auto rest = make_dataset_part(whole, all_but(chosen, whole->size()));
  return {make_dataset_part(std::move(whole), std::move(chosen)), std::move(rest), true};
}

}  // namespace detent
