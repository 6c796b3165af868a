#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/field_flags.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/search/options.h"

namespace detent {
int run_search(const std::vector<std::string>& args) {
  CLI::App app(
      "Search the formats of weights and activations: the smallest network that is good enough, or the best "
      "one "
      "that is small enough. Writes the best network so far and the whole Pareto front while it searches.",
      "detent search");
  RunArguments run_arguments{"search", {}, {}};
  FieldFlags flags(describe_fields<SearchOptions>());
  flags.bind(app, "search", "Search");
  add_run_options(app, run_arguments);
  if (!parse_arguments(app, args)) return 0;
  RunConfig config = merged_run_config(app, run_arguments);
  if (!config.options.load)
    throw UsageError("`detent search` needs a trained network: `detent search model.onnx`, or --load FILE");
  const std::string where = config.config_file.empty() ? "detent search" : config.config_file + ", [search]";
  config.search =
      without_mase_sections(config.search, where, [](const std::string& text) { log_warning("{}", text); });
  Table given;
  for (const auto& [name, value] : flags.given(app)) given[name] = with_whole_formats(value);
  check_flags("detent search", [&] {
    SearchOptions alone;
    read_fields(alone, given, "detent search");
  });
  for (auto& [name, value] : given) config.search[name] = std::move(value);
  SearchOptions options;
  read_fields(options, config.search, where);
  if (!config.config_file.empty()) options.check(where);
  check_flags("detent search", [&] { options.check("detent search"); });
  start_run("search", config);
  return 0;
}

}  // namespace detent
