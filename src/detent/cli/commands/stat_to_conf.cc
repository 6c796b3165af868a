#include "detent/passes/stat_to_conf.h"

#include <fmt/format.h>

#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/io/toml.h"

namespace detent {

int run_stat_to_conf(const std::vector<std::string>& args) {
  CLI::App app(
      "Turn statistics that [passes.save_node_meta_param] saved into a configuration of [passes.quantize]: "
      "each block "
      "gets the default's config, completed from its own statistics.",
      "detent stat-to-conf");
  std::string source;
  std::string destination;
  std::string base;
  app.add_option("source", source, "saved statistics, TOML")->required()->option_text(" ");
  app.add_option("destination", destination, "configuration to write, TOML")->required()->option_text(" ");
  app.add_option("-b,--base", base, "configuration to start from; without it, ternary for every operand")
      ->option_text("FILE");
  if (!parse_arguments(app, args)) return 0;

  StatToConfInput input{read_toml(source), source, std::nullopt, base};
  if (!base.empty()) input.base = read_toml(base);
  const auto warn = [](const std::string& message) { fmt::print(stderr, "detent: warning: {}\n", message); };
  write_toml(destination, stat_to_conf(input, warn));
  return 0;
}

}  // namespace detent
