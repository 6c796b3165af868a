#include "detent/core/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace detent {
namespace {

TEST(StopSignals, NotesTheFirstSignal) {
  EXPECT_EQ(StopSignals::received(), 0);
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(StopSignals::received(), SIGTERM);
  }
  EXPECT_EQ(StopSignals::received(), 0);
}

TEST(StopSignalsDeathTest, ASecondSignalEndsTheProcess) {
  const auto raise_two = [](int first, int second) {
    const StopSignals signals;
    std::raise(first);
    std::raise(second);
  };
  EXPECT_EXIT(raise_two(SIGINT, SIGINT), testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(raise_two(SIGINT, SIGTERM), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignalsDeathTest, ActsAsBeforeAfterwards) {
  const auto raise_afterwards = [] {
    { const StopSignals signals; }
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(raise_afterwards(), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, TellsOnceThatASignalCame) {
  testing::internal::CaptureStderr();
  {
    const StopSignals signals("stopping\n");
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGINT);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stopping\n");
}

TEST(StopSignals, LeavesIgnoredSignalsIgnored) {
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
