#include "detent/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "detent/cli/commands/command.h"
#include "detent/cli/run_config.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/log.h"
#include "detent/core/process_resources.h"
#include "detent/core/text.h"
#include "detent/files/file_roles.h"
#include "detent/files/open_files.h"
#include "detent/formats/kernel_environment.h"

namespace detent {

std::span<const Command> all_commands() {
  static const std::vector<Command> kCommands = {
      {"train", "train a network", run_train},
      {"test", "evaluate a loaded network on the test split", run_test},
      {"transform", "run passes (profile, quantize, report, ...) on a network", run_transform},
      {"quantize", "quantize a network for execution in integers, and compare", run_quantize},
      {"search", "find the smallest formats that keep a network good", run_search},
      {"compare", "quantize a network to several formats by several methods, and compare", run_compare},
      {"run", "run a network on arrays, and write or compare what it gives", run_run},
      {"generate", "continue a text, or chat, with a language model", run_generate},
      {"perplexity", "measure how well a language model predicts a text", run_perplexity},
      {"bench", "measure how fast a network runs in the engine", run_bench},
      {"export", "write a network as an ONNX model", run_export},
      {"emit", "write a network as a description of hardware", run_emit},
      {"stat-to-conf", "turn saved statistics into a quantization configuration", run_stat_to_conf},
      {"stats", "show saved statistics, or how two files of them differ", run_stats},
      {"quickstart", "train, quantize and compare on built-in data, in one go", run_quickstart},
      {"example", "show something about quantization with numbers and a picture", run_example},
      {"list", "list models, data sets, passes, operators, formats and statistics", run_list},
      {"formats", "list number formats, or show the range and values of one", run_formats},
      {"tensor", "quantize, unpack and compare files of tensors", run_tensor},
      {"data", "fetch published data sets", run_data},
      {"info", "show what a graph or tensor file holds", run_info},
      {"version", "print the version and how this program was built", run_version},
      {"completion", "print what makes a shell complete command lines", run_completion},
      {"man", "print the manual page", run_man},
  };
  return kCommands;
}

namespace {

[[noreturn]] void refuse_option_before_command(const std::string& option,
                                               const std::vector<std::string>& args) {
  for (const std::string& arg : args)
    for (const Command& command : all_commands())
      if (command.name == arg)
        throw UsageError(fmt::format("options come after the command: `detent {} ... {}`", arg, option));
  const std::vector<std::string> known = {"--help", "--version", "--simd-target"};
  throw UsageError(unknown_name_message("option", option, known));
}

int dispatch(const std::vector<std::string>& args) {
  if (args.empty()) throw UsageError("a command is missing (see `detent --help`)");
  const std::string& name = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (name == "--version" || name == "-V") return run_version(rest);
  if (name == "help") return run_help(rest);
  if (name == "--help" || name == "-h") return run_help({});
  if (name == "complete") return run_complete(rest);
  std::vector<std::string> known;
  for (const Command& command : all_commands()) {
    if (command.name == name) return command.run(rest);
    known.push_back(command.name);
  }
  if (name.starts_with('-')) refuse_option_before_command(name, rest);
  throw UsageError(unknown_name_message("command", name, known));
}

/// Where the program was built for another processor.
void warn_of_slow_kernels() {
  const std::string left_out = left_out_simd_target();
  if (left_out.empty()) return;
  log_warning(
      "this program was built for another processor, without the kernels of {}, which this one has: it is "
      "several times slower than it could be (`make build SIMD=all` compiles all; --simd-target {} asks for "
      "these, without this warning)",
      left_out, active_simd_target());
}

/// Obeys and removes `--simd-target NAME` or `--simd-target=NAME`, which may stand anywhere; else obeys the
/// environment.
std::vector<std::string> choose_simd_target(std::vector<std::string> args) {
  check_processor();
  const std::string flag = "--simd-target";
  bool chosen = false;
  for (size_t i = 0; i < args.size() && args[i] != "--";) {
    const bool separate = args[i] == flag;
    if (!separate && !args[i].starts_with(flag + "=")) {
      ++i;
      continue;
    }
    if (separate && i + 1 == args.size()) throw UsageError(flag + ": expected a name after it");
    const std::string name = separate ? args[i + 1] : args[i].substr(flag.size() + 1);
    try {
      set_simd_target(name, flag);
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
    chosen = true;
    const auto first = args.begin() + static_cast<std::ptrdiff_t>(i);
    args.erase(first, first + (separate ? 2 : 1));
  }
  const char* variable = std::getenv("DETENT_SIMD_TARGET");
  if (!chosen && variable != nullptr && *variable != '\0') {
    set_simd_target(variable, "DETENT_SIMD_TARGET");
    chosen = true;
  }
  if (!chosen) warn_of_slow_kernels();
  return args;
}

int report(int status, const std::string& message) {
  std::fflush(stdout);
  std::fputs(fmt::format("detent: {}\n", printable(message)).c_str(),
             stderr);  // unlike fmt::print throws nothing
  return status;
}

int report_error(int status, const std::string& message) { return report(status, "error: " + message); }

}  // namespace

int run_command_line(const std::vector<std::string>& args, const std::string& program) {
  set_program_name(program);
  // A reader that goes away (`detent list | head`) is noticed when writing, not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  // Likewise a file that grows beyond the limit on file sizes.
  std::signal(SIGXFSZ, SIG_IGN);
  handle_signals_for_open_files();
  set_up_logging("info");  // to standard error, before the command says how much it wants
  FileRoles roles;
  const FileRoles::Use kept(&roles);
  try {
    return dispatch(choose_simd_target(args));
  } catch (const UsageError& error) {
    return report_error(2, error.what());
  } catch (const Interrupted& interrupted) {
    return report(128 + interrupted.signal(), interrupted.what());
  } catch (const Error& error) {
    return report_error(1, error.what());
  } catch (const std::bad_alloc&) {
    return report_error(1, "out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    return report_error(1, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::exception& error) {
    return report_error(1, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace detent
