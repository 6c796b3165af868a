#pragma once

#include <string>
#include <vector>

#include "detent/cli/run_config.h"

namespace CLI {
class App;
}

namespace detent {

/// What the command line of train, test, transform and quantize gives for RunOptions.
struct RunArguments {
  std::string command;
  std::string config;
  std::vector<std::string> texts;  // of option_fields(), in their order
};

/// Binds a flag for each field of RunOptions that the command reads, and --config. `arguments` must outlive
/// `app`.
void add_run_options(CLI::App& app, RunArguments& arguments);

/// Defaults, the file and the command line, merged. Throws UsageError and Error as make_run_config does.
RunConfig merged_run_config(const CLI::App& app, const RunArguments& arguments);

/// Prints the options, of several workers once, and runs the command in the half with libtorch.
void start_run(const std::string& command, const RunConfig& config);

}  // namespace detent
