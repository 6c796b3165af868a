#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace detent {

/// What a command that is killed leaves of a result.
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
