#include "detent/workers/socket_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/workers/socket.h"

namespace detent {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Clock = std::chrono::steady_clock;

std::vector<std::byte> message(size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<size_t>(seed));
  return bytes;
}

/// Errors of each of `size` workers, each a thread that calls body(group).
std::vector<std::string> errors_of(int size, std::chrono::milliseconds timeout,
                                   const std::function<void(ProcessGroup&)>& body,
                                   const std::optional<std::string>& launcher_restarts = std::nullopt) {
  const int port = reserved_port_for_test();
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        WorkerEnvironment workers{rank, size, "127.0.0.1", port};
        workers.launcher_restarts = launcher_restarts;
        SocketGroup group(workers, timeout);
        body(group);
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(SocketGroup, GathersBytesOfAnyLengthInTheOrderOfRanks) {
  // Nothing, less than a piece of 64 KiB, whole pieces, and some more.
  const std::vector<size_t> sizes = {0, 1, 65'536, 131'072, 131'073, 3'000'000};
  const auto size_at = [&](size_t turn, int rank) {
    return sizes[(turn + static_cast<size_t>(rank)) % sizes.size()];
  };
  const auto body = [&](ProcessGroup& group) {
    for (size_t turn = 0; turn < sizes.size(); ++turn) {
      const auto gathered = group.all_gather(message(size_at(turn, group.rank()), group.rank()));
      ASSERT_EQ(gathered.size(), 4U);
      for (int other = 0; other < 4; ++other) {
        EXPECT_EQ(gathered[static_cast<size_t>(other)], message(size_at(turn, other), other))
            << "turn " << turn << ", worker " << other << " at worker " << group.rank();
      }
    }
  };
  EXPECT_THAT(errors_of(4, 60s, body), Each(IsEmpty()));
}

TEST(SocketGroup, AddsInTheOrderOfRanks) {
  const std::vector<float> parts = {1e8F, 1.0F, -1e8F};  // 0 in this order, 1 in others
  const auto body = [&](ProcessGroup& group) {
    std::vector<float> values = {parts[static_cast<size_t>(group.rank())], 1};
    group.all_reduce_sum(values);
    EXPECT_THAT(values, ElementsAre(0, 3));
    group.all_reduce_sum({});
  };
  EXPECT_THAT(errors_of(3, 60s, body), Each(IsEmpty()));
}

TEST(SocketGroup, MovesOnFromManyGathers) {
  const auto body = [](ProcessGroup& group) {
    for (int turn = 0; turn < 300; ++turn) {
      std::vector<float> values = {static_cast<float>(turn)};
      group.all_reduce_sum(values);
      ASSERT_EQ(values[0], 2.0F * static_cast<float>(turn));
    }
  };
  EXPECT_THAT(errors_of(2, 60s, body), Each(IsEmpty()));
}

/// The first one has the table; it is the first to be ready here, by half a second.
TEST(SocketGroup, FirstWorkerWaitsUntilTheOthersHaveRead) {
  const auto body = [](ProcessGroup& group) {
    group.all_gather({});
    if (group.rank() == 2) std::this_thread::sleep_for(500ms);
    EXPECT_EQ(group.all_gather(message(200'000, 3)).size(), 3U);
  };
  EXPECT_THAT(errors_of(3, 60s, body), Each(IsEmpty()));
}

/// All find the same fault in what they have gathered, as check_workers_agree does.
TEST(SocketGroup, AFaultThatAllFindIsEachWorkersOwn) {
  for (int turn = 0; turn < 20; ++turn) {
    const auto body = [](ProcessGroup& group) {
      fail("{} workers differ", group.all_gather(message(300'000, 3)).size());
    };
    EXPECT_THAT(errors_of(3, 60s, body), Each(testing::Eq("3 workers differ")));
  }
}

/// Long before the timeout, whichever it is.
TEST(SocketGroup, AWorkerThatEndsIsNoticedAtOnce) {
  for (const int ending : {0, 1, 2}) {
    const auto begin = Clock::now();
    const auto body = [&](ProcessGroup& group) {
      group.all_gather({});
      if (group.rank() == ending) fail("a fault of its own");
      group.all_gather({});
    };
    const std::vector<std::string> errors = errors_of(3, 60s, body);
    for (int rank = 0; rank < 3; ++rank) {
      const auto expected =
          rank == ending ? testing::Matcher<std::string>("a fault of its own")
                         : testing::Matcher<std::string>(AllOf(
                               HasSubstr(fmt::format("worker {} of 3 (first worker at 127.0.0.1:", rank)),
                               HasSubstr("cannot exchange results, did another worker stop?")));
      EXPECT_THAT(errors[static_cast<size_t>(rank)], expected) << "when " << ending << " ends";
    }
    EXPECT_LT(Clock::now() - begin, 20s);
  }
}

TEST(SocketGroup, ASilentWorkerIsWaitedForNoLongerThanTheTimeout) {
  const auto body = [](ProcessGroup& group) {
    if (group.rank() == 1) {
      std::this_thread::sleep_for(1500ms);
      return;
    }
    const auto begin = Clock::now();
    EXPECT_THAT([&] { group.all_gather({}); }, ThrowsMessage<Error>(HasSubstr("has not come in time")));
    EXPECT_LT(Clock::now() - begin, 1400ms);
  };
  errors_of(2, 500ms, body);
}

TEST(SocketGroup, OneThatNeverComesIsAnErrorAfterTheTimeout) {
  EXPECT_THAT(
      [] {
        SocketGroup({0, 2, "127.0.0.1", reserved_port_for_test()}, 300ms);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("cannot join the others"), HasSubstr("worker 1 has not come"))));
}

/// torchrun's own table stands at the port that it gives.
TEST(SocketGroup, LeavesThePortOfTheLauncherAlone) {
  const int port = reserved_port_for_test();
  const Socket launcher = Socket::listen_on("127.0.0.1", port);
  const WorkerEnvironment workers{.rank = 0, .size = 2, .address = "127.0.0.1", .port = port};
  EXPECT_THAT([&] { SocketGroup(workers, 300ms); }, ThrowsMessage<Error>(HasSubstr("cannot listen on")));
  WorkerEnvironment launched = workers;
  launched.launcher_restarts = "0";
  EXPECT_THAT([&] { SocketGroup(launched, 300ms); }, ThrowsMessage<Error>(HasSubstr("has not come within")));
  EXPECT_THAT(errors_of(
                  2, 60s, [](ProcessGroup& group) { group.all_gather({}); }, "1"),
              Each(IsEmpty()));
}

}  // namespace
}  // namespace detent
