#include "detent/cli/torch/training_files.h"
#include "detent/graph/loop.h"

#include <algorithm>
#include <array>
#include <utility>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/xxh64.h"
#include "detent/files/file.h"
#include "detent/files/output_folder.h"
#include "detent/graph/graph_parameters.h"
#include "detent/passes/mase_graph.h"
#include "detent/training/improvement.h"
#include "detent/workers/worker_agreement.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Options that may change when a training is resumed: they do not touch what is computed, or only where it
/// ends. Of `load` it is the network that counts, not the file's name.
constexpr std::array kFreeSettings = {"load",       "load_type",      "teacher",           "project_dir",
                                      "project",    "data_dir",       "accelerator",       "num_threads",
                                      "log_level",  "worker_timeout", "num_workers",       "checkpoint_every",
                                      "resume",     "overwrite",      "report_to",         "max_time",
                                      "max_epochs", "t_max",          "log_every_n_steps", "packed_weights",
                                      "skip_broken"};

/// Settings that must be the same when the training is resumed.
Table training_settings(const RunOptions& options, const Graph& untrained, const Graph* teacher,
                        const Dataset& training_set, const ProcessGroup& group) {
  Table settings = write_fields(options);
  for (const char* name : kFreeSettings) settings.erase(name);
  // The epochs count where the learning rate depends on them.
  const TrainingOptions& training = options.training;
  if (training.learning_rate_schedule != ScheduleKind::kConstant) {
    if (!training.t_max) settings["max_epochs"] = training.max_epochs;
    settings["t_max"] = training.t_max.value_or(training.max_epochs);
  }
  settings["workers"] = group.size();
  settings["training_samples"] = training_set.size();
  if (teacher != nullptr) settings["teacher_network"] = fmt::format("{:016x}", network_fingerprint(*teacher));
  settings["untrained_network"] = fmt::format("{:016x}", network_fingerprint(untrained));
  return settings;
}

/// Older files hold a fingerprint that only the build that wrote them can compute.
constexpr const char* kOldFingerprint = "network_before_training";

std::string changed_setting(Table saved, Table now) {
  if (saved.erase(kOldFingerprint)) now.erase("untrained_network");
  // Options that the version which saved it did not have.
  for (const auto& [name, value] : write_fields(RunOptions())) {
    if (now.contains(name) && !saved.contains(name)) saved[name] = value;
  }
  return settings_difference(saved, now);
}

void warn(const std::string& text) { log_warning("{}", text); }

constexpr const char* kOtherWays =
    "keep it and train in another folder (--project NAME), or replace it (--overwrite)";

/// A training that begins anew may replace a completed one that it repeats; any other would be lost.
void check_replaceable(const fs::path& state, const Table& settings, const TrainingOptions& options) {
  SavedTraining saved;
  try {
    saved = read_training(state);
  } catch (const Error& error) {
    fail("{}: it would be replaced: {}", error.what(), kOtherWays);
  }
  const std::string folder = state.parent_path().string();
  const TrainingProgress& progress = saved.state.progress;
  const std::string other_setting = changed_setting(saved.settings, settings);
  if (!other_setting.empty()) {
    fail("{} holds a training, saved {}, with {}: resume it as it was begun (--resume), {}", folder,
         where_it_stopped(progress), other_setting, kOtherWays);
  }
  if (!has_ended(progress, options)) {
    fail("{} holds this training, saved {}: resume it (--resume), {}", folder, where_it_stopped(progress),
         kOtherWays);
  }
  if (progress.epoch - 1 > options.max_epochs) {
    fail("{} holds this training, saved {}, and max_epochs is {} now: {}", folder, where_it_stopped(progress),
         options.max_epochs, kOtherWays);
  }
  log_warning("{} holds this training, completed {}: it is repeated and replaced", folder,
              where_it_stopped(progress));
}

/// State that all workers that resume together must have read.
Table resumed_position(const std::optional<SavedTraining>& saved) {
  if (!saved) return {};
  uint64_t hash = 0;
  for (const auto& [name, tensor] : saved->state.network) hash = xxh64(std::as_const(tensor).bytes(), hash);
  return {{"the training that is resumed", write_fields(saved->state.progress)},
          {"the network that is resumed (its XXH64)", fmt::format("{:016x}", hash)}};
}

