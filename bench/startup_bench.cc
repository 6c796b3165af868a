// How long the commands that need no libtorch take from start to end, as processes. The aim is under 50 ms.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>

namespace {

void run_detent(benchmark::State& state, const char* command) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
  std::string program = DETENT_PROGRAM;
  std::string argument = command;
  const std::array<char*, 3> arguments = {program.data(), argument.data(), nullptr};
  for ([[maybe_unused]] auto _ : state) {
    pid_t child = 0;
    int status = 0;
    const bool started =
        posix_spawn(&child, DETENT_PROGRAM, &actions, nullptr, arguments.data(), environ) == 0 &&
        waitpid(child, &status, 0) == child;
    if (!started || status != 0) state.SkipWithError("the program failed");
  }
  posix_spawn_file_actions_destroy(&actions);
}

BENCHMARK_CAPTURE(run_detent, help, "--help")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_detent, version, "version")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_detent, list, "list")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
