// `affine` with a given scale on 256 MB, one thread, beside libtorch's fake_quantize_per_tensor_affine, which
// computes the same. Two ways each: into a new tensor, as both are usually called, and into one that is
// there. The counter `of_libtorch` is the ratio of their speeds; at least 20 is wanted.

#include <ATen/Parallel.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>
#include <ATen/ops/fake_quantize_per_tensor_affine_cachemask.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/quant_spec.h"

namespace {

using detent::Tensor;

constexpr int64_t kElements = int64_t{64} << 20;
constexpr float kScale = 0.05F;
constexpr int kZeroPoint = 3;

const Tensor& input() {
  static const Tensor tensor = [] {
    Tensor values(detent::DType::kFloat32, {kElements});
    float value = -9.0F;
    for (float& x : values.values<float>()) x = value = value > 9.0F ? -9.0F : value + 0.0103F;
    return values;
  }();
  return tensor;
}

at::Tensor view(const Tensor& tensor) {
  return at::from_blob(const_cast<std::byte*>(tensor.bytes().data()), {tensor.numel()}, at::kFloat);
}

/// Time of this thread, which does all the work: what else the machine runs meanwhile does not count.
double seconds_of(auto&& action) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  action();
  return now() - start;
}

/// The two take turns, so that what else the machine does hits both.
void beside_libtorch(benchmark::State& state, auto&& ours, auto&& theirs) {
  double best = 1e9;
  double best_of_libtorch = 1e9;
  for (auto _ : state) {
    best_of_libtorch = std::min(best_of_libtorch, seconds_of(theirs));
    const double seconds = seconds_of(ours);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["libtorch_ms"] = best_of_libtorch * 1e3;
  state.counters["of_libtorch"] = best_of_libtorch / best;
}

detent::QuantSpec spec() { return detent::parse_quant_spec_text("affine:scale=0.05,zero_point=3"); }

void into_a_new_tensor(benchmark::State& state) {
  const at::Tensor torch_input = view(input());
  at::Tensor torch_output;
  Tensor output(detent::DType::kFloat32, {1});
  beside_libtorch(
      state, [&] { output = detent::fake_quantize(spec(), input()); },
      [&] {
        torch_output = at::fake_quantize_per_tensor_affine(torch_input, kScale, kZeroPoint, -128, 127);
      });
  // libtorch multiplies with the reciprocal of the scale, which moves a few ties by one step.
  const float* expected = torch_output.data_ptr<float>();
  for (const float value : output.values<float>()) {
    DETENT_CHECK(std::fabs(value - *expected) < 1.001F * kScale, "{} beside {} of libtorch", value,
                 *expected);
    ++expected;
  }
}

void into_one_that_is_there(benchmark::State& state) {
  const at::Tensor torch_input = view(input());
  at::Tensor torch_output = at::empty_like(torch_input);
  at::Tensor torch_mask = at::empty_like(torch_input, at::kBool);
  Tensor output = input().clone();
  beside_libtorch(
      state, [&] { detent::fake_quantize(spec(), input(), output); },
      [&] {
        at::fake_quantize_per_tensor_affine_cachemask_out(torch_output, torch_mask, torch_input, kScale,
                                                          kZeroPoint, -128, 127);
      });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  detent::set_thread_count(1);
  const c10::InferenceMode without_gradients;
  for (const auto& [name, function] : {std::pair("affine into a new tensor", &into_a_new_tensor),
                                       std::pair("affine into one that is there", &into_one_that_is_there)}) {
    benchmark::RegisterBenchmark(name, function)
        ->UseManualTime()
        ->Iterations(7)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
