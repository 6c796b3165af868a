#include "detent/cli/network/result_folder.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace detent {

std::vector<std::string> process_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::string shell_word(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string resume_command(std::vector<std::string> arguments, const TorchCommand& command) {
  std::vector<std::string> added;
  if (!command.options.project || command.options.project->empty()) {
    added = {"--project", command.software_dir.parent_path().filename().string()};
  }
  if (!command.options.resume) added.emplace_back("--resume");
  arguments.insert(std::ranges::find(arguments, "--"), added.begin(), added.end());  // options end there
  return shell_line(arguments);
}

}  // namespace detent
