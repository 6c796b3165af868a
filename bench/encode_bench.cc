// Encoding and decoding 64 Mi elements on one thread, beside memcpy. The counter `of_memcpy` is the ratio of
// bytes per second, where both are charged with what they read and write: memcpy of n bytes with 2 n, encode
// and decode with the float32 elements and the packed bytes.

#include <benchmark/benchmark.h>
#include <ctime>

#include <algorithm>
#include <cstring>
#include <string>

#include "detent/core/parallel.h"
#include "detent/formats/packing/encode.h"

namespace {

using detent::Encoded;
using detent::Packing;
using detent::Tensor;

constexpr int64_t kElements = int64_t{64} << 20;

struct Buffers {
  Tensor input = Tensor(detent::DType::kFloat32, {kElements});
  Tensor copy = Tensor(detent::DType::kFloat32, {kElements});

  Buffers() {
    float value = -9.0F;
    for (float& x : input.values<float>()) x = value = value > 9.0F ? -9.0F : value + 0.0103F;
    std::ranges::fill(copy.values<float>(), 1.0F);
  }
};

Buffers& buffers() {
  static Buffers instance;
  return instance;
}

/// Time of this thread, which does all the work: what else the machine runs meanwhile does not count.
double seconds_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_of(auto&& action) {
  const double start = seconds_now();
  action();
  return seconds_now() - start;
}

/// memcpy and `action` take turns, so that what else the machine does hits both.
void beside_memcpy(benchmark::State& state, double bytes, auto&& action) {
  Buffers& data = buffers();
  double best_copy = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    best_copy =
        std::min(best_copy, seconds_of([&] {
                   std::memcpy(data.copy.bytes().data(), data.input.bytes().data(), data.input.byte_size());
                 }));
    const double seconds = seconds_of(action);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const double copied = 2 * static_cast<double>(data.input.byte_size());
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["of_memcpy"] = (bytes / best) / (copied / best_copy);
}

double traffic(const Encoded& encoded) {
  double bytes = static_cast<double>(buffers().input.byte_size());
  for (const auto& stream : encoded.streams) bytes += static_cast<double>(stream.data.byte_size());
  return bytes;
}

void encode(benchmark::State& state, const std::string& format, Packing packing) {
  detent::set_thread_count(1);
  const detent::QuantSpec spec = detent::parse_quant_spec_text(format);
  Encoded encoded = detent::encode(spec, buffers().input, packing);
  beside_memcpy(state, traffic(encoded), [&] { detent::encode(spec, buffers().input, encoded); });
}

void decode(benchmark::State& state, const std::string& format, Packing packing) {
  detent::set_thread_count(1);
  const detent::QuantSpec spec = detent::parse_quant_spec_text(format);
  const Encoded encoded = detent::encode(spec, buffers().input, packing);
  Tensor output = detent::decode(encoded);
  beside_memcpy(state, traffic(encoded), [&] { detent::decode(encoded, output); });
}

void add(const std::string& format, Packing packing = Packing::kBits) {
  const std::string name = packing == Packing::kBase3 ? format + " in base 3" : format;
  for (const auto& [verb, function] : {std::pair("encode ", &encode), std::pair("decode ", &decode)}) {
    benchmark::RegisterBenchmark((verb + name).c_str(), function, format, packing)
        ->UseManualTime()
        ->Iterations(15)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* format :
       {"fixed:width=8,frac_width=4", "fixed:width=4,frac_width=0", "fixed:width=5,frac_width=1",
        "fixed:width=16,frac_width=8", "fixed:width=12,frac_width=8", "ternary:threshold=0.5", "binary"}) {
    add(format);
  }
  add("ternary:threshold=0.5", Packing::kBase3);
  for (const char* format : {"block_fp:width=6", "block_minifloat", "block_log:width=4", "mx:element=e4m3",
                             "mx:element=e2m1", "mx:element=int8", "nvfp4"}) {
    add(format);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
