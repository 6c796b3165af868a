// Commands that are killed at a random system call while they write: what they leave behind is the old result
// or the new one, and the next command removes what the dead have left. DETENT_KILLS sets how many are killed
// (default 40).

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/io/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using Words = std::vector<std::string>;

int kills() {
  const char* text = std::getenv("DETENT_KILLS");
  return text == nullptr ? 40 : std::atoi(text);
}

/// Those that change what is in a folder or a file.
bool writes(uint64_t call) {
  static const std::set<uint64_t> kCalls = {
      SYS_write,  SYS_pwrite64, SYS_openat,    SYS_renameat2, SYS_unlinkat, SYS_mkdirat,
      SYS_fsync,  SYS_fchmod,   SYS_ftruncate, SYS_linkat,    SYS_flock,    SYS_fchmodat,
#ifdef SYS_rename  // newer processors have none of the older calls
      SYS_rename, SYS_unlink,   SYS_mkdir,     SYS_link,      SYS_rmdir,    SYS_chmod,
#endif
  };
  return kCalls.contains(call);
}

/// Runs the program in `folder` and kills it before the n-th of its writing system calls (n >= 1). Returns
/// how many there were when it ended by itself, or -1 when it was killed.
int64_t run_until_call(const Words& arguments, const fs::path& folder, int64_t n) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Words words = {std::string(DETENT_BIN) + "/detent"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const bool redirected = chdir(folder.c_str()) == 0 && freopen("log.txt", "w", stdout) != nullptr &&
                            dup2(STDOUT_FILENO, STDERR_FILENO) >= 0;
    if (!redirected || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(98);
    execv(pointers[0], pointers.data());
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSTOPPED(status));
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, options);
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  int64_t count = 0;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread == child && (WIFEXITED(status) || WIFSIGNALED(status))) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read_file(folder / "log.txt");
      return count;
    }
    if (!WIFSTOPPED(status)) continue;
    long signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) > 0 &&
          info.op == PTRACE_SYSCALL_INFO_ENTRY && writes(info.entry.nr) && ++count == n) {
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

using Snapshot = std::map<std::string, std::string>;

/// Names and bytes of what is in a folder, but for what temporary names stand for.
Snapshot snapshot(const fs::path& folder) {
  Snapshot files;
  if (!fs::exists(folder)) return files;
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator();
       ++entry) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".detent-tmp-")) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      files[entry->path().lexically_relative(folder).string()] = read_file(entry->path());
    }
  }
  return files;
}

std::vector<std::string> leftovers(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".detent-tmp-") || name.ends_with(".detent-lock"))
      names.push_back(entry.path().string());
  }
  return names;
}

class KillSlowTest : public testing::Test {
 protected:
  KillSlowTest() { fs::create_directories(folder_); }
  ~KillSlowTest() override { fs::remove_all(folder_); }

  void run(const Words& arguments) const { ASSERT_GT(run_until_call(arguments, folder_, -1), 0); }

  /// Two commands that write the same `result`, in turn, each killed somewhere.
  void expect_one_or_the_other(const Words& first, const Words& second, const fs::path& result) {
    run(first);
    const Snapshot of_first = snapshot(folder_ / result);
    ASSERT_FALSE(of_first.empty());
    const int64_t calls = run_until_call(second, folder_, -1);
    const Snapshot of_second = snapshot(folder_ / result);
    ASSERT_NE(of_first, of_second);
    std::mt19937_64 random(1);
    int killed = 0;
    for (int i = 0; i < kills(); ++i) {
      // Most of the calls are those of starting; the last ones are those that count.
      const int64_t from_end =
          static_cast<int64_t>(random() % static_cast<uint64_t>(i % 4 == 0 ? calls : calls / 4 + 1));
      if (run_until_call(i % 2 == 0 ? first : second, folder_, std::max<int64_t>(calls - from_end, 1)) < 0)
        ++killed;
      const Snapshot left = snapshot(folder_ / result);
      ASSERT_TRUE(left == of_first || left == of_second) << "a mixture after kill " << i;
    }
    EXPECT_GT(killed, kills() / 2);
    run(first);
    EXPECT_EQ(snapshot(folder_ / result), of_first);
    EXPECT_THAT(leftovers(folder_), IsEmpty());
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_kill_test_{}", getpid());
};

TEST_F(KillSlowTest, TransformLeavesOneResult) {
  for (const int width : {4, 8}) {
    write_file(
        folder_ / fmt::format("w{}.toml", width),
        fmt::format("[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"fixed\"\n"
                    "data_in_width = {0}\nweight_width = {0}\n[passes.save_node_meta_param]\n"
                    "[passes.save_mase_graph]\n",
                    width));
  }
  const auto command = [](const char* config) {
    return Words{"transform", "toy", "toy_tiny",    "--config",      config,
                 "--project", "p",   "--overwrite", "--num-threads", "1"};
  };
  expect_one_or_the_other(command("w4.toml"), command("w8.toml"), "mase_output/p/software/transform");
}

TEST_F(KillSlowTest, QuantizeLeavesOneResult) {
  run({"train", "digits_cnn", "digits", "--max-epochs", "1", "--project", "t", "--num-threads", "1"});
  const auto command = [](const char* weights) {
    return Words{"quantize",
                 "digits_cnn",
                 "digits",
                 "--load",
                 "mase_output/t/software/training_ckpts/best.ckpt",
                 "--weights",
                 weights,
                 "--num-samples",
                 "64",
                 "--project",
                 "p",
                 "--overwrite",
                 "--num-threads",
                 "1"};
  };
  expect_one_or_the_other(command("int4"), command("int8"), "mase_output/p/software/quantize");
}

TEST_F(KillSlowTest, TensorCommandsLeaveOneFile) {
  run({"train", "toy", "toy_tiny", "--max-epochs", "1", "--project", "t", "--num-threads", "1"});
  const std::string network = "mase_output/t/software/training_ckpts/best.ckpt";
  run({"tensor", "unpack", network, "-o", "toy.safetensors"});
  fs::create_directories(folder_ / "out");
  const auto command = [](const char* format) {
    return Words{"tensor",   "quantize", "toy.safetensors", "-o", "out/q.safetensors",
                 "--format", format,     "--packed"};
  };
  expect_one_or_the_other(command("fixed:width=8"), command("fixed:width=4"), "out");
}

}  // namespace
}  // namespace detent
