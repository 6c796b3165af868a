#include "kill_cases.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr int kNoFolder = 98;
constexpr int kNoProgram = 99;

/// Whether the call changes what is in a folder or a file; printing, and opening for reading, do not.
bool changes_files(const __ptrace_syscall_info& info) {
  static const std::set<uint64_t> kCalls = {
      SYS_renameat2, SYS_unlinkat, SYS_mkdirat,         SYS_fsync,    SYS_fdatasync,
      SYS_fchmod,    SYS_fchmodat, SYS_ftruncate,       SYS_linkat,   SYS_flock,
      SYS_symlinkat, SYS_sendfile, SYS_copy_file_range, SYS_renameat,
#ifdef SYS_rename  // newer processors have none of the older calls
      SYS_rename,    SYS_unlink,   SYS_mkdir,           SYS_link,     SYS_rmdir,
      SYS_chmod,     SYS_symlink,
#endif
  };
  const auto& entry = info.entry;
  if (entry.nr == SYS_openat) return (entry.args[2] & (O_CREAT | O_TRUNC)) != 0;
  if (entry.nr == SYS_write || entry.nr == SYS_pwrite64) return entry.args[0] > STDERR_FILENO;
  return kCalls.contains(entry.nr);
}

[[noreturn]] void become(const KilledCommand& command, const fs::path& folder) {
  const bool redirected = chdir(folder.c_str()) == 0 && freopen("log.txt", "w", stdout) != nullptr &&
                          dup2(STDOUT_FILENO, STDERR_FILENO) >= 0;
  if (!redirected || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNoFolder);
  if (command.function) {
    raise(SIGSTOP);
    command.function();
    std::fflush(stdout);
    _exit(0);
  }
  std::vector<std::string> words = {std::string(DETENT_BIN) + "/detent"};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::vector<std::string> environment = command.environment;
  for (std::string& variable : environment) putenv(variable.data());
  execv(pointers[0], pointers.data());
  _exit(kNoProgram);
}

bool is_stopped_before_a_change(pid_t thread) {
  __ptrace_syscall_info info{};
  return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) > 0 &&
         info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_files(info);
}

}  // namespace

int64_t run_until_call(const KilledCommand& command, const fs::path& folder, int64_t n) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) become(command, folder);
  int status = 0;
  waitpid(child, &status, 0);
  DETENT_CHECK(WIFSTOPPED(status), "the process is not traced");
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, options);
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  int64_t count = 0;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread == child && (WIFEXITED(status) || WIFSIGNALED(status))) {
      const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (!ended_well) fail("status {:#x}: {}", status, read_file(folder / "log.txt"));
      return count;
    }
    if (!WIFSTOPPED(status)) continue;
    long signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      if (is_stopped_before_a_change(thread) && ++count == n) {
        kill(child, SIGKILL);
        while (waitpid(-1, &status, __WALL) > 0) {
        }
        return -1;
      }
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
  }
}

}  // namespace detent
