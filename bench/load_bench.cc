// Loading a network of resnet50's convolutions (25.5 million weights of 8 bits) from a file of packed
// weights: reading the file as a graph, compiling that for the fast engine, and both. The argument is the
// number of threads.

#include <benchmark/benchmark.h>

#include <filesystem>
#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

/// He et al. 2015, arXiv:1512.03385, with batch norms folded into the convolutions.
Graph residual_network() {
  GraphBuilder builder("resnet50");
  int count = 0;
  const auto convolution = [&](const NodeInput& x, int64_t in, int64_t out, int64_t side, int64_t stride) {
    return builder.convolution(fmt::format("conv{}", count++), x, in, out, {side, side},
                               {{"stride", stride}, {"padding", side / 2}}, true);
  };
  NodeInput x = convolution(builder.input("x", {3, 224, 224}), 3, 64, 7, 2);
  int64_t channels = 64;
  int64_t width = 64;
  for (const int64_t blocks : {3, 4, 6, 3}) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t stride = block == 0 ? 2 : 1;
      NodeInput y = convolution(x, channels, width, 1, 1);
      y = convolution(convolution(y, width, width, 3, stride), width, 4 * width, 1, 1);
      if (block == 0) x = convolution(x, channels, 4 * width, 1, stride);
      x = builder.call("add", {x, y});
      channels = 4 * width;
    }
    width *= 2;
  }
  x = builder.call("flatten", {builder.call("adaptive_avg_pool2d", {x}, {{"output_size", int64_t{1}}})},
                   {{"start_dim", 1}});
  return builder.finish(builder.linear("fc", x, channels, 1000));
}

Graph quantized_network() {
  Graph graph = residual_network();
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 0.05F);
  for (Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role != OperatorRole::kComputes) continue;
    for (auto& [name, parameter] : node.parameters) {
      for (float& value : parameter->tensor.values<float>()) value = normal(generator);
    }
    if (moves_codes(node)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      node.quantization[fmt::format("data_in_{}", i)] = parse_quant_spec_text("affine:scale=0.05");
    node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.05");
    if (node.find_parameter("weight") != nullptr)
      node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.002");
  }
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

/// In a temporary folder, removed at the end.
class PackedFile {
 public:
  PackedFile() {
    for (const std::string& left : write_packed_graph(path(), quantized_network())) fmt::print("{}\n", left);
  }
  ~PackedFile() { std::filesystem::remove(path()); }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  static std::filesystem::path path() {
    return std::filesystem::temp_directory_path() / "detent_load_bench.mz";
  }
};

void read(benchmark::State& state) {
  const PackedFile file;
  set_thread_count(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(read_graph(PackedFile::path()));
}

void compile(benchmark::State& state) {
  const PackedFile file;
  set_thread_count(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    const Graph graph = read_graph(PackedFile::path());
    state.ResumeTiming();
    const FastProgram program(graph);
    benchmark::DoNotOptimize(program.weight_bytes());
  }
}

void load(benchmark::State& state) {
  const PackedFile file;
  set_thread_count(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const FastProgram program(read_graph(PackedFile::path()));
    benchmark::DoNotOptimize(program.weight_bytes());
  }
}

void of_threads(benchmark::internal::Benchmark* bench) {
  bench->Arg(1)->Arg(2)->UseRealTime()->Iterations(10)->Unit(benchmark::kMillisecond);
}
BENCHMARK(read)->Apply(of_threads);
BENCHMARK(compile)->Apply(of_threads);
BENCHMARK(load)->Apply(of_threads);

}  // namespace
}  // namespace detent
