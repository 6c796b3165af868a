#include "detent/workflows/resource_use.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "detent/core/log.h"
#include "detent/core/process_resources.h"
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

namespace {

/// Rounded up.
int64_t megabytes(int64_t bytes) { return (bytes + 999'999) / 1'000'000; }

}  // namespace

void announce_length(const Decoder& decoder, int64_t given, int64_t wanted) {
  decoder.expect_positions(given);
  if (decoder.positions() > 0 && wanted > decoder.positions()) {
    log_warning("texts end at {} tokens, for which the network has positions", decoder.positions());
  } else if (decoder.context() > 0 && wanted > decoder.context()) {
    log_warning("up to {} tokens: the network was made for {}, and predicts badly beyond", wanted,
                decoder.context());
  }
}

int64_t announce_memory(const Decoder& decoder, const DecoderLoad& load) {
  const DecoderMemory memory = decoder.memory(load);
  const ResidentMemory resident = resident_memory();
  // Values of many sizes come and go: half as much again lies between them in the heap.
  const int64_t values = memory.buffers + memory.buffers / 2;
  constexpr int64_t kFirstRun = int64_t{6} << 20;  // pages of code, and plans
  const int64_t most = std::max(resident.most, resident.now + memory.cache + values + kFirstRun);
  log_info("memory: at most {} MB (weights {}, cache {} for {} tokens, values {}; loading took {})",
           megabytes(most), megabytes(memory.weights), megabytes(memory.cache), load.sequences * load.tokens,
           megabytes(values), megabytes(resident.most));
  return most;
}

}  // namespace detent
