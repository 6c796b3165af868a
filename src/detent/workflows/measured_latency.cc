#include "detent/workflows/measured_latency.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/engine/fast_executor.h"

namespace detent {

double measured_latency(const Graph& graph) {
  constexpr int kFewest = 5;
  constexpr double kSeconds = 0.2;
  std::vector<Tensor> inputs;
  for (const std::string& name : graph.input_names()) {
    const TensorType& type = graph.input_types().find(name)->second;
    inputs.emplace_back(type.dtype, type.concrete({{kBatchName, 1}}));
  }
  const FastProgram program(graph);
  program.run(inputs);  // plans, and takes memory
  double least = 0;
  double all = 0;
  for (int run = 0; run < kFewest || all < kSeconds; ++run) {
    const auto start = std::chrono::steady_clock::now();
    program.run(inputs);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    least = run == 0 ? seconds : std::min(least, seconds);
    all += seconds;
  }
  return least;
}

}  // namespace detent
