// Rounding 256 MB out of place on one thread, beside memcpy of as much. The counter `of_memcpy` is the ratio
// of their bytes per second.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "detent/core/parallel.h"
#include "detent/formats/quant_spec.h"

namespace {

using detent::Tensor;

constexpr int64_t kElements = int64_t{64} << 20;

struct Buffers {
  Tensor input = Tensor(detent::DType::kFloat32, {kElements});
  Tensor output = Tensor(detent::DType::kFloat32, {kElements});

  Buffers() {
    float value = -9.0F;
    for (float& x : input.values<float>()) x = value = value > 9.0F ? -9.0F : value + 0.0103F;
    std::ranges::fill(output.values<float>(), 1.0F);
  }
};

Buffers& buffers() {
  static Buffers instance;
  return instance;
}

double seconds_of(auto&& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// memcpy and the format take turns, so that what else the machine does hits both.
void simulate_beside_memcpy(benchmark::State& state, const std::string& format) {
  detent::set_thread_count(1);
  const detent::QuantSpec spec = detent::parse_quant_spec_text(format);
  Buffers& data = buffers();
  double best_copy = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    best_copy =
        std::min(best_copy, seconds_of([&] {
                   std::memcpy(data.output.bytes().data(), data.input.bytes().data(), data.input.byte_size());
                 }));
    const double seconds = seconds_of([&] { detent::simulate(spec, data.input, data.output); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const auto bytes = static_cast<double>(data.input.byte_size());
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["of_memcpy"] = best_copy / best;
}

void add(const std::string& format) {
  benchmark::RegisterBenchmark(format.c_str(), simulate_beside_memcpy, format)
      ->UseManualTime()
      ->Iterations(15)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* format : {"fixed:width=8,frac_width=4", "fixed:width=8,frac_width=4,rounding=floor",
                             "ternary:threshold=0.5", "ternary", "binary", "binary:stochastic=true"}) {
    add(format);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