void write_network(const fs::path& path, const StateDict& network, int64_t epoch, int64_t global_step) {
  LightningCheckpoint checkpoint;
  checkpoint.epoch = epoch;
  checkpoint.global_step = global_step;
  checkpoint.state = network;
  write_lightning_checkpoint(path, checkpoint);
}

const std::vector<std::string>& training_file_names() {
  static const std::vector<std::string> kNames = {"best.ckpt", "last.ckpt", "metrics.jsonl",
                                                  "training_state.safetensors", "transformed_ckpt"};
  return kNames;
}

}  // namespace

TrainingFiles::TrainingFiles(const TorchCommand& command, const Graph& untrained, const Graph* teacher,
                             const Dataset& training_set, ProcessGroup& group)
    : folder_(command.software_dir / "training_ckpts"),
      settings_(training_settings(command.options, untrained, teacher, training_set, group)),
      writes_(group.is_first()) {
  if (command.options.resume && !fs::exists(state_path())) {
    fail("--resume: {} does not exist: no training was saved in this project (see --project)",
         state_path().string());
  }
  if (writes_) {
    lock_.emplace(folder_, "detent train", warn);
    check_names_not_read(folder_, training_file_names());
  }
  if (command.options.resume) {
    saved_ = read_training(state_path());
    const std::string other_setting = changed_setting(saved_->settings, settings_);
    if (!other_setting.empty()) {
      fail("--resume: {} was saved with {}: resume with the same settings, or begin another training: {}",
           state_path().string(), other_setting, kOtherWays);
    }
  } else if (!command.options.overwrite && fs::exists(state_path())) {
    check_replaceable(state_path(), settings_, command.options.training);
  }
  if (writes_)
    claimed_.emplace(folder_, training_file_names(), command.options.overwrite || fs::exists(state_path()));
  // The others read before the first one writes.
  check_workers_agree(resumed_position(saved_), group);
  if (!writes_) return;
  const fs::path events = command.software_dir / "tensorboard" / "events.out.tfevents.0.detent";
  if (!saved_) fs::remove(state_path());
  replaces_ = command.options.overwrite && !saved_;
  remove_unfinished_files(folder_);
  const bool reports = command.options.report_to == ReportTo::kTensorboard;
  log_.emplace(folder_ / "metrics.jsonl", reports ? std::optional(events) : std::nullopt,
               saved_ ? saved_->logs : Table());
}

StateDict TrainingFiles::resumed_best() const {
  if (!saved_ || !saved_->state.progress.best) return {};
  const fs::path path = folder_ / "best.ckpt";
  if (!fs::exists(path)) fail("--resume: {} is missing", path.string());
  return without_model_prefix(read_state_dict(path));
}

void TrainingFiles::on_epoch(const Graph& graph, const EpochReport& report) {
  if (!writes_) return;
  const StateDict network = state_dict(graph);
  write_last(network, report.epoch - 1, report.global_step);
  if (report.is_best) {
    write_network(folder_ / "best.ckpt", network, report.epoch - 1, report.global_step);
    // A state_dict does not hold formats.
    if (holds_quantizers(graph)) write_graph(graph);
  }
  log_->write(report);
}

void TrainingFiles::write_last(const StateDict& network, int64_t epoch, int64_t global_step) {
  if (std::exchange(replaces_, false)) {
    fs::remove(output_file(folder_ / "best.ckpt"));
    fs::remove_all(folder_ / "transformed_ckpt");
  }
  write_network(folder_ / "last.ckpt", network, epoch, global_step);
}

void TrainingFiles::write_graph(const Graph& graph) const {
  const fs::path folder = folder_ / "transformed_ckpt";
  OutputFolder outputs(folder, true, warn);
  save_mase_graph(graph, outputs.staged(folder));
  outputs.commit();
}

void TrainingFiles::on_step(const StepReport& report) {
  if (writes_) log_->write(report);
}

void TrainingFiles::save(const TrainingState& state) {
  if (!writes_) return;
  const TrainingProgress& progress = state.progress;
  const bool is_between_epochs = progress.batches == 0;
  // Between epochs on_epoch has written it.
  if (!is_between_epochs) {
    write_last(state.network, progress.epoch - 1, progress.global_step);
  }
  write_training(state_path(), {state, settings_, log_->sizes()});
}

}  // namespace detent
