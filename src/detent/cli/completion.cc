#include "detent/cli/command_description.h"

#include <algorithm>

#include "detent/datasets/dataset.h"
#include "detent/models/model.h"

namespace detent {
namespace {

/// "detent tensor quantize" without its first word.
std::vector<std::string> path_of(const CommandDescription& command) {
  std::vector<std::string> path;
  for (size_t begin = command.name.find(' ') + 1; begin < command.name.size();) {
    const size_t end = std::min(command.name.find(' ', begin), command.name.size());
    path.push_back(command.name.substr(begin, end - begin));
    begin = end + 1;
  }
  return path;
}

bool begins_with(const std::vector<std::string>& words, const std::vector<std::string>& begin) {
  return words.size() >= begin.size() && std::equal(begin.begin(), begin.end(), words.begin());
}

/// Names of models and data sets are known by the name of the place or option that takes them.
std::vector<std::string> values_of(const OptionDescription& option) {
  if (!option.choices.empty()) return option.choices;
  const auto is = [&](const char* name) {
    return option.place == name || std::ranges::count(option.flags, std::string("--") + name) > 0;
  };
  if (is("model")) return model_names();
  std::vector<std::string> names;
  if (is("dataset")) {
    for (const DatasetInfo& dataset : all_datasets()) names.push_back(dataset.name);
  }
  return names;
}

const OptionDescription* option_called(const CommandDescription& command, const std::string& flag) {
  const auto found = std::ranges::find_if(command.options, [&](const OptionDescription& option) {
    return std::ranges::count(option.flags, flag) > 0;
  });
  return found == command.options.end() ? nullptr : &*found;
}

/// Words that are no options and belong to none.
size_t places_taken(const CommandDescription& command, std::span<const std::string> words) {
  size_t taken = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const OptionDescription* option = option_called(command, words[i]);
    if (option != nullptr && !option->value.empty()) {
      ++i;
    } else if (!words[i].starts_with('-')) {
      ++taken;
    }
  }
  return taken;
}

std::vector<std::string> completions_of(const CommandDescription& command,
                                        std::span<const std::string> words) {
  if (!words.empty()) {
    const OptionDescription* last = option_called(command, words.back());
    if (last != nullptr && !last->value.empty()) return values_of(*last);
  }
  std::vector<std::string> found;
  size_t place = places_taken(command, words);
  for (const OptionDescription& option : command.options) {
    if (!option.place.empty() && place-- == 0) found = values_of(option);
  }
  for (const OptionDescription& option : command.options) {
    for (const std::string& flag : option.flags) {
      if (flag.starts_with("--")) found.push_back(flag);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> completions(std::span<const CommandDescription> commands,
                                     const std::vector<std::string>& words) {
  std::vector<std::string> next;
  for (const CommandDescription& command : commands) {
    const std::vector<std::string> path = path_of(command);
    if (begins_with(words, path)) return completions_of(command, std::span(words).subspan(path.size()));
    const bool leads_to = begins_with(path, words);
    if (leads_to && std::ranges::count(next, path[words.size()]) == 0) next.push_back(path[words.size()]);
  }
  return next;
}

}  // namespace detent
