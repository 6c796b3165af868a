#include "detent/cli/commands/field_flags.h"

#include <cstdlib>

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/language_model.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/results.h"
#include "detent/cli/torch_command.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/file.h"
#include "detent/passes/pipeline.h"

namespace detent {

namespace {

/// With an empty group it is hidden.
void add_run_option(CLI::App& app, const OptionField& field, const std::string& group, std::string& text) {
  if (field.is_flag) {
    app.add_flag(field.flag, text, field.help)->group(group);
    return;
  }
  std::string names = field.flag;
  if (field.name == "model" || field.name == "dataset") names += "," + field.name;
  if (field.name == "output" && !group.empty()) names = "-o," + names;
  CLI::Option* option = app.add_option(names, text, field.help)->option_text("VALUE")->group(group);
  if (field.name == "shape") option->join(';');  // of several inputs
}

}  // namespace

void add_run_options(CLI::App& app, RunArguments& arguments) {
  const auto& fields = option_fields();
  arguments.texts.resize(fields.size());
  const auto add_options = [&](const std::string& group, bool usual) {
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string& name = fields[i].name;
      if (option_group(name) != group || is_usual(arguments.command, name) != usual) continue;
      const std::string shown = usual ? group : std::string(kRareOptions) + group;
      const bool read = reads_option(arguments.command, name);
      add_run_option(app, fields[i], read ? shown : "", arguments.texts[i]);
    }
  };
  for (const std::string group : option_groups()) {
    if (group == option_group("model")) {
      app.add_option("--config", arguments.config, "configuration file, NAME.toml; flags override it")
          ->option_text("FILE")
          ->group(group);
    }
    add_options(group, true);
  }
  for (const std::string group : option_groups()) add_options(group, false);
}

RunConfig merged_run_config(const CLI::App& app, const RunArguments& arguments,
                            const std::string& usual_dataset) {
  GivenOptions given;
  const auto& fields = option_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (app.count(fields[i].flag) == 0) continue;
    if (!reads_option(arguments.command, fields[i].name)) {
      const std::string instead =
          fields[i].name == "calibration" ? "; " + own_samples_text(arguments.command) : "";
      throw UsageError(fmt::format("{}: `detent {}` has no such option; it is one of: {}{}", fields[i].flag,
                                   arguments.command, readers_of(fields[i].name), instead));
    }
    given.emplace_back(fields[i].name, fields[i].parse(arguments.texts[i]));
  }
  return make_run_config(arguments.config, given, today(), arguments.command, usual_dataset);
}

void say_new_folders(const std::filesystem::path& folder) {
  const std::filesystem::path parent = missing_parent(folder);
  if (!parent.empty()) log_info("{} does not exist: it is created", parent.string());
}

namespace {

std::function<std::vector<int64_t>(const std::string& text)> tokenizer_beside(const std::string& network) {
  return [network](const std::string& text) {
    const std::optional<Tokenizer> tokenizer = find_tokenizer(network);
    if (!tokenizer) fail("{}: it has no tokenizer; calibrate with tokens, in a file .npy", network);
    return tokenizer->encode(text);
  };
}

}  // namespace

void start_run(const std::string& command, const RunConfig& config) {
  set_up_logging(config.options.log_level);
  const std::filesystem::path folder = config.result_folder.value_or(config.software_dir / command);
  if (command != "test") {
    check_writable(folder / "settings.toml", config.result_folder ? "-o" : "--project-dir");
    if (!config.result_folder) say_new_folders(config.options.project_dir);
  } else if (config.options.dump.folder) {
    say_new_folders(*config.options.dump.folder);
  }
  if (command == "transform" || command == "quantize")
    Pipeline(config.passes, config.config_file).claim_files(folder, config.options.overwrite);
  // The earlier output of a resumed search is shown anew.
  claim_report(
      {.report = config.options.report, .overwrite = config.options.overwrite || config.options.resume});
  const std::optional<WorkerEnvironment> workers =
      worker_environment([](const char* name) -> const char* { return std::getenv(name); });
  if (!config.options.json && (!workers || workers->rank == 0)) print(config.table.to_text());
  TorchCommand run{command, config.options, config.passes, config.config_file, config.software_dir, workers};
  run.search = config.search;
  run.result_folder = folder;
  run.tokenize = tokenizer_beside(config.options.load.value_or(""));
  run_command(run);
}

}  // namespace detent
