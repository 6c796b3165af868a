#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/formats/kernel_environment.h"

namespace detent {

int run_version(const std::vector<std::string>& args) {
  CLI::App app("Print the version of detent and how it was built.", "detent version");
  bool all = false;
  app.add_flag("--all", all, "also the version of libtorch that the other half was built with");
  bool simd = false;
  app.add_flag("--simd", simd, "also the instruction sets that can be used, and the one that is");
  if (!parse_arguments(app, args)) return 0;
  std::string text = fmt::format("detent {}\nbuild type {}\ncompiler {}\n", DETENT_VERSION, DETENT_BUILD_TYPE,
                                 DETENT_COMPILER);
  if (all) text += fmt::format("libtorch {}\n", DETENT_TORCH_VERSION);
  if (simd) {
    text += fmt::format("instruction set {}\navailable {}\n", active_simd_target(),
                        fmt::join(simd_targets(), ", "));
  }
  print(text);
  return 0;
}

}  // namespace detent
