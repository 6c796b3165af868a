#include "detent/cli/torch_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/read_ahead.h"
#include "detent/core/sanitizers_for_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The error of `body` in a process of its own, with a limit, as a user that limits hold for; "" where there
/// is none.
std::string error_with_limit(int resource, rlim_t limit, const std::function<void()>& body) {
  int channel[2];
  if (pipe(channel) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit both = {limit, limit};
    std::string message;
    // The kernel does not count the processes of the administrator.
    const bool limited = setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0 &&
                         (resource != RLIMIT_NPROC || geteuid() != 0 || setuid(54321) == 0);
    try {
      if (!limited) fail("cannot be limited");
      body();
    } catch (const Error& error) {
      message = error.what();
    }
    _exit(write(channel[1], message.data(), message.size()) == static_cast<ssize_t>(message.size()) ? 0 : 1);
  }
  close(channel[1]);
  std::string message;
  char text[4096];
  for (ssize_t got = 0; (got = read(channel[0], text, sizeof(text))) > 0;)
    message.append(text, static_cast<size_t>(got));
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return message;
}

TEST(ResourceLimits, TooLittleAddressSpaceIsSaidBeforeLibtorchIsLoaded) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const rlim_t gigabyte = rlim_t{1} << 30;
  EXPECT_THAT(error_with_limit(RLIMIT_AS, gigabyte, [] { check_resource_limits(2, 0); }),
              AllOf(HasSubstr("limited to 1024 MiB (ulimit -v)"), HasSubstr("on 2 threads needs at least 1"),
                    HasSubstr("--num-threads")));
  EXPECT_THAT(error_with_limit(RLIMIT_AS, gigabyte / 4 * 5, [] { check_resource_limits(2, 0); }),
              HasSubstr("limited to 1280 MiB (ulimit -v)"));
  EXPECT_THAT(error_with_limit(RLIMIT_AS, gigabyte / 2, [] { check_resource_limits(1, 0); }),
              HasSubstr("limited to 512 MiB (ulimit -v)"));
  EXPECT_EQ(error_with_limit(RLIMIT_AS, 4 * gigabyte, [] { check_resource_limits(2, 1); }), "");
}

TEST(ResourceLimits, ThreadsThatCannotBeStartedAreErrorsOrMissed) {
  DETENT_SKIP_UNDER_SANITIZERS();
  EXPECT_THAT(error_with_limit(RLIMIT_NPROC, 1, [] { check_resource_limits(2, 4); }),
              AllOf(HasSubstr(" threads only 0 can be started"), HasSubstr("ulimit -u"),
                    HasSubstr("--num-threads 1 --num-workers 0")));
  // The pool that libtorch starts cannot be made smaller.
  const std::string of_pool = error_with_limit(RLIMIT_NPROC, 1, [] { check_resource_limits(1, 0); });
  EXPECT_EQ(of_pool.empty(), std::thread::hardware_concurrency() <= 1);
  EXPECT_THAT(of_pool, Not(HasSubstr("--num-threads")));
  const auto in_parallel = [] {
    set_thread_count(2);
    std::atomic<int64_t> done = 0;
    parallel_for(8, 1, [&](int64_t begin, int64_t end) { done += end - begin; });
    if (done != 8) fail("{} of 8", done.load());
  };
  EXPECT_EQ(error_with_limit(RLIMIT_NPROC, 1, in_parallel), "");
  const auto read_ahead = [] { ReadAhead<int>(8, 3, [](int64_t) { return 1; }); };
  EXPECT_THAT(error_with_limit(RLIMIT_NPROC, 1, read_ahead),
              HasSubstr("cannot start 3 threads that load data (--num-workers)"));
}

}  // namespace
}  // namespace detent
