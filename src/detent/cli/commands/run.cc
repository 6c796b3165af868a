#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/field_flags.h"
#include "detent/cli/run_config.h"
#include "detent/core/error.h"
#include "detent/passes/pipeline.h"

namespace detent {
namespace {

void check_needs(const std::string& command, const RunConfig& config) {
  if (command != "train" && config.options.resume) {
    throw UsageError(
        fmt::format("--resume continues a training: `detent {}` has nothing to resume", command));
  }
  if (command == "test" && !config.options.load) {
    throw UsageError("`detent test` needs a network to test: --load FILE");
  }
  const DumpOptions& dump = config.options.dump;
  if (command == "test" && !dump.nodes.empty() && !dump.folder) {
    throw UsageError("--dump-nodes says what `detent test --dump DIR` writes: name a folder");
  }
  if (command == "transform" && config.passes.empty()) {
    throw UsageError(
        config.config_file.empty()
            ? "`detent transform` needs the passes to run: --config FILE.toml with [passes.NAME] tables"
            : fmt::format("{} has no [passes.NAME] table: nothing to transform", config.config_file));
  }
  if (command == "transform")
    Pipeline(config.passes, config.config_file);  // refuses before anything is loaded
}

int run(const std::string& command, const std::string& help, const std::vector<std::string>& args) {
  CLI::App app(help, "detent " + command);
  RunArguments arguments{command, {}, {}};
  add_run_options(app, arguments);
  if (!parse_arguments(app, args)) return 0;
  const RunConfig config = merged_run_config(app, arguments);
  check_needs(command, config);
  start_run(command, config);
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
