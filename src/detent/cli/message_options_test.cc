// Messages tell of options that the command which prints them has.

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "detent/cli/command_description.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

const fs::path kSources = fs::path(DETENT_SOURCE_DIR) / "src/detent";

using Names = std::set<std::string>;

/// By command, "tensor quantize": its flags.
const std::map<std::string, Names>& flags_of_commands() {
  static const std::map<std::string, Names> kFlags = [] {
    std::map<std::string, Names> flags;
    for (const CommandDescription& command : describe(all_commands())) {
      Names& own = flags[command.name.substr(command.name.find(' ') + 1)];
      own = {"--help", "--help-all", "--simd-target"};
      for (const OptionDescription& option : command.options)
        own.insert(option.flags.begin(), option.flags.end());
    }
    flags["bench"].insert("--threads");   // a former name
    flags[""] = {"--help", "--version"};  // `detent` alone
    return flags;
  }();
  return kFlags;
}

/// The texts of a source, neighbours joined, without comments.
std::vector<std::string> texts_of(const std::string& source) {
  std::vector<std::string> texts;
  bool joins = false;
  for (size_t at = 0; at < source.size(); ++at) {
    if (source.compare(at, 2, "//") == 0) {
      at = std::min(source.find('\n', at), source.size());
    } else if (source[at] == '\'') {
      at += source[at + 1] == '\\' ? 3U : 2U;
    } else if (source[at] == '"') {
      if (!joins) texts.emplace_back();
      for (++at; at < source.size() && source[at] != '"'; ++at) {
        if (source[at] == '\\') ++at;
        texts.back() += source[at];
      }
      joins = true;
    } else if (std::isspace(static_cast<unsigned char>(source[at])) == 0) {
      joins = false;
    }
  }
  return texts;
}

/// The commands that print what stands in a file: those of its name under cli/commands, the others listed
/// here; else those that read networks and data.
Names printers_of(const std::string& file) {
  static const std::vector<std::pair<std::string, Names>> kPrinters = {
      {"training/", {"train"}},
      {"search/comparison", {"compare"}},
      {"search/", {"search"}},
      {"cli/torch/train", {"train"}},
      {"cli/network/resume_command", {"train", "search", "compare"}},
      {"cli/network/test", {"test"}},
      {"cli/network/dump", {"test"}},
      {"cli/network/integer_program", {"test"}},
      {"cli/network/run_model", {"run"}},
      {"cli/network/search", {"search"}},
      {"cli/network/study_folder", {"search", "compare"}},
      {"cli/network/compare", {"compare"}},
      {"cli/network/quantize", {"quantize"}},
      {"cli/network/transform", {"transform"}},
      {"cli/network/result_folder", {"transform", "quantize"}},
      {"cli/named_values", {"run", "bench"}},
      {"cli/given_inputs", {"run", "bench"}},
      {"cli/task_file", {"perplexity"}},
      {"cli/commands/run_model", {"run"}},
      {"cli/commands/run.", {"train", "test", "transform"}},
      {"cli/commands/emit", {"emit verilog"}},
      {"cli/commands/example_", {"example per-channel-activation"}},
      {"cli/commands/tensor_quantize", {"tensor quantize"}},
      {"datasets/fetch", {"data fetch"}},
      {"datasets/training_splits", {"train", "transform", "search"}},
      {"passes/analysis/layerwise_error", {"quantize"}},
      {"passes/", {"transform", "quantize", "search", "compare"}},
      {"workflows/", {"quantize"}},
  };
  for (const auto& [begin, commands] : kPrinters) {
    if (file.starts_with(begin)) return commands;
  }
  const fs::path path = file;
  std::string name = path.stem().string();
  std::ranges::replace(name, '_', '-');
  if (path.parent_path() == "cli/commands" && flags_of_commands().contains(name)) return {name};
  return {"train", "test", "transform", "quantize", "search", "compare"};
}

/// Options of other programs, of options themselves, and of groups of commands.
bool is_of_others(const std::string& file) {
  const Names elsewhere = {"cli/run_options.h", "cli/commands/tensor.cc", "cli/commands/data.cc"};
  return file.starts_with("hardware/") || elsewhere.contains(file);
}

/// "`detent test` needs a network: --load FILE" begins with the command whose options it names.
std::optional<std::string> named_command(const std::string& text) {
  static const std::regex subject(R"(^`detent ([a-z-]+(?: [a-z-]+)?)`)");
  std::smatch found;
  if (!std::regex_search(text, found, subject) || !flags_of_commands().contains(found[1]))
    return std::nullopt;
  return found[1];
}

/// "--input: no such file" is printed where it was given; "-o,--output" names an option.
bool is_subject(const std::string& text, size_t position) {
  return position == 0 || (position == 3 && text.starts_with('-') && text[2] == ',');
}

/// "`detent export --shape x=1`": the command and its option; the text without them.
std::string checked_quotations(std::string text, const std::string& where) {
  static const std::regex quotation(R"(`detent ((?:[a-z][a-z-]*(?: [a-z-]+)?)?)([^`]*)`)");
  static const std::regex flag(R"(--[a-z][a-z-]+)");
  for (std::smatch found; std::regex_search(text, found, quotation);) {
    std::string command = found[1];
    if (!flags_of_commands().contains(command)) command = command.substr(0, command.find(' '));
    const std::string words = found[0];
    for (std::sregex_iterator option(words.begin(), words.end(), flag), end; option != end; ++option) {
      const auto flags = flags_of_commands().find(command);
      EXPECT_TRUE(flags != flags_of_commands().end() && flags->second.contains(option->str()))
          << where << ": " << words;
    }
    text.replace(static_cast<size_t>(found.position()), words.size(), "`");
  }
  return text;
}

TEST(MessageOptions, AreOptionsOfTheCommandThatPrintsThem) {
  static const std::regex flag(R"((^|[^a-z-])(--[a-z][a-z-]+))");
  size_t checked = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSources)) {
    const std::string file = entry.path().lexically_relative(kSources).string();
    const bool is_source = file.ends_with(".cc") || file.ends_with(".h");
    if (!is_source || file.find("_test") != std::string::npos) continue;
    for (const std::string& whole : texts_of(read_file(entry.path()))) {
      if (whole.find("--") == std::string::npos || is_of_others(file)) continue;
      const std::string text = checked_quotations(whole, file);
      const std::optional<std::string> named = named_command(whole);
      const Names printers = named ? Names{*named} : printers_of(file);
      for (std::sregex_iterator found(text.begin(), text.end(), flag), end; found != end; ++found) {
        const std::string option = (*found)[2];
        if (is_subject(text, static_cast<size_t>(found->position(2)))) continue;
        ++checked;
        std::vector<std::string> without;
        for (const std::string& command : printers) {
          if (!flags_of_commands().at(command).contains(option)) without.push_back(command);
        }
        EXPECT_TRUE(without.empty()) << file << ": \"" << whole << "\" names " << option << ", which `detent "
                                     << fmt::format("{}", fmt::join(without, ", ")) << "` has not";
      }
    }
  }
  EXPECT_GT(checked, 40U) << "the test finds what it is to check";
}

}  // namespace
}  // namespace detent
