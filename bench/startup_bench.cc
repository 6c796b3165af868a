// How long the commands that need no libtorch take from start to end, as processes. The aim is under 50 ms.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

void run_detent(benchmark::State& state, std::vector<std::string> arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
  arguments.insert(arguments.begin(), DETENT_PROGRAM);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  for ([[maybe_unused]] auto _ : state) {
    pid_t child = 0;
    int status = 0;
    const bool started =
        posix_spawn(&child, DETENT_PROGRAM, &actions, nullptr, pointers.data(), environ) == 0 &&
        waitpid(child, &status, 0) == child;
    if (!started || status != 0) state.SkipWithError("the program failed");
  }
  posix_spawn_file_actions_destroy(&actions);
}

/// A safetensors file with a tensor of 1 GB, which is a hole: nothing of it is to be read.
void info_of_1_gb(benchmark::State& state) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "detent_startup_bench.safetensors";
  constexpr uint64_t kBytes = 1'000'000'000;
  const std::string header = R"({"w":{"dtype":"F32","shape":[250000000],"data_offsets":[0,1000000000]}} )";
  const uint64_t header_bytes = header.size();
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes)) << header;
  }
  std::filesystem::resize_file(path, sizeof(header_bytes) + header_bytes + kBytes);
  run_detent(state, {"info", path.string()});
  std::filesystem::remove(path);
}
BENCHMARK(info_of_1_gb)->UseRealTime()->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(run_detent, help, {"--help"})->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_detent, version, {"version"})->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run_detent, list, {"list"})->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
