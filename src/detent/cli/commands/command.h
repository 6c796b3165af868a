#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/cli/results.h"

namespace CLI {
class App;
}

namespace detent {

/// A subcommand, registered in command_line.cc.
struct Command {
  std::string name;
  std::string help;
  /// The arguments after the name; returns the exit status, throws UsageError and Error.
  std::function<int(const std::vector<std::string>& args)> run;
};

/// In the order of the help.
std::span<const Command> all_commands();

int run_train(const std::vector<std::string>& args);
int run_test(const std::vector<std::string>& args);
int run_transform(const std::vector<std::string>& args);
int run_example(const std::vector<std::string>& args);
int run_quantize(const std::vector<std::string>& args);
int run_search(const std::vector<std::string>& args);
int run_compare(const std::vector<std::string>& args);
int run_quickstart(const std::vector<std::string>& args);
int run_stat_to_conf(const std::vector<std::string>& args);
int run_stats(const std::vector<std::string>& args);
int run_list(const std::vector<std::string>& args);
int run_formats(const std::vector<std::string>& args);
int run_tensor(const std::vector<std::string>& args);
int run_data(const std::vector<std::string>& args);
int run_export(const std::vector<std::string>& args);
int run_emit(const std::vector<std::string>& args);
int run_bench(const std::vector<std::string>& args);
int run_run(const std::vector<std::string>& args);
int run_generate(const std::vector<std::string>& args);
int run_perplexity(const std::vector<std::string>& args);
int run_info(const std::vector<std::string>& args);
int run_version(const std::vector<std::string>& args);
int run_completion(const std::vector<std::string>& args);
int run_man(const std::vector<std::string>& args);
/// Prints words that may follow `args`, a line each: for completion. `args` may begin with "--".
int run_complete(const std::vector<std::string>& args);

/// Begins the names of groups of options that `--help` leaves out and `--help-all` shows.
inline constexpr std::string_view kRareOptions = "More: ";

/// Parses into the variables that `app` has bound. False when help was asked for and printed. Throws
/// UsageError, for an unknown option with the nearest known one.
bool parse_arguments(CLI::App& app, const std::vector<std::string>& args);

/// --json and, for commands with something to draw, --report and --overwrite; bound to `options`.
/// parse_arguments checks them.
void add_result_options(CLI::App& app, ResultOptions& options, bool draws = false);

/// `detent help WORDS`: the program's, a command's, or of what `detent list` lists and what options are
/// called.
int run_help(const std::vector<std::string>& words);

/// Text of `detent list` for a name: a pass, statistic, format, model, data set, operator, quantizer or
/// strategy; "" where there is none. Passes and statistics come with their options.
std::string topic_text(const std::string& name);

struct Topic {
  std::string kind;
  std::string name;
  std::string help;
};
/// All that it lists.
std::vector<Topic> all_topics();

/// Says so where more than `folder` itself is to be created.
void say_new_folders(const std::filesystem::path& folder);

/// --overwrite, for claim_output and OutputFolder.
void add_overwrite_option(CLI::App& app, bool& overwrite);

/// "Commands:" and a line each, in the columns of help texts.
std::string commands_text(std::string_view headline, std::span<const Command> commands);

/// A command that is made of others, as `detent tensor quantize`.
struct CommandGroup {
  std::string name;  // "tensor"
  std::string help;
  std::string one = "command";  // what they are called
  std::span<const Command> commands;
};

/// Runs the one that `args` begins with, or prints what there is. Throws UsageError naming the nearest.
int run_group(const CommandGroup& group, const std::vector<std::string>& args);

/// The commands after `detent tensor`; as Command::run.
int run_tensor_quantize(const std::vector<std::string>& args);
int run_tensor_unpack(const std::vector<std::string>& args);
int run_tensor_compare(const std::vector<std::string>& args);

}  // namespace detent
