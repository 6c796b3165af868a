// Cost of cutting a loop into ranges: the sum of floats by grain size and number of threads.
#include <atomic>
#include <cstdint>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

#include "detent/core/parallel.h"

namespace detent {
namespace {

void sum_floats(benchmark::State& state) {
  const int64_t count = 1 << 22;
  const int64_t grain = state.range(0);
  const std::vector<float> values(static_cast<size_t>(count), 1.0F);
  const int before = thread_count();
  set_thread_count(static_cast<int>(state.range(1)));
  for (auto _ : state) {
    std::atomic<int64_t> total = 0;
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      total += static_cast<int64_t>(std::accumulate(values.begin() + begin, values.begin() + end, 0.0));
    });
    benchmark::DoNotOptimize(total.load());
  }
  set_thread_count(before);
  state.SetBytesProcessed(state.iterations() * count * static_cast<int64_t>(sizeof(float)));
}
BENCHMARK(sum_floats)
    ->ArgsProduct({{1 << 10, 1 << 14, 1 << 18}, {1, 2, 4}})
    ->ArgNames({"grain", "threads"})
    ->UseRealTime();

}  // namespace
}  // namespace detent
