#include "detent/hardware/design.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string why_missing(const std::vector<std::string>& programs, const std::string& package) {
  for (const std::string& program : programs) {
    if (!is_installed(program)) {
      return fmt::format("no program \"{}\" is installed: on Debian and Ubuntu, apt-get install {}", program,
                         package);
    }
  }
  return "";
}

/// In single quotes, for a shell.
std::string quoted(const fs::path& path) {
  std::string text = "'";
  for (const char c : path.string()) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// All that comes through a pipe; meanwhile `progress` says how long it has taken.
std::string read_all(int pipe, Progress& progress) {
  constexpr int kMillisecondsBetweenLooks = 100;
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    pollfd wanted{.fd = pipe, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, kMillisecondsBetweenLooks) > 0) {
      const ssize_t count = read(pipe, buffer.data(), buffer.size());
      if (count == 0 || (count < 0 && errno != EINTR)) return text;
      if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
    }
    progress.update(0);
  }
}

/// Output of a command, in a folder. Throws Error with the end of it where the command fails. `name` is what
/// people are told meanwhile.
std::string output_of(const fs::path& folder, const std::string& command, const std::string& name) {
  const std::string whole = fmt::format("cd {} && {{ {}; }} 2>&1 < /dev/null", quoted(folder), command);
  FILE* pipe = popen(whole.c_str(), "r");
  if (pipe == nullptr) fail("cannot start a shell for: {}", command);
  Progress progress(name, 0);
  const std::string text = read_all(fileno(pipe), progress);
  progress.finish();
  const int status = pclose(pipe);
  constexpr size_t kMostShown = 2000;
  if (status == 0) return text;
  fail("{} failed with status {}:\n{}", command, WIFEXITED(status) ? WEXITSTATUS(status) : status,
       text.size() > kMostShown ? text.substr(text.size() - kMostShown) : text);
}

/// A folder for what a tool writes meanwhile.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "detent_hardware_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) fail("cannot create a folder like {}", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SimulationResult parsed(const std::string& output, const std::string& command) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    long long vectors = 0;
    long long differing = 0;
    long long bits = 0;
    if (std::sscanf(line.c_str(), "%lld vectors, %lld differ in %lld bits", &vectors, &differing, &bits) != 3)
      continue;
    return {vectors, differing, bits};
  }
  fail("{}: the testbench did not end:\n{}", command, output);
}

}  // namespace

std::string why_no_simulator(Simulator simulator) {
  if (simulator == Simulator::kVerilator)
    return why_missing({"verilator", "make", "g++"}, "verilator make g++");
  return why_missing({"iverilog", "vvp"}, "iverilog");
}

std::string why_no_synthesis() { return why_missing({"yosys"}, "yosys"); }

SimulationResult simulate(const fs::path& folder, const std::string& top, Simulator simulator) {
  if (const std::string why = why_no_simulator(simulator); !why.empty()) fail("{}", why);
  const TemporaryFolder made;
  const std::string name = enum_name(simulator);
  std::string command;
  if (simulator == Simulator::kVerilator) {
    // The code that it makes is compiled without optimization: that is what takes longest. Its makefile's own
    // -Os stands after -CFLAGS. Each of its files includes the same headers, which takes as long as some
    // 10,000 statements: all are compiled as one unless they have more than 100,000, which take 0.6 GB.
    command = fmt::format(
        "verilator --binary --timing -Wno-fatal -Wno-lint -Wno-style -O1 -MAKEFLAGS OPT_FAST=-O0 "
        "-MAKEFLAGS OPT_GLOBAL=-O0 --output-split 100000 -j 2 --top-module {0}_tb --prefix Vtestbench "
        "-Mdir {1} *.v > {1}/build.txt || {{ cat {1}/build.txt; exit 1; }}; {1}/Vtestbench",
        top, made.path());
  } else {
    command =
        fmt::format("iverilog -g2005 -s {0}_tb -o {1}/tb.vvp *.v && vvp -n {1}/tb.vvp", top, made.path());
  }
  return parsed(output_of(folder, command, name), name);
}

SynthesisResult synthesize(const fs::path& folder) {
  if (const std::string why = why_no_synthesis(); !why.empty()) fail("{}", why);
  std::istringstream lines(output_of(folder, "yosys -q -s synthesize.ys && cat synthesis.txt", "yosys"));
  SynthesisResult result;
  for (std::string line; std::getline(lines, line);) {
    // "$lut 12", or, of newer versions, "12 $lut".
    std::istringstream words(line);
    std::string cell;
    std::string count;
    words >> cell >> count;
    if (!cell.starts_with("$")) std::swap(cell, count);
    if (count.empty() || count.find_first_not_of("0123456789") != std::string::npos) continue;
    const int64_t number = std::atoll(count.c_str());
    if (cell == "$lut") result.luts += number;
    if (cell.starts_with("$_DFF") || cell.starts_with("$_SDFF")) result.register_bits += number;
  }
  return result;
}

}  // namespace detent
