#include <fmt/format.h>

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/run_config.h"
#include "detent/cli/torch_half.h"
#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

/// The command line of train, test and transform.
struct RunArguments {
  std::string config;
  std::vector<std::string> texts;  // of option_fields(), in their order
};

void add_options(CLI::App& app, RunArguments& arguments) {
  app.add_option("--config", arguments.config, "configuration file, NAME.toml; flags win over it");
  const auto& fields = option_fields();
  arguments.texts.resize(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool positional = fields[i].name == "model" || fields[i].name == "dataset";
    if (fields[i].is_flag) {
      app.add_flag(fields[i].flag, arguments.texts[i], fields[i].help);
    } else {
      app.add_option(positional ? fields[i].flag + "," + fields[i].name : fields[i].flag, arguments.texts[i],
                     fields[i].help)
          ->option_text("VALUE");
    }
  }
}

GivenOptions given_options(const CLI::App& app, const RunArguments& arguments) {
  GivenOptions given;
  const auto& fields = option_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (app.count(fields[i].flag) == 0) continue;
    given.emplace_back(fields[i].name, fields[i].parse(arguments.texts[i]));
  }
  return given;
}

void check_needs(const std::string& command, const RunConfig& config) {
  if (command != "train" && config.options.resume) {
    throw UsageError(
        fmt::format("--resume goes on with a training: `detent {}` has nothing to go on with", command));
  }
  if (command == "test" && !config.options.load) {
    throw UsageError("`detent test` needs a network to test: --load FILE");
  }
  if (command == "transform" && config.passes.empty()) {
    throw UsageError(
        config.config_file.empty()
            ? "`detent transform` needs the passes to run: --config FILE.toml with [passes.NAME] tables"
            : fmt::format("{} has no [passes.NAME] table: nothing to transform", config.config_file));
  }
}

int run(const std::string& command, const std::string& help, const std::vector<std::string>& args) {
  CLI::App app(help, "detent " + command);
  RunArguments arguments;
  add_options(app, arguments);
  if (!parse_arguments(app, args)) return 0;
  const bool empty_config = app.count("--config") > 0 && arguments.config.empty();
  if (empty_config) throw UsageError("--config: got \"\", expected a file whose name ends in .toml");
  const RunConfig config = make_run_config(arguments.config, given_options(app, arguments), today());
  check_needs(command, config);
  set_up_logging(config.options.log_level);
  const std::optional<WorkerEnvironment> workers =
      worker_environment([](const char* name) -> const char* { return std::getenv(name); });
  if (!workers || workers->rank == 0) print(config.table.to_text());
  run_torch_command(
      {command, config.options, config.passes, config.config_file, config.software_dir, workers});
  return 0;
}

}  // namespace

int run_train(const std::vector<std::string>& args) { return run("train", "Train a network.", args); }

int run_test(const std::vector<std::string>& args) {
  return run("test", "Evaluate a loaded network on the test split.", args);
}

int run_transform(const std::vector<std::string>& args) {
  return run("transform", "Run the passes of a configuration file, in its order, on a network.", args);
}

}  // namespace detent
