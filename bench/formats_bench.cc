// Rounding 256 MB and 256 KB out of place on one thread, beside memcpy of as much. The counter `of_memcpy` is
// the ratio of their bytes per second: at least 0.85 from memory and 0.5 within the caches are wanted, 0.7
// and 0.35 of block formats. Formats that derive something from the data read it once more. What that costs
// at least, the line `read` shows, a maximum alone: with its ratio r and the ratio w of a format that rounds
// at once, 1 / (1 / r + 1 / w) is the bound.

#include <benchmark/benchmark.h>
#include <ctime>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "detent/core/parallel.h"
#include "detent/formats/groups/group.h"
#include "detent/formats/quant_spec.h"

namespace {

using detent::Tensor;

constexpr int64_t kLarge = int64_t{64} << 20;
constexpr int64_t kSmall = int64_t{64} << 10;

struct Buffers {
  Tensor input;
  Tensor output;

  Buffers(Tensor from, Tensor to) : input(std::move(from)), output(std::move(to)) {}
  explicit Buffers(int64_t elements)
      : input(detent::DType::kFloat32, {elements}), output(detent::DType::kFloat32, {elements}) {
    float value = -9.0F;
    for (float& x : input.values<float>()) x = value = value > 9.0F ? -9.0F : value + 0.0103F;
    std::ranges::fill(output.values<float>(), 1.0F);
  }
};

Buffers& buffers(int64_t elements) {
  static Buffers large(kLarge);
  static Buffers small(kSmall);
  return elements == kLarge ? large : small;
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

// The two take turns, so that what else the machine does hits both.
void beside_memcpy(benchmark::State& state, const Buffers& data, auto&& action) {
  detent::set_thread_count(1);
  double best_copy = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    best_copy = std::min(best_copy, seconds_of([&] {
                           std::memcpy(const_cast<std::byte*>(data.output.bytes().data()),
                                       data.input.bytes().data(), data.input.byte_size());
                         }));
    const double seconds = seconds_of(action);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const auto bytes = static_cast<double>(data.input.byte_size());
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["of_memcpy"] = best_copy / best;
}

void read_beside_memcpy(benchmark::State& state, int64_t elements) {
  const Buffers& data = buffers(elements);
  const detent::Group all(data.input.values<float>(), {1, 1, elements}, 0);
  beside_memcpy(state, data, [&] { benchmark::DoNotOptimize(all.largest_magnitude()); });
}

void fake_quantize_beside_memcpy(benchmark::State& state, int64_t elements, const std::string& format,
                                 int64_t columns) {
  const detent::QuantSpec spec = detent::parse_quant_spec_text(format);
  const Buffers& flat = buffers(elements);
  const detent::Shape shape =
      columns == 0 ? detent::Shape{elements} : detent::Shape{elements / columns, columns};
  Buffers data = {flat.input.reshaped(shape), flat.output.reshaped(shape)};
  beside_memcpy(state, data, [&] { detent::fake_quantize(spec, data.input, data.output); });
}

template <class... Arguments>
void add_sizes(const std::string& name, auto* function, const Arguments&... arguments) {
  const auto add_size = [&](const char* size, int64_t elements, int64_t repetitions) {
    benchmark::RegisterBenchmark((name + " " + size).c_str(),
                                 [=](benchmark::State& state) { function(state, elements, arguments...); })
        ->UseManualTime()
        ->Iterations(repetitions)
        ->Unit(benchmark::kMicrosecond);
  };
  add_size("256 MB", kLarge, 15);
  add_size("256 KB", kSmall, 2000);
}

/// With `columns`, the elements are a matrix of so many.
void add(const std::string& format, const std::string& name, int64_t columns = 0) {
  add_sizes(name, &fake_quantize_beside_memcpy, format, columns);
}

/// Channels on the last axis, with scales that are given.
std::string affine_of_columns(int columns) {
  std::string scales;
  for (int i = 0; i < columns; ++i) scales += (i > 0 ? "x" : "") + std::to_string(0.05 + 0.01 * i / columns);
  return "affine:granularity=channel,axis=-1,symmetric=true,scale=" + scales;
}

/// 2^bits values, evenly spaced from -8 to 8.
std::string codebook(int bits) {
  std::string text = "codebook:values=";
  const int count = 1 << bits;
  for (int i = 0; i < count; ++i) text += (i > 0 ? "x" : "") + std::to_string(16.0 * i / (count - 1) - 8);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  add_sizes("read", &read_beside_memcpy);
  for (const char* format : {"fixed:width=8,frac_width=4",
                             "fixed:width=8,frac_width=4,rounding=floor",
                             "ternary:threshold=0.5",
                             "ternary",
                             "binary",
                             "binary:stochastic=true",
                             "affine:scale=0.05,zero_point=3",
                             "affine",
                             "minifloat_ieee",
                             "minifloat_denorm",
                             "fp8_e4m3fn",
                             "fp8_e5m2:saturate=false",
                             "fp4_e2m1",
                             "fp16",
                             "bf16",
                             "tf32",
                             "block_fp",
                             "block_fp:block_size=32",
                             "block_minifloat",
                             "block_log",
                             "mx",
                             "mx:element=int8",
                             "mx:element=e2m1,block_size=16",
                             "nvfp4",
                             "block_fp:block_size=4",
                             "block_fp:block_size=-1",
                             "log",
                             "binary_residual:gamma=1x0.5",
                             "binary_residual"}) {
    add(format, format);
  }
  add("block_fp:block_axis=0", "block_fp along the rows of a matrix", 1024);
  add("mx:block_size=4x16", "mx in boxes of 4x16", 1024);
  add(affine_of_columns(1024), "affine with a scale for each column", 1024);
  add("affine:granularity=channel,axis=-1", "affine with channels on the last axis", 1024);
  for (const int bits : {3, 4, 5, 8}) add(codebook(bits), "codebook of " + std::to_string(1 << bits));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
