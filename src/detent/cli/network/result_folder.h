#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detent/cli/language_model.h"
#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/core/value.h"
#include "detent/files/output_folder.h"
#include "detent/graph/graph.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pipeline.h"

namespace detent {

/// The folder that `quantize` or `transform` writes, locked while it does: all that its passes write there,
/// and a network with the settings that decide what it is beside it (settings.toml), and, of a network of
/// language, its tokenizer (language_model.h). It appears as a whole.
/// Every worker has such an object; only the first writes.
class ResultFolder {
 public:
  /// Results of the command, and the network's place in them.
  struct Places {
    std::filesystem::path results;
    std::filesystem::path network;
  };

  /// `loaded`: the network before the pipeline. `sample_count`: of the training set. Throws Error where
  /// another process writes the folder, or it holds a network that other settings gave, unless --overwrite or
  /// that network was left unchanged by its pipeline. Warns where it will replace one.
  ResultFolder(const TorchCommand& command, const Places& places, const Graph& loaded,
               const Pipeline& pipeline, int64_t sample_count, ProcessGroup& group);

  std::filesystem::path graph_path() const { return folder_ / "graph_module.mz"; }
  /// For PassContext.
  const std::shared_ptr<OutputFolder>& outputs() const { return outputs_; }
  /// Replaces all that was there by what was written since, and this. Warns of quantized weights that cannot
  /// be packed.
  void save(const Graph& graph, StoredWeights weights);
  /// Likewise with MASE's files beside the graph: its metadata, and its weights as floats.
  void save_for_mase(const Graph& graph, StoredWeights weights);

 private:
  void commit(const std::vector<std::string>& left_in_float);
  void check_replaceable(bool overwrite) const;
  std::filesystem::path settings_path() const { return folder_ / "settings.toml"; }

  std::filesystem::path folder_;
  Table settings_;
  std::optional<FolderLock> lock_;         // of the first worker
  std::shared_ptr<OutputFolder> outputs_;  // likewise
  std::vector<LanguageFile> language_files_;
};

/// "batch_size = 128, got 64" for the first setting that differs, "passes.gptq.percdamp = ..." in a table;
/// empty where none does. What one of them does not have is NA.
std::string settings_difference(const Table& saved, const Table& now);

/// This process's command line.
std::vector<std::string> process_arguments();

/// `text` as one word of a POSIX shell, quoted where it must be.
std::string shell_word(const std::string& text);

/// Such words with blanks between.
std::string shell_line(const std::vector<std::string>& words);

/// Command that resumes the training that `arguments` began: they, with the project's name, which depends on
/// the date where it was not given, and --resume.
std::string resume_command(std::vector<std::string> arguments, const TorchCommand& command);

}  // namespace detent
