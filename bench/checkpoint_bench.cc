// Loading a state_dict of 1 GB, against reading the file that holds it, both from the page cache: the time of
// the second is the unit. Loading maps the file, checks the CRC-32 of every tensor, and makes the tensors; it
// is to cost less than 1.3 times as much (counter relative_to_read).
#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>
#include <random>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/files/file.h"

namespace detent {
namespace {

/// 32 tensors of 32 MiB in a temporary folder, removed at the end.
class Checkpoint {
 public:
  Checkpoint() {
    Tensor values(DType::kFloat32, {2048, 4096});
    std::mt19937 random(1);
    for (float& value : values.values<float>()) value = static_cast<float>(random());
    StateDict state;
    for (int i = 0; i < 32; ++i) state.emplace_back("layer" + std::to_string(i) + ".weight", values.clone());
    write_state_dict(path(), state);
  }
  ~Checkpoint() { std::filesystem::remove(path()); }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  static std::filesystem::path path() {
    return std::filesystem::temp_directory_path() / "detent_checkpoint_bench.pt";
  }
};

template <class Run>
double seconds(Run&& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void load_state_dict(benchmark::State& state) {
  const Checkpoint checkpoint;
  double load = 0;
  double read = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double time = seconds([] { benchmark::DoNotOptimize(read_state_dict(Checkpoint::path())); });
    state.SetIterationTime(time);
    load += time;
    read += seconds([] { benchmark::DoNotOptimize(read_file(Checkpoint::path())); });
  }
  state.counters["relative_to_read"] = load / read;
}
BENCHMARK(load_state_dict)->Iterations(10)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace detent
