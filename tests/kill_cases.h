#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace detent {

/// Work of a process: the program with arguments, or, where there is one, a function of this program.
struct KilledCommand {
  std::vector<std::string> arguments = {};
  std::vector<std::string> environment = {};  // "NAME=value"
  std::function<void()> function = {};
};

/// Runs it in `folder` and kills it before the n-th of the system calls by which it changes files (n >= 1);
/// standard output and error go to `folder`/log.txt. Returns how many there were when it ended by itself, and
/// well, or -1 when it was killed. Throws Error, with what it printed, when it failed.
int64_t run_until_call(const KilledCommand& command, const std::filesystem::path& folder, int64_t n);

/// Likewise, to its end.
inline int64_t run_to_end(const KilledCommand& command, const std::filesystem::path& folder) {
  return run_until_call(command, folder, -1);
}

/// State of a result after a command was killed.
enum class Contract {
  kOneOrTheOther,  // the files of one of two commands, in turn
  kNeverBoth,      // some files of the first or of the second of two commands, not of both
  kResumes,        // what the next command resumes from, to the same end as if nothing had happened
  kWholePair,      // all files of one of two commands, in turn; weights that nothing names may be left
  kRefused,        // all as it was: the commands name what they read, or what is another's, as their result
};

/// Commands are words separated by spaces, run in a folder that holds the inputs.
struct KillCase {
  std::string name;
  Contract contract = Contract::kOneOrTheOther;
  std::string result;                      // the folder whose files count
  std::vector<std::string> prepare = {};   // run once
  std::vector<std::string> commands = {};  // kResumes: the last, after those that stop where units may stand
  std::string state = {};                  // kResumes: where there is this file, --resume continues
  std::vector<std::string> units = {};     // kResumes: files and folders that change as a whole
};

inline void PrintTo(const KillCase& tried, std::ostream* out) { *out << tried.name; }

/// Every command that writes, but for those that need a server, other processes or much time.
const std::vector<KillCase>& kill_cases();

void write_inputs_of_cases(const std::filesystem::path& folder);

}  // namespace detent
