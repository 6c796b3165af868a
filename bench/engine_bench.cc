// A matrix of 4096 x 4096 weights of 8, 4, 3 and 2 bits (and ternary, and in blocks that share a scale)
// times a vector of 8 bits, by the fast engine. The matrix does not fit into the second-level cache, so fewer
// bits take less time. bytes_per_second counts packed weights. And convolutions of the shapes that resnets
// have, of 8 bits, of ternary and of binary codes. Products of two inputs beside a linear layer of the same
// size, and pairs, against the plain reference. DETENT_SIMD_TARGET chooses the instruction set.

#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"

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
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(program.run(std::span(&x, 1)));
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
BENCHMARK_CAPTURE(multiply_blocks, nvfp4, "nvfp4")->Unit(benchmark::kMicrosecond);
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
  for ([[maybe_unused]] auto _ : state) {
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

/// The least time of the steps whose kernel begins with `kernel`, by the fast engine; and that of the plain
/// reference for the whole graph.
void against_reference(benchmark::State& state, const Graph& graph, std::span<const Tensor> inputs,
                       std::string_view kernel) {
  set_thread_count(1);
  const FastProgram program(graph);
  const IntegerProgram reference(graph);
  constexpr int kRuns = 20;
  double least = HUGE_VAL;
  double products = 0;
  for ([[maybe_unused]] auto _ : state) {
    double seconds = 0;
    products = 0;
    for (const StepProfile& step : program.profile(inputs, kRuns)) {
      if (!step.kernel.starts_with(kernel)) continue;
      seconds += step.seconds;
      products += step.products;
    }
    state.SetIterationTime(seconds);
    least = std::min(least, seconds);
  }
  double slowest = HUGE_VAL;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(reference.run(inputs));
    slowest =
        std::min(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::string label = fmt::format("{:.0f} times as fast as the reference", slowest / least);
  if (products > 0) label += fmt::format(", {:.0f} GOP/s", 2e-9 * products / least);
  state.SetLabel(label);
}

Tensor normal_tensor(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(generator);
  return tensor;
}

void quantize_operands(Node& node, const char* input, const char* output) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    node.quantization[fmt::format("data_in_{}", i)] = parse_quant_spec_text(input);
  node.quantization["data_out_0"] = parse_quant_spec_text(output);
}

constexpr const char* kSymmetric = "affine:scale=0.02";
constexpr const char* kAsymmetric = "affine:scale=0.02,zero_point=17";

/// q k^T of 12 heads; `way` 1: of codes whose zero points are no middle.
void attend(benchmark::State& state, const char* codes) {
  const int64_t heads = 12;
  const int64_t tokens = state.range(0);
  const int64_t width = state.range(1);
  GraphBuilder builder("attention");
  const NodeInput q = builder.input("q", {heads, tokens, width});
  const NodeInput k = builder.input("k", {heads, tokens, width});
  const NodeInput columns = builder.call("transpose", {k}, {{"dim0", -2}, {"dim1", -1}});
  Graph graph = builder.finish(builder.call("matmul", {q, columns}));
  graph.node("transpose").quantization["data_in_0"] = parse_quant_spec_text(codes);
  quantize_operands(graph.node("matmul"), codes, "affine:scale=0.2");
  graph.set_requantization(Requantization::kFloat);
  const Tensor x = normal_tensor({1, heads, tokens, width});
  const Tensor inputs[] = {x, x};
  against_reference(state, graph, inputs, "product");
}
void of_attention(benchmark::internal::Benchmark* bench) {
  for (const auto& [tokens, width] : {std::pair{128, 64}, {197, 64}, {512, 64}, {64, 256}})
    bench->Args({tokens, width});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(attend, symmetric, kSymmetric)->Name("product/symmetric")->Apply(of_attention);
BENCHMARK_CAPTURE(attend, asymmetric, kAsymmetric)->Name("product/asymmetric")->Apply(of_attention);

/// As many rows of inputs and outputs as a head has, twelve times in one layer.
void multiply_rows(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const int64_t width = state.range(1);
  GraphBuilder builder("layer");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {12 * tokens, width}), width, tokens));
  Node& node = graph.node("fc");
  quantize_operands(node, kSymmetric, "affine:scale=0.2");
  const Tensor weights = normal_tensor(node.find_parameter("weight")->tensor.shape());
  std::ranges::copy(weights.values<float>(), node.find_parameter("weight")->tensor.values<float>().begin());
  node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.02");
  graph.set_requantization(Requantization::kFloat);
  const Tensor x = normal_tensor({1, 12 * tokens, width});
  against_reference(state, graph, std::span(&x, 1), "linear");
}
BENCHMARK(multiply_rows)->Name("product/linear_of_the_same_size")->Apply(of_attention);

/// Two tensors of [1, 64, 56, 56], or the second of [1, 64, 1, 1].
void pair(benchmark::State& state, const char* operation, const char* kernel, bool repeats,
          bool fixed_point) {
  GraphBuilder builder("pair");
  TensorType type{DType::kFloat32, {1, 64, 56, 56}};
  const NodeInput a = builder.input("a", type);
  if (repeats) type.shape = {1, 64, 1, 1};
  Graph graph = builder.finish(builder.call(operation, {a, builder.input("b", type)}));
  quantize_operands(graph.node(operation), kAsymmetric, "affine:scale=0.04");
  graph.set_requantization(fixed_point ? Requantization::kFixedPoint : Requantization::kFloat);
  const Tensor inputs[] = {normal_tensor({1, 64, 56, 56}), normal_tensor(type.concrete())};
  against_reference(state, graph, inputs, kernel);
}
BENCHMARK_CAPTURE(pair, add, "add", "addition", false, false)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pair, sub, "sub", "addition", false, false)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pair, mul, "mul", "multiplication", false, false)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pair, mul_of_channels, "mul", "multiplication", true, false)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(pair, add_by_table, "add", "pairs", false, true)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// A transposed convolution as image generators have them, and one over three dimensions.
void convolve_otherwise(benchmark::State& state, bool is_transposed) {
  const int64_t channels = 64;
  const Shape sample = is_transposed ? Shape{channels, 28, 28} : Shape{channels, 8, 14, 14};
  GraphBuilder builder("convolution");
  const NodeInput x = builder.input("x", sample);
  const auto transposed = [&] {
    return builder.layer("convtranspose2d", "conv", {x},
                         {{"weight", {channels, channels, 4, 4}}, {"bias", {channels}}},
                         {{"stride", int64_t{2}}, {"padding", int64_t{1}}});
  };
  const auto spatial = [&] {
    return builder.convolution("conv", x, channels, channels, {3, 3, 3}, {{"padding", int64_t{1}}});
  };
  Graph graph = builder.finish(is_transposed ? transposed() : spatial());
  Node& node = graph.node("conv");
  quantize_operands(node, kAsymmetric, "affine:scale=0.2");
  const Tensor weights = normal_tensor(node.find_parameter("weight")->tensor.shape());
  std::ranges::copy(weights.values<float>(), node.find_parameter("weight")->tensor.values<float>().begin());
  node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.02");
  graph.set_requantization(Requantization::kFloat);
  Shape shape = sample;
  shape.insert(shape.begin(), 1);
  const Tensor values = normal_tensor(shape);
  against_reference(state, graph, std::span(&values, 1), is_transposed ? "transposed" : "convolution");
}
BENCHMARK_CAPTURE(convolve_otherwise, transposed, true)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(convolve_otherwise, of_three_dimensions, false)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  const char* target = std::getenv("DETENT_SIMD_TARGET");
  if (target != nullptr) detent::set_engine_target(target);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
