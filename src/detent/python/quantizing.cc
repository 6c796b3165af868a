#include "detent/python/quantizing.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/mersenne_twister.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/passes/pipeline.h"
#include "detent/workflows/batch_mixing.h"
#include "detent/workflows/calibration_context.h"
#include "detent/workflows/checked_integers.h"
#include "detent/workflows/fitted_network.h"

namespace detent::python {
namespace {

namespace fs = std::filesystem;

/// For what passes write beside the network, which the module gives as results.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "detent-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      fail("{}: cannot make a temporary folder: {}", path_, std::strerror(errno));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  fs::path path() const { return path_; }

 private:
  std::string path_;
};

/// Waits for another thread's work as long as nobody interrupts.
std::unique_lock<std::timed_mutex> lock_generator() {
  static std::timed_mutex mutex;
  std::unique_lock<std::timed_mutex> lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) check_interruption();
  return lock;
}

Metrics measured(const Graph& graph, const Dataset& samples, int64_t batch_size, int64_t num_workers) {
  return evaluate(*FastExecutor().compile(graph), graph, samples, batch_size, single_process(), num_workers);
}

}  // namespace

QuantizeOutcome quantize(const Network& network, const Dataset& calibration, const Dataset* test,
                         const QuantizeRequest& request) {
  Table passes = quantize_passes(request.wish);
  const Graph fitted = fitted_to_data(network.graph(), calibration, network.source(), true);
  if (test != nullptr) static_cast<void>(fitted_to_data(network.graph(), *test, network.source(), true));
  const Graph graph = without_batches_that_mix(fitted, calibration);
  const bool is_trained = brings_quantizers(graph);
  if (is_trained) passes = finishing_passes(passes);
  Pipeline(passes, "the command line").check(graph);

  QuantizeOutcome outcome;
  outcome.bits_before = storage_bits(graph);
  const auto measure_test = [&](const Graph& measured_graph) -> std::optional<Metrics> {
    if (test == nullptr) return std::nullopt;
    return measured(measured_graph, *test, request.batch_size, request.num_workers);
  };
  outcome.before = measure_test(graph);
  const TemporaryFolder folder;
  FastExecutor executor;
  const auto lock = lock_generator();
  default_generator() = MersenneTwister(static_cast<uint64_t>(request.seed));
  PassContext context =
      calibration_context(calibration, RandomSource(), request.batch_size, folder.path(), executor);
  context.loader_threads = request.num_workers;
  QuantizedGraphs graphs = quantize_network(graph, passes, context);
  if (!is_trained && request.analyzes) outcome.analysis = analyze_quantization(graphs.network(), context);
  outcome.bits_after = storage_bits(graphs.quantized);
  outcome.after = measure_test(graphs.quantized);
  if (request.analyzes) {
    const Dataset& checked = test == nullptr ? calibration : *test;
    outcome.integer_execution = check_integers(graphs.quantized, checked, true).text;
  }
  outcome.network = std::make_shared<const Network>(std::move(graphs.quantized), network.source());
  return outcome;
}

Metrics measure(const Network& network, const Dataset& samples, int64_t batch_size, int64_t num_workers) {
  const Graph graph = fitted_to_data(network.graph(), samples, network.source(), true);
  return measured(graph, samples, batch_size, num_workers);
}

}  // namespace detent::python
