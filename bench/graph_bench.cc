// Cost of graphs of many layers: each step on 1,000 and on 10,000 layers, and the ratio of the times, which
// is 10 where a step is linear.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

class Constant final : public CalibrationSet {
 public:
  int64_t size() const override { return 64; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    Tensor tensor(DType::kFloat32, {end - begin, 4});
    float next = 0;
    for (float& value : tensor.values<float>()) value = next = 1 - 1.25F * next;
    return {tensor};
  }
  uint64_t fingerprint() const override { return 1; }
};

Graph layers(int64_t count) {
  GraphBuilder builder("deep");
  NodeInput x = builder.input("x", {4});
  for (int64_t i = 0; i < count / 2; ++i) {
    x = builder.linear(fmt::format("fc{}", i), x, 4, 4);
    x = builder.call("relu", {x});
  }
  Graph graph = builder.finish(builder.linear("last", x, 4, 2));
  initialize_parameters(graph);
  return graph;
}

double seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Seconds of each step on a network of `count` layers.
std::vector<std::pair<const char*, double>> measure(int64_t count) {
  const Graph graph = layers(count);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("detent_graph_bench_{}.mz", getpid());
  FastExecutor executor;
  PassContext context;
  context.output_dir = std::filesystem::temp_directory_path();
  context.report = [](const std::string&) {};
  context.warn = [](const std::string&) {};
  context.executor = [&]() -> Executor& { return executor; };
  context.open_calibration = [] { return std::make_unique<Constant>(); };
  context.where = "bench";
  std::vector<std::pair<const char*, double>> times;
  times.emplace_back("build", seconds([&] { layers(count); }));
  times.emplace_back("verify", seconds([&] { verify(graph); }));
  times.emplace_back("copy", seconds([&] { const Graph copy = graph; }));
  times.emplace_back("infer shapes", seconds([&] { infer_shapes(graph); }));
  times.emplace_back("save", seconds([&] { write_graph(path, graph); }));
  times.emplace_back("load", seconds([&] { read_graph(path); }));
  times.emplace_back("compile", seconds([&] { executor.compile(graph); }));
  times.emplace_back(
      "static_quantize", seconds([&] {
        Graph quantized = graph;
        find_pass("static_quantize").run(quantized, {{"num_samples", 64}, {"report", false}}, context);
      }));
  std::filesystem::remove(path);
  return times;
}

}  // namespace
}  // namespace detent

int main() {
  const auto few = detent::measure(1000);
  const auto many = detent::measure(10000);
  std::printf("%-16s %12s %12s %8s\n", "step", "1,000 [ms]", "10,000 [ms]", "ratio");
  for (size_t i = 0; i < few.size(); ++i) {
    std::printf("%-16s %12.2f %12.2f %8.1f\n", few[i].first, 1e3 * few[i].second, 1e3 * many[i].second,
                many[i].second / few[i].second);
  }
}
