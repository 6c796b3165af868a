#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/cli/run_options.h"
#include "detent/cli/torch_command.h"
#include "detent/core/text_table.h"
#include "detent/core/value.h"

namespace detent {

/// Fields of RunOptions that the command line gave, in its order, by field name.
using GivenOptions = std::vector<std::pair<std::string, Value>>;

struct RunConfig {
  RunOptions options;
  Table passes;
  Table search;  // [search]
  std::string config_file;
  /// As the user spelt them, in the name of the folder.
  std::filesystem::path software_dir;
  /// Name | Default | Config. File | Manual Override | Effective, a row for each option that the command
  /// reads and that does not just have its default (with log_level = "debug" for all); the third column only
  /// where there is a file.
  TextTable table;
  /// Instead of a folder of the project, one that was named.
  std::optional<std::filesystem::path> result_folder = {};
};

/// Merges defaults, the file and the command line, each winning over those before it whatever its value.
/// `config_file` may be "". `date` is today's, YYYY-MM-DD; `command` one of train, test, transform, quantize,
/// search. Throws UsageError when the name of the file does not end in .toml, and when the model or the data
/// set is missing (a model may come from a graph to load instead), else Error naming file and key: a file
/// that does not exist, unknown keys, passes, models, data sets and tasks, wrong types and ranges. A loaded
/// network gets `usual_dataset`, if any, where none is given.
RunConfig make_run_config(const std::string& config_file, const GivenOptions& given, const std::string& date,
                          const std::string& command, const std::string& usual_dataset = "");

/// How the command takes samples that are no data set of the program's, for messages.
std::string own_samples_text(const std::string& command);

/// Name that the program was called by: "ch", its old name, has another default project_dir.
void set_program_name(const std::string& name);

/// Local time.
std::string today();

}  // namespace detent
