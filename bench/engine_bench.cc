// A matrix of 4096 x 4096 weights of 8, 4, 3 and 2 bits (and ternary) times a vector of 8 bits, by the fast
// engine. The matrix does not fit into the second-level cache, so fewer bits take less time. bytes_per_second
// counts packed weights.

#include <benchmark/benchmark.h>

#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

constexpr int64_t kSide = 4096;

Graph matrix(int low, int high) {
  GraphBuilder builder("matrix");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {kSide}), kSide, kSide));
  Node& node = graph.node("fc");
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> code(low, high);
  for (float& weight : node.find_parameter("weight")->tensor.values<float>())
    weight = static_cast<float>(code(generator));
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:signed=false,scale=0.01,zero_point=100");
  node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=1");
  node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=100");
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

void multiply(benchmark::State& state) {
  set_thread_count(1);
  const FastProgram program(matrix(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
  Tensor x(DType::kFloat32, {1, kSide});
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (float& value : x.values<float>()) value = normal(generator);
  for (auto _ : state) benchmark::DoNotOptimize(program.run(std::span(&x, 1)));
  state.SetBytesProcessed(state.iterations() * program.weight_bytes());
}
BENCHMARK(multiply)->Name("int8")->Args({-127, 127})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply)->Name("int4")->Args({-7, 7})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply)->Name("int3")->Args({-4, 3})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply)->Name("int2")->Args({-2, 1})->Unit(benchmark::kMicrosecond);
BENCHMARK(multiply)->Name("ternary")->Args({-1, 1})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace detent
