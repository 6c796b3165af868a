#include "detent/cli/network/result_folder.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/file.h"
#include "detent/files/toml.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Options that do not touch what is computed. Of model and load it is the network that counts.
constexpr std::array kFree = {"model",          "load",         "load_type",        "project_dir",
                              "project",        "data_dir",     "skip_broken",      "accelerator",
                              "engine",         "reproducible", "num_threads",      "log_level",
                              "worker_timeout", "num_workers",  "checkpoint_every", "resume",
                              "overwrite",      "report_to",    "packed_weights",   "json",
                              "report"};

/// All that decides what the pipeline makes of the network.
Table settings_of(const TorchCommand& command, const Graph& loaded, bool changes_network,
                  int64_t sample_count) {
  Table settings = write_fields(command.options);
  for (const char* name : kFree) settings.erase(name);
  for (const std::string& name : field_names<TrainingOptions>()) {
    if (name != "batch_size") settings.erase(name);
  }
  settings["training_samples"] = sample_count;
  settings["network_before"] = fmt::format("{:016x}", network_fingerprint(loaded));
  settings["changes_network"] = changes_network;
  const std::vector<std::string> order = command.passes.keys();
  settings["order_of_passes"] = List(order.begin(), order.end());
  settings["passes"] = command.passes;
  return settings;
}

constexpr const char* kOtherFolders =
    "keep it and write to another folder (--project NAME), or replace it (--overwrite)";

}  // namespace

ResultFolder::ResultFolder(const TorchCommand& command, const Places& places, const Graph& loaded,
                           const Pipeline& pipeline, int64_t sample_count, ProcessGroup& group)
    : folder_(places.network),
      settings_(settings_of(command, loaded, pipeline.changes_network(), sample_count)) {
  const auto warn = [](const std::string& text) { log_warning("{}", text); };
  if (group.is_first()) {
    lock_.emplace(places.results, "detent " + command.name, warn);
    outputs_ = std::make_shared<OutputFolder>(places.results, command.options.overwrite, warn);
  }
  check_replaceable(command.options.overwrite);
  if (outputs_ != nullptr) {
    if (command.options.load) language_files_ = language_files(*command.options.load, loaded);
    const fs::path network = places.network.lexically_relative(places.results);
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
      names.push_back((network / name).lexically_normal().string());
    };
    for (const char* name : {"graph_module.mz", "node_meta_param.toml", "state_dict.pt", "settings.toml"})
      add(name);
    for (const LanguageFile& file : language_files_) add(file.name);
    outputs_->check_names(names);
  }
  group.all_gather({});  // the others read before the first one writes
}

void ResultFolder::check_replaceable(bool overwrite) const {
  if (!fs::exists(graph_path())) return;
  const std::string file = graph_path().string();
  if (overwrite) {
    log_warning("{} will be replaced (--overwrite)", file);
    return;
  }
  if (!fs::exists(settings_path())) {
    fail("{} would be replaced, and {} does not say what it is: {}", file, settings_path().string(),
         kOtherFolders);
  }
  const Table saved = read_toml(settings_path());
  const std::string difference = settings_difference(saved, settings_);
  if (difference.empty()) {
    log_warning("{} holds the result of this command: it is repeated and replaced", file);
    return;
  }
  const Value* changed = saved.find("changes_network");
  if (changed == nullptr || *changed != Value(false)) {
    fail("{} holds the result of other settings ({}): {}", file, difference, kOtherFolders);
  }
  log_warning("{} holds a network that no pass has changed: it is replaced", file);
}

void ResultFolder::save(const Graph& graph, StoredWeights weights) {
  if (outputs_ == nullptr) return;
  const fs::path file = outputs_->staged(graph_path());
  if (weights == StoredWeights::kPacked) return commit(write_packed_graph(file, graph));
  write_graph(file, graph);
  commit({});
}

void ResultFolder::save_for_mase(const Graph& graph, StoredWeights weights) {
  if (outputs_ != nullptr) commit(save_mase_graph(graph, outputs_->staged(folder_), weights));
}

void ResultFolder::commit(const std::vector<std::string>& left_in_float) {
  for (const std::string& line : left_in_float) log_warning("stays float32: {}", line);
  for (const LanguageFile& file : language_files_)
    write_file(outputs_->staged(folder_ / file.name), file.content());
  write_toml(outputs_->staged(settings_path()), settings_);
  outputs_->commit();
}

namespace {

std::string difference_in(const std::string& path, const Table& saved, const Table& now) {
  std::vector<std::string> keys = now.keys();
  for (const std::string& key : saved.keys()) {
    if (!now.contains(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const Value before = saved.contains(key) ? *saved.find(key) : Value();
    const Value given = now.contains(key) ? *now.find(key) : Value();
    if (before.is<Table>() && given.is<Table>()) {
      const std::string found =
          difference_in(path + key + ".", *before.get_if<Table>(), *given.get_if<Table>());
      if (!found.empty()) return found;
    } else if (before != given) {
      return fmt::format("{}{} = {}, got {}", path, key, value_text(before), value_text(given));
    }
  }
  return "";
}

}  // namespace

std::string settings_difference(const Table& saved, const Table& now) {
  return difference_in("", saved, now);
}

}  // namespace detent
