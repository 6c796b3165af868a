#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detent/cli/command_description.h"
#include "detent/cli/commands/command.h"
#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/formats/format.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

std::string all_help() {
  return "Detent quantizes neural networks.\n"
         "Usage: detent <command> [arguments]\n"
         "\n" +
         commands_text("Commands:", all_commands()) + "\n" +
         wrapped_text(
             "`detent <command> --help` tells more, and `detent help NAME` about a pass, statistic, "
             "format, option or anything else that `detent list` lists.\n"
             "--simd-target NAME, or DETENT_SIMD_TARGET in the environment, chooses the instruction "
             "set (see `detent version --simd`). NO_COLOR in the environment turns colours off.",
             0, help_columns());
}

/// "num_threads" of "--num-threads" and "NUM-THREADS".
std::string folded(std::string_view name) {
  std::string result(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  for (char& c : result) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Whether words of `name`, which are joined by "_", begin with `part`: "fp8" of "fp8_e4m3", "lsq" of
/// "int8_lsq".
bool has_part(const std::string& name, const std::string& part) {
  return ("_" + folded(name)).find("_" + part) != std::string::npos;
}

/// The options that are called so, or that take a value of this name.
std::string options_text(const std::string& name) {
  std::string text;
  for (const CommandDescription& command : describe(all_commands())) {
    for (const OptionDescription& option : command.options) {
      const bool is_called = std::ranges::any_of(
          option.flags, [&](const std::string& flag) { return folded(flag) == folded(name); });
      if (!is_called && std::ranges::count(option.choices, name) == 0) continue;
      text += described(fmt::format("{} {}", command.name, fmt::join(option.flags, ", ")), option.help,
                        help_columns());
    }
  }
  return text.empty() ? "" : "option:\n" + text;
}

/// Topics that have the name as a part of theirs, a line each.
std::string related_text(const std::string& name) {
  std::string text;
  for (const Topic& topic : all_topics()) {
    if (!has_part(topic.name, folded(name))) continue;
    text += described(fmt::format("{} ({})", topic.name, topic.kind), topic.help, help_columns());
  }
  return text.empty() ? "" : fmt::format("names with \"{}\":\n{}", name, text);
}

/// Whether the name is that of a number format, keys aside: int5 and the like, which no list has one by one,
/// too.
bool is_format(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  if (std::ranges::count(format_names(), name) > 0) return true;
  try {
    return find_named_format(name, "help").has_value();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

int explain_format(const std::string& other_topics, const std::vector<std::string>& words) {
  if (!other_topics.empty()) print(other_topics + "\n");
  std::vector<std::string> args = {"show"};
  args.insert(args.end(), words.begin(), words.end());
  return run_formats(args);
}

[[noreturn]] void refuse_topic(const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : all_commands()) known.push_back(command.name);
  std::vector<std::string> topics;
  for (const Topic& topic : all_topics()) topics.push_back(topic.name);
  const std::string format = format_called(name);
  const std::string nearest = format.empty() ? nearest_name(name, topics) : format;
  throw UsageError(nearest.empty()
                       ? unknown_name_message("command", name, known)
                       : fmt::format("unknown topic \"{}\": did you mean \"{}\"?", name, nearest));
}

}  // namespace

int run_help(const std::vector<std::string>& words) {
  if (words.empty()) {
    print(all_help());
    return 0;
  }
  const std::string& name = words[0];
  const std::string topic = topic_text(name);
  const auto command = std::ranges::find(all_commands(), name, &Command::name);
  if (command != all_commands().end()) {
    std::vector<std::string> args(words.begin() + 1, words.end());
    args.emplace_back("--help");
    const int status = command->run(args);
    if (!topic.empty() && words.size() == 1) print("\n" + topic);
    return status;
  }
  std::string text = topic;
  const std::string options = options_text(name);
  if (!options.empty()) text += (text.empty() ? "" : "\n") + options;
  if (is_format(name)) return explain_format(text, words);
  if (words.size() > 1) throw UsageError(fmt::format("unexpected argument \"{}\"", words[1]));
  if (text.empty()) text = related_text(name);
  if (text.empty()) refuse_topic(name);
  print(text);
  return 0;
}

}  // namespace detent
