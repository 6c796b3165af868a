#include "detent/core/interruption.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "detent/core/default_signals_for_test.h"
#include "detent/core/sanitizers_for_test.h"

namespace detent {
namespace {

class StopSignalsTest : public testing::Test {
  const DefaultSignals default_signals_;
};
using StopSignalsDeathTest = StopSignalsTest;

TEST_F(StopSignalsTest, NotesTheFirstSignal) {
  EXPECT_EQ(StopSignals::received(), 0);
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(StopSignals::received(), SIGTERM);
  }
  EXPECT_EQ(StopSignals::received(), 0);
  {
    const StopSignals signals;
    std::raise(SIGHUP);
    EXPECT_EQ(StopSignals::received(), SIGHUP);
  }
  EXPECT_EQ(signal_name(SIGHUP), "SIGHUP");
}

TEST_F(StopSignalsDeathTest, ASecondSignalEndsTheProcess) {
  DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED();
  const auto raise_two = [](int first, int second) {
    const StopSignals signals;
    std::raise(first);
    std::raise(second);
  };
  EXPECT_EXIT(raise_two(SIGINT, SIGINT), testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(raise_two(SIGINT, SIGTERM), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(raise_two(SIGHUP, SIGHUP), testing::KilledBySignal(SIGHUP), "");
  EXPECT_EXIT(raise_two(SIGTERM, SIGHUP), testing::KilledBySignal(SIGHUP), "");
}

/// The status of a child that has ended; -1 where it has not after ten seconds.
int status_of(pid_t child) {
  for (int i = 0; i < 1000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    usleep(10'000);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

TEST_F(StopSignalsTest, ASecondSignalEndsAProcessThatWaitsToTellOfTheFirst) {
  DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED();
  int full[2];
  int ready[2];
  ASSERT_EQ(pipe2(full, O_NONBLOCK) | pipe(ready), 0);
  const std::string page(4096, '.');
  while (write(full[1], page.data(), page.size()) > 0) continue;
  fcntl(full[1], F_SETFL, 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(full[1], STDERR_FILENO);
    const StopSignals signals("nobody reads this");
    if (write(ready[1], "!", 1) != 1) _exit(1);
    while (true) pause();
  }
  char mark = 0;
  ASSERT_EQ(read(ready[0], &mark, 1), 1);
  kill(child, SIGTERM);
  usleep(100'000);
  kill(child, SIGTERM);
  const int status = status_of(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  for (const int descriptor : {full[0], full[1], ready[0], ready[1]}) close(descriptor);
}

/// The kernel ignores signals to the first process of a container that has not asked for them.
TEST_F(StopSignalsTest, ASecondSignalEndsTheFirstProcessOfAContainer) {
  DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED();
  const pid_t parent = fork();
  if (parent == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    const pid_t child = fork();
    if (child == 0) {
      const StopSignals signals;
      std::raise(SIGTERM);
      std::raise(SIGTERM);
      _exit(0);
    }
    const int status = status_of(child);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  const int status = status_of(parent);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to make a process namespace";
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST_F(StopSignalsDeathTest, ActsAsBeforeAfterwards) {
  const auto raise_afterwards = [] {
    { const StopSignals signals; }
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(raise_afterwards(), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalsTest, TellsOnceThatASignalCame) {
  testing::internal::CaptureStderr();
  {
    const StopSignals signals("stopping\n");
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGINT);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stopping\n");
}

TEST_F(StopSignalsTest, LeavesIgnoredSignalsIgnored) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  {
    const StopSignals signals;
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_EQ(StopSignals::received(), 0);
  }
  std::signal(SIGINT, before);
}

}  // namespace
}  // namespace detent
