#include "detent/cli/commands/run_arguments.h"

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/torch_half.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/io/output_path.h"

namespace detent {

void add_run_options(CLI::App& app, RunArguments& arguments) {
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

RunConfig merged_run_config(const CLI::App& app, const RunArguments& arguments) {
  const bool empty_config = app.count("--config") > 0 && arguments.config.empty();
  if (empty_config) throw UsageError("--config: got \"\", expected a file whose name ends in .toml");
  GivenOptions given;
  const auto& fields = option_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (app.count(fields[i].flag) == 0) continue;
    given.emplace_back(fields[i].name, fields[i].parse(arguments.texts[i]));
  }
  return make_run_config(arguments.config, given, today());
}

void start_run(const std::string& command, const RunConfig& config) {
  if (command != "test") check_writable(config.software_dir / command / "settings.toml", "--project-dir");
  set_up_logging(config.options.log_level);
  const std::optional<WorkerEnvironment> workers =
      worker_environment([](const char* name) -> const char* { return std::getenv(name); });
  if (!workers || workers->rank == 0) print(config.table.to_text());
  run_torch_command(
      {command, config.options, config.passes, config.config_file, config.software_dir, workers});
}

}  // namespace detent
