#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "detent/datasets/dataset.h"

namespace detent {

/// How the best epoch is chosen. kHeldOut: the data set's own validation samples, or, where it has none,
/// part of its training samples, which are then not trained on. kTest: the test split, as in many published
/// runs, whose accuracy there is then the best of several.
enum class ValidationSplit { kHeldOut, kTest };
constexpr std::array<const char*, 2> enum_names(ValidationSplit) { return {"held_out", "test"}; }

struct TrainingSplits {
  std::unique_ptr<Dataset> training;
  std::unique_ptr<Dataset> validation;
};

/// Both splits that a training needs; what is held out shares the memory of what is trained on. Throws Error
/// as make_dataset does, and where there are too few training samples to hold some out.
TrainingSplits make_training_splits(std::string_view name, ValidationSplit validation,
                                    const DatasetOptions& options = {});

/// Samples to calibrate on, and samples to measure accuracy on.
struct CalibrationSplits {
  std::unique_ptr<Dataset> calibration;
  std::unique_ptr<Dataset> test;
  bool is_divided = false;  // both are parts of the same samples
};

/// The training and the test split. Where these are the same samples, and have labels, no sample has a part
/// in both: half of them, and no more than `most`, calibrate, of each class its share, drawn at random and
/// the same whatever the seed.
CalibrationSplits make_calibration_splits(std::string_view name, int64_t most,
                                          const DatasetOptions& options = {});

/// This division of labelled samples, at least two.
CalibrationSplits divide_for_calibration(std::shared_ptr<const Dataset> whole, int64_t most);

/// Only these samples of `whole`, in this order.
std::unique_ptr<Dataset> make_dataset_part(std::shared_ptr<const Dataset> whole,
                                           std::vector<int64_t> samples);

/// Which of the training samples with these labels are held out, in their order: a tenth of them, rounded to
/// nearest, and of each class a tenth of its samples, rounded up or down. They are drawn at random, the same
/// whatever the seed of a training. None of fewer than 5.
std::vector<int64_t> held_out_samples(std::span<const int64_t> labels);

}  // namespace detent
