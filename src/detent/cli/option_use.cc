#include "detent/cli/option_fields.h"

#include <algorithm>
#include <array>
#include <vector>

#include "detent/core/fields.h"
#include "detent/training/options.h"

namespace detent {
namespace {

constexpr std::array kCommands = {"train", "test", "transform", "quantize", "search", "compare"};

constexpr const char* kEvaluation = "Evaluation";
constexpr const char* kTraining = "Training";
constexpr const char* kInput = "Network and data";
constexpr const char* kOutput = "Output";
constexpr const char* kProgram = "Program";
constexpr std::array kGroups = {kEvaluation, kTraining, kInput, kOutput, kProgram};

struct OptionUse {
  std::string_view option;
  const char* group;
  std::string_view readers;  // names of commands, blanks between
};

constexpr std::string_view kAll = "train test transform quantize search compare";

// Options that are not listed: those of TrainingOptions are of training, all others are read by each command
// and stand under kInput.
constexpr std::array kUses = {
    OptionUse{"batch_size", kInput, kAll},
    OptionUse{"calibration", kInput, "transform quantize search compare"},
    OptionUse{"random_crop", kInput, "train"},
    OptionUse{"crop_padding", kInput, "train"},
    OptionUse{"horizontal_flip", kInput, "train"},
    OptionUse{"quantize", kTraining, "train"},
    OptionUse{"fold_batch_norm", kTraining, "train"},
    OptionUse{"teacher", kTraining, "train"},
    OptionUse{"output", kOutput, "quantize"},
    OptionUse{"cache_format", kInput, "quantize"},
    OptionUse{"project_dir", kOutput, "train transform quantize search compare"},
    OptionUse{"project", kOutput, "train transform quantize search compare"},
    OptionUse{"checkpoint_every", kOutput, "train transform quantize"},
    OptionUse{"resume", kOutput, "train search compare"},
    OptionUse{"overwrite", kOutput, kAll},
    OptionUse{"packed_weights", kOutput, "transform quantize"},
    OptionUse{"report_to", kOutput, "train"},
    OptionUse{"json", kOutput, "test transform quantize search compare"},
    OptionUse{"report", kOutput, "test transform quantize search compare"},
    OptionUse{"engine", kEvaluation, "test"},
    OptionUse{"reproducible", kEvaluation, "test"},
    OptionUse{"dump", kEvaluation, "test"},
    OptionUse{"dump_nodes", kEvaluation, "test"},
    OptionUse{"dump_samples", kEvaluation, "test"},
    OptionUse{"dump_as", kEvaluation, "test"},
    OptionUse{"validation_split", kInput, "train transform search"},
    OptionUse{"seed", kProgram, "train transform quantize search compare"},
    OptionUse{"accelerator", kProgram, kAll},
    OptionUse{"num_threads", kProgram, kAll},
    OptionUse{"log_level", kProgram, kAll},
    OptionUse{"worker_timeout", kProgram, kAll},
    OptionUse{"num_workers", kProgram, kAll},
};

struct UsualOptions {
  std::string_view command;
  std::string_view options;
};

constexpr std::array kUsual = {
    UsualOptions{
        "train",
        "model dataset load data_dir labels quantize teacher max_epochs learning_rate training_optimizer "
        "batch_size monitor patience project resume overwrite seed"},
    UsualOptions{"test", "model dataset load data_dir labels batch_size engine json report"},
    UsualOptions{"transform", "model dataset load data_dir calibration labels project overwrite json report"},
    UsualOptions{
        "quantize",
        "model dataset load data_dir calibration labels shape output project overwrite json report weights "
        "activations bits weight_granularity calibrator num_samples keep_float"},
    UsualOptions{
        "search",
        "model dataset load data_dir calibration labels project overwrite resume json report seed max_drop "
        "min_sqnr max_bytes max_bits max_latency time evaluations weights activations choices strategy"},
    UsualOptions{
        "compare",
        "model dataset load data_dir calibration labels project overwrite resume json report formats methods "
        "activations calibrator num_samples time eval_samples keep_float"},
};

OptionUse use_of(std::string_view option) {
  const auto listed = std::ranges::find(kUses, option, &OptionUse::option);
  if (listed != kUses.end()) return *listed;
  static const std::vector<std::string> training = field_names<TrainingOptions>();
  const bool of_training = std::ranges::find(training, option) != training.end();
  return of_training ? OptionUse{option, kTraining, "train"} : OptionUse{option, kInput, kAll};
}

bool has_word(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

bool is_usual(std::string_view command, std::string_view option) {
  const auto listed = std::ranges::find(kUsual, command, &UsualOptions::command);
  return listed != kUsual.end() && has_word(listed->options, option);
}

std::span<const char* const> option_groups() { return kGroups; }

std::string_view option_group(std::string_view option) { return use_of(option).group; }

bool reads_option(std::string_view command, std::string_view option) {
  return has_word(use_of(option).readers, command);
}

std::string readers_of(std::string_view option) {
  std::string names;
  for (const char* command : kCommands) {
    if (reads_option(command, option)) names += (names.empty() ? "" : ", ") + std::string(command);
  }
  return names;
}

}  // namespace detent
