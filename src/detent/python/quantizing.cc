#include "detent/python/quantizing.h"

#include <utility>

#include "detent/cli/network/loaded_network.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/random_numbers.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/files/file.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/staged_runs/executor_in_parts.h"
#include "detent/python/work.h"
#include "detent/report/page.h"
#include "detent/workflows/network_data.h"
#include "detent/workflows/network_report.h"
#include "detent/workflows/quantize_network.h"
#include "detent/workflows/quantize_passes.h"
#include "detent/workflows/resource_use.h"

namespace detent::python {
namespace {

void write_report(const QuantizeRequest& request, const QuantizeOutcome& outcome, const char* name_before,
                  const Table& passes, const Table& network) {
  Table results = results_table("quantize");
  const QuantizeFindings findings{.name_before = name_before,
                                  .bits_before = outcome.bits_before,
                                  .bits_after = outcome.bits_after,
                                  .before = outcome.before,
                                  .after = outcome.after,
                                  .analysis = outcome.analysis ? &*outcome.analysis : nullptr,
                                  .integer_execution = outcome.integer_execution};
  for (auto& [key, value] : quantize_results(findings)) results[key] = value;
  results["configuration"] = request.wish.options;
  results["passes"] = passes;
  results["network"] = network;
  results["warnings"] = pending_warnings();
  write_file(request.report, report_page(results));
}

/// For weights alone.
std::unique_ptr<Dataset> samples_at_random(const Network& network, QuantizeWish& wish) {
  leave_out_samples(wish);
  return random_samples(network.graph());
}

Metrics measured(const Graph& graph, const Dataset& samples, int64_t batch_size, int64_t num_workers) {
  return evaluate(*FastExecutor().compile(graph), graph, samples, batch_size, single_process(), num_workers);
}

}  // namespace

QuantizeOutcome quantize(const Network& network, const Dataset* samples, const Dataset* test,
                         const QuantizeRequest& given) {
  QuantizeRequest request = given;
  const std::unique_ptr<Dataset> at_random =
      samples == nullptr ? samples_at_random(network, request.wish) : nullptr;
  const Dataset& calibration = samples == nullptr ? *at_random : *samples;
  Table passes = quantize_passes(request.wish);
  const Graph fitted = fitted_to_data(network_to_quantize(network.graph(), network.source()), calibration,
                                      network.source(), true);
  if (test != nullptr) static_cast<void>(fitted_to_data(network.graph(), *test, network.source(), true));
  announce_quantization_memory(fitted, passes, calibration);
  const Graph graph = without_batches_that_mix(fitted, calibration);
  const bool is_trained = brings_quantizers(graph);
  if (is_trained) passes = finishing_passes(passes);
  const auto cache_format = cache_format_of(request.cache_format, "cache_format");
  if (cache_format) leave_cache_to_float(passes, graph, "cache_format");
  Pipeline(passes, "").check(graph);

  QuantizeOutcome outcome;
  outcome.bits_before = storage_bits(graph);
  const auto measure_test = [&](const Graph& measured_graph) -> std::optional<Metrics> {
    if (test == nullptr) return std::nullopt;
    return measured(measured_graph, *test, request.batch_size, request.num_workers);
  };
  outcome.before = measure_test(graph);
  const TemporaryFolder folder;
  const FastExecutor whole;
  ExecutorInParts executor(whole);
  const auto lock = lock_generator();
  default_generator() = MersenneTwister(static_cast<uint64_t>(request.seed));
  PassContext context =
      calibration_context(calibration, RandomSource(), request.batch_size, folder.path(), executor);
  context.loader_threads = request.num_workers;
  QuantizedGraphs graphs = quantize_network(graph, passes, context, cache_format);
  if (!is_trained && request.analyzes) {
    outcome.analysis = analyze_quantization(graphs, context, cache_format);
    const std::string warning = noise_warning(*outcome.analysis);
    if (!warning.empty()) context.warn(warning);
  } else if (!is_trained) {
    settle_quantization(graphs, context, cache_format);
  }
  outcome.bits_after = storage_bits(graphs.quantized);
  outcome.after = measure_test(graphs.quantized);
  if (request.analyzes) {
    const Dataset& checked = test == nullptr ? calibration : *test;
    outcome.integer_execution = check_integers(graphs.quantized, checked, {.names_slow_steps = false}).text;
  }
  if (!request.report.empty()) {
    const Table shown =
        reported_network(graphs.quantized, &graphs.reference, test == nullptr ? calibration : *test);
    write_report(request, outcome, is_trained ? "trained" : "float", passes, shown);
  }
  outcome.network = std::make_shared<const Network>(std::move(graphs.quantized), network.source());
  return outcome;
}

Metrics measure(const Network& network, const Dataset& samples, int64_t batch_size, int64_t num_workers) {
  const Graph graph = fitted_to_data(network.graph(), samples, network.source(), true);
  return measured(graph, samples, batch_size, num_workers);
}

}  // namespace detent::python
