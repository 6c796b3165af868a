// A matrix of 4096 x 4096 weights of 8, 4, 3 and 2 bits (and ternary, and in blocks that share a scale)
// times a vector of 8 bits, by the fast engine. The matrix does not fit into the second-level cache, so fewer
// bits take less time. bytes_per_second counts packed weights. And convolutions of the shapes that resnets
// have, of 8 bits, of ternary and of binary codes.

#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

constexpr int64_t kSide = 4096;

Graph matrix(int low, int high, const char* format = "affine:symmetric=true,scale=1") {
  GraphBuilder builder("matrix");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {kSide}), kSide, kSide));
  Node& node = graph.node("fc");
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> code(low, high);
  for (float& weight : node.find_parameter("weight")->tensor.values<float>())
    weight = static_cast<float>(code(generator));
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:signed=false,scale=0.01,zero_point=100");
  node.quantization["weight"] = parse_quant_spec_text(format);
  node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=100");
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

void multiply(benchmark::State& state, const Graph& graph) {
  set_thread_count(1);
  const FastProgram program(graph);
  Tensor x(DType::kFloat32, {1, kSide});
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (float& value : x.values<float>()) value = normal(generator);
  for (auto _ : state) benchmark::DoNotOptimize(program.run(std::span(&x, 1)));
  state.SetBytesProcessed(state.iterations() * program.weight_bytes());
}
void multiply_integers(benchmark::State& state) {
  multiply(state, matrix(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
}
BENCHMARK(multiply_integers)->Name("int8")->Args({-127, 127})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply_integers)->Name("int4")->Args({-7, 7})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply_integers)->Name("int3")->Args({-4, 3})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply_integers)->Name("int2")->Args({-2, 1})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply_integers)->Name("ternary")->Args({-1, 1})->Unit(benchmark::kMicrosecond);

void multiply_blocks(benchmark::State& state, const char* format) {
  multiply(state, matrix(-127, 127, format));
}
BENCHMARK_CAPTURE(multiply_blocks, mx_e2m1, "mx:element=e2m1")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(multiply_blocks, mx_int8, "mx:element=int8")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(multiply_blocks, block_fp4, "block_fp:width=4")->Unit(benchmark::kMicrosecond);

/// 3 x 3, from as many channels to as many, as resnets have them; codes and weights of `width` bits.
void convolve(benchmark::State& state) {
  set_thread_count(1);
  const int64_t width = state.range(0);
  const int64_t channels = state.range(1);
  const int64_t positions = state.range(2);
  GraphBuilder builder("convolution");
  const NodeInput x = builder.input("x", {channels, positions, positions});
  Graph graph =
      builder.finish(builder.convolution("conv", x, channels, channels, {3, 3}, {{"padding", int64_t{1}}}));
  Node& node = graph.node("conv");
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, width == 8 ? 40.0F : 0.6F);
  for (float& weight : node.find_parameter("weight")->tensor.values<float>()) weight = normal(generator);
  const auto codes = [&](double scale) {
    if (width == 1) return parse_quant_spec_text("binary");
    return parse_quant_spec_text(fmt::format("affine:narrow_range=true,width={},scale={}", width, scale));
  };
  graph.node("x").quantization["data_out_0"] = codes(width == 8 ? 0.02 : 1);
  node.quantization["data_in_0"] = codes(width == 8 ? 0.02 : 1);
  node.quantization["weight"] = codes(1);
  node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=1");
  graph.set_requantization(Requantization::kFloat);
  const FastProgram program(graph);
  Tensor values(DType::kFloat32, {1, channels, positions, positions});
  std::normal_distribution<float> inputs;
  for (float& value : values.values<float>()) value = inputs(generator);
  constexpr int kRuns = 20;
  for (auto _ : state) {
    for (const StepProfile& step : program.profile(std::span(&values, 1), kRuns)) {
      if (step.products == 0) continue;
      state.SetIterationTime(step.seconds);
      state.SetLabel(fmt::format("{}, {:.0f} GOP/s", step.kernel, 2e-9 * step.products / step.seconds));
    }
  }
}
void of_resnets(benchmark::internal::Benchmark* bench, int64_t width) {
  for (const auto& [channels, positions] : {std::pair{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    bench->Args({width, channels, positions});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(convolve)->Name("convolution/int8")->Apply([](auto* b) { of_resnets(b, 8); });
BENCHMARK(convolve)->Name("convolution/ternary")->Apply([](auto* b) { of_resnets(b, 2); });
BENCHMARK(convolve)->Name("convolution/binary")->Apply([](auto* b) { of_resnets(b, 1); });

}  // namespace
}  // namespace detent
