#pragma once

#include <filesystem>
#include <optional>

#include "detent/core/value.h"
#include "detent/files/append_file.h"
#include "detent/training/trainer.h"

namespace detent {

/// Metrics of a training, in files that grow while it runs: lines of JSON
///
///     {"split": "train", "step": 50, "epoch": 1, "loss": 0.7, "accuracy": 0.8, "learning_rate": 0.001,
///      "samples_per_second": 9000.0, "time": 1770000000.5}
///
/// with the split "train" (means over the steps since the line before), "train_epoch" (over the epoch,
/// without learning_rate) or "validation" (after it, without samples_per_second), and `time` in seconds since
/// 1970; and, where asked for, the same for TensorBoard, with the scales and widths of quantizers after each
/// epoch.
class MetricsLog {
 public:
  /// `keep`: the result of `sizes` when the resumed training was saved; empty for a new one.
  MetricsLog(const std::filesystem::path& lines, const std::optional<std::filesystem::path>& events,
             const Table& keep);

  void write(const StepReport& report);
  void write(const EpochReport& report);

  /// Flushes the files; their lengths by name.
  Table sizes();

 private:
  void write(const char* split, int64_t epoch, int64_t step, const Metrics& metrics, const Table& others);

  AppendFile lines_;
  std::optional<EventFile> events_;
};

}  // namespace detent
