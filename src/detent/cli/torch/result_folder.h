#pragma once

#include <filesystem>

#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/passes/pipeline.h"

namespace detent {

/// Where `quantize` and `transform` write a network, with the settings that decide what it is beside it
/// (settings.toml). Every worker has such an object; only the first writes.
class ResultFolder {
 public:
  /// `loaded`: the network before the pipeline. `sample_count`: of the training set. Throws Error where the
  /// folder holds a network that other settings gave, unless --overwrite or that network was left unchanged
  /// by its pipeline. Warns where it will replace one.
  ResultFolder(const TorchCommand& command, std::filesystem::path folder, const Graph& loaded,
               const Pipeline& pipeline, int64_t sample_count, ProcessGroup& group);

  std::filesystem::path graph_path() const { return folder_ / "graph_module.mz"; }
  /// Replaces what was there.
  void save(const Graph& graph) const;

 private:
  void check_replaceable(bool overwrite) const;
  std::filesystem::path settings_path() const { return folder_ / "settings.toml"; }

  std::filesystem::path folder_;
  Table settings_;
  bool writes_;
};

}  // namespace detent
