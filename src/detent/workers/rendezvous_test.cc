#include "detent/workers/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <mutex>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/reserved_port_for_test.h"
#include "detent/workers/socket.h"

namespace detent {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

std::vector<std::byte> sent_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Errors of each worker; `secrets` has one a worker.
std::vector<std::string> errors_of(const std::vector<std::string>& secrets, std::chrono::milliseconds timeout,
                                   const std::function<void(Rendezvous&, int rank)>& body = {}) {
  const int port = reserved_port_for_test();
  const int size = static_cast<int>(secrets.size());
  std::vector<std::string> errors(secrets.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Rendezvous rendezvous({rank, size, "127.0.0.1", port, secrets[static_cast<size_t>(rank)]}, timeout);
        if (body) body(rendezvous, rank);
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Rendezvous, KeepsATableForAll) {
  const auto exchange = [](Rendezvous& rendezvous, int rank) {
    const auto deadline = Rendezvous::Clock::now() + 10s;
    EXPECT_EQ(rendezvous.local_address(), "127.0.0.1");
    EXPECT_EQ(rendezvous.find("nothing"), std::nullopt);
    rendezvous.set(fmt::format("key {}", rank),
                   sent_bytes(std::string(static_cast<size_t>(rank) * 30'000, 'x')));
    for (int other = 0; other < 3; ++other) {
      EXPECT_THAT(rendezvous.get(fmt::format("key {}", other), deadline), SizeIs(other * 30'000));
    }
    // Who has read all must not end before the others have.
    rendezvous.set(fmt::format("done {}", rank), {});
    for (int other = 0; other < 3; ++other) rendezvous.get(fmt::format("done {}", other), deadline);
    if (rank == 0) std::this_thread::sleep_for(200ms);
  };
  EXPECT_THAT(errors_of({"s", "s", "s"}, 10s, exchange), testing::Each(IsEmpty()));
  EXPECT_THAT(errors_of({"", "", ""}, 10s, exchange), testing::Each(IsEmpty()));
}

TEST(Rendezvous, LetsInWhoKnowsTheSecretOnly) {
  const std::vector<std::string> errors = errors_of({"secret", "other"}, 1s);
  EXPECT_THAT(errors[0], AllOf(HasSubstr("worker 1 has not come within 1 s"), HasSubstr("refused 127.0.0.1:"),
                               HasSubstr("it has another secret (DETENT_WORKER_SECRET)")));
  EXPECT_THAT(errors[1], HasSubstr("another secret (DETENT_WORKER_SECRET)"));
  EXPECT_THAT(errors_of({"", "secret"}, 1s)[1], HasSubstr("another secret"));
}

/// Connects to 127.0.0.1, says `words`, and reads until the other side hangs up; whether that took under 5 s.
bool is_refused_at_once(int port, std::span<const std::byte> words) {
  const auto deadline = Rendezvous::Clock::now() + 5s;
  const Socket stranger = Socket::connect_to("127.0.0.1", port, deadline);
  stranger.send(words, deadline);
  std::array<std::byte, 1> byte{};
  try {
    while (true) stranger.receive(byte, deadline);
  } catch (const Error&) {
    return Rendezvous::Clock::now() < deadline;
  }
}

TEST(Rendezvous, RefusesRanksOfOtherGroupsAndStrangersAtOnce) {
  const int port = reserved_port_for_test();
  std::string error;
  std::thread first([&] {
    try {
      Rendezvous({.rank = 0, .size = 3, .address = "127.0.0.1", .port = port, .job = "a"}, 5s);
    } catch (const Error& fault) {
      error = fault.what();
    }
  });
  const auto error_of = [&](const WorkerEnvironment& workers) -> std::string {
    const auto begin = Rendezvous::Clock::now();
    try {
      Rendezvous(workers, 3s);
    } catch (const Error& fault) {
      EXPECT_LT(Rendezvous::Clock::now() - begin, 2s) << fault.what();
      return fault.what();
    }
    return "";
  };
  EXPECT_TRUE(is_refused_at_once(port, sent_bytes("GET / HTTP/1.1")));
  EXPECT_THAT(error_of({.rank = 1, .size = 3, .address = "127.0.0.1", .port = port, .job = "b"}),
              HasSubstr("started the first worker for another job"));
  EXPECT_THAT(error_of({.rank = 1, .size = 2, .address = "127.0.0.1", .port = port, .job = "a"}),
              HasSubstr("another number of workers"));
  std::thread second([&] {
    EXPECT_THROW(Rendezvous({.rank = 1, .size = 3, .address = "127.0.0.1", .port = port, .job = "a"}, 2s),
                 Error);
  });
  std::this_thread::sleep_for(500ms);
  EXPECT_THAT(error_of({.rank = 1, .size = 3, .address = "127.0.0.1", .port = port, .job = "a"}),
              HasSubstr("has a worker 1 already"));
  second.join();
  first.join();
  EXPECT_THAT(error, AllOf(HasSubstr("workers 1, 2 have not come within 5 s"),
                           HasSubstr("it is no worker of this version of detent"),
                           HasSubstr("the launcher started it for another job"),
                           HasSubstr("it is worker 1 of 2, expected one of 3"),
                           HasSubstr("worker 1 is there already, from 127.0.0.1:")))
      << "and worker 1 left";
}

/// A worker that is started again joins in the place of the one that left.
TEST(Rendezvous, LetsARankComeAgainThatLeftBeforeAllWereThere) {
  const int port = reserved_port_for_test();
  const auto join = [&](int rank, std::chrono::milliseconds timeout) {
    return Rendezvous({rank, 3, "127.0.0.1", port}, timeout);
  };
  std::latch others_are_done(2);
  std::thread first([&] {
    EXPECT_NO_THROW({
      const Rendezvous table = join(0, 20s);
      others_are_done.wait();
    });
  });
  EXPECT_THAT([&] { join(1, 300ms); }, ThrowsMessage<Error>(HasSubstr("worker 2 has not come within 0.3 s")));
  const auto come = [&](int rank) {
    EXPECT_NO_THROW(join(rank, 20s)) << rank;
    others_are_done.count_down();
  };
  std::thread second([&] { come(1); });
  come(2);
  second.join();
  first.join();
}

TEST(Rendezvous, StrangersAreForgotten) {
  const int port = reserved_port_for_test();
  std::thread first([&] {
    Rendezvous rendezvous({0, 2, "127.0.0.1", port, "s"}, 20s);
    std::this_thread::sleep_for(100ms);
  });
  // Silent ones, more than are kept; ones with garbage; one that announces gigabytes.
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(Socket::connect_to("127.0.0.1", port, Rendezvous::Clock::now() + 10s));
    if (i % 2 == 0) continue;
    const std::vector<std::byte> garbage(i % 4 == 1 ? 18 : 4000, std::byte{0xff});
    try {
      strangers.back().send(garbage, Rendezvous::Clock::now() + 1s);
    } catch (const Error&) {  // hung up already
    }
  }
  const Rendezvous second({1, 2, "127.0.0.1", port, "s"}, 20s);
  first.join();
}

TEST(Rendezvous, WaitsNoLongerThanToldForWhoIsSilent) {
  const int port = reserved_port_for_test();
  const Socket silent = Socket::listen_on("127.0.0.1", port);  // takes connections and says nothing
  const auto begin = Rendezvous::Clock::now();
  EXPECT_THAT(
      [&] {
        Rendezvous({1, 2, "127.0.0.1", port}, 300ms);
      },
      ThrowsMessage<Error>(HasSubstr("silent")));
  EXPECT_THAT(
      [&] {
        Rendezvous({1, 2, "127.0.0.1", reserved_port_for_test()}, 300ms);
      },
      ThrowsMessage<Error>(HasSubstr("nobody answers")));
  EXPECT_THAT(
      [&] {
        Rendezvous({0, 2, "127.0.0.1", reserved_port_for_test()}, 300ms);
      },
      ThrowsMessage<Error>(HasSubstr("worker 1 has not come within 0.3 s")));
  EXPECT_LT(Rendezvous::Clock::now() - begin, 3s);
}

TEST(Rendezvous, ListensOnTheGivenAddressOnly) {
  const int port = reserved_port_for_test();
  const Socket listener = Socket::listen_on("127.0.0.2", port);
  EXPECT_NO_THROW(Socket::connect_to("127.0.0.2", port, Rendezvous::Clock::now() + 1s));
  EXPECT_THROW(Socket::connect_to("127.0.0.1", port, Rendezvous::Clock::now() + 200ms), Error);
  EXPECT_THAT(
      [&] {
        Rendezvous({0, 2, "192.0.2.1", port}, 300ms);
      },
      ThrowsMessage<Error>(HasSubstr("192.0.2.1 is no address of this machine")));
}

TEST(Rendezvous, KnowsPublicAddresses) {
  for (const char* address : {"127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.1", "192.168.1.1",
                              "169.254.1.1", "::1", "fe80::1", "fd00::1", "no such name"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
  for (const char* address : {"8.8.8.8", "172.32.0.1", "192.169.1.1", "2001:4860:4860::8888"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
}

}  // namespace
}  // namespace detent
