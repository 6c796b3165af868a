// Whether evaluation in float costs more than libtorch did: forward passes, one thread, of the engine, which
// adds in a fixed order, against libtorch with oneDNN and BLAS. The two take turns; prints the medians of the
// ratios of their speeds, 1 / time. At least 1 is wanted.
//   reproducible_bench [ROUNDS]
// Not a Google Benchmark: what counts are pairs of turns.

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/models/model.h"

namespace detent {
namespace {

struct Case {
  const char* network;
  Shape sample;
  int64_t classes;
  int64_t batch;
};

template <class Run>
double seconds_of(const Run& run) {
  const std::clock_t start = std::clock();
  run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const Case& of, int rounds) {
  seed_everything(1);
  Graph graph = build_model(of.network, of.sample, of.classes);
  initialize_parameters(graph);
  std::vector<int64_t> shape = {of.batch};
  shape.insert(shape.end(), of.sample.begin(), of.sample.end());
  const at::Tensor input = at::randn(shape);
  const at::NoGradGuard no_gradients;
  Interpreter interpreter(graph);
  interpreter.freeze_running_statistics(true);
  const FastProgram program(graph);
  const Tensor same_input = from_torch(input);
  const auto fast = [&] { interpreter.run(input); };
  const auto ordered = [&] { program.run({&same_input, 1}); };
  std::vector<double> ratios;
  double least_fast = 1e9;
  double least_ordered = 1e9;
  seconds_of(fast);
  seconds_of(ordered);
  for (int round = 0; round < rounds; ++round) {
    const double of_fast = seconds_of(fast);
    const double of_ordered = seconds_of(ordered);
    ratios.push_back(of_fast / of_ordered);
    least_fast = std::min(least_fast, of_fast);
    least_ordered = std::min(least_ordered, of_ordered);
  }
  fmt::print(
      "{:<14} batch {:<3} {:8.1f} ms in order, {:8.1f} ms by oneDNN: speed {:.2f} (median), {:.2f} "
      "(minima)\n",
      of.network, of.batch, 1e3 * least_ordered, 1e3 * least_fast, median(std::move(ratios)),
      least_fast / least_ordered);
}

void run(int rounds) {
  set_thread_count(1);
  at::set_num_threads(1);
  use_block_cache_for_tensors();
  const Shape image = {3, 224, 224};
  for (const int64_t batch : {1, 32}) {
    for (const Case& of :
         {Case{"resnet18", image, 1000, batch}, Case{"mobilenet_v2", image, 1000, batch},
          Case{"resnet20", {3, 32, 32}, 10, batch}, Case{"mnist_cnn", {1, 28, 28}, 10, batch}}) {
      compare(of, rounds);
    }
  }
}

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  try {
    detent::run(argc > 1 && argv[1][0] != '-' ? std::atoi(argv[1]) : 11);
    return 0;
  } catch (const detent::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
