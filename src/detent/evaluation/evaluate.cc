#include "detent/evaluation/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/evaluation/batches.h"
#include "detent/evaluation/nonfinite_nodes.h"
#include "detent/graph/value_sizes.h"

namespace detent {
namespace {

Tensor joined_rows(const std::vector<Tensor>& parts) {
  Shape shape = parts.front().shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.dim(0);
  Tensor joined(parts.front().dtype(), shape);
  auto to = joined.bytes().begin();
  for (const Tensor& part : parts) to = std::ranges::copy(part.bytes(), to).out;
  return joined;
}

/// An output, of parts of the inputs whose activations take no more than kActivationBytes.
Tensor output_in_parts(const Program& program, size_t output, std::span<const Tensor> inputs, int64_t most) {
  const int64_t samples = inputs.front().dim(0);
  if (samples <= most) return program.run(inputs).at(output);
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < samples; begin += most) {
    std::vector<Tensor> part;
    for (const Tensor& input : inputs) part.push_back(input.rows(begin, std::min(begin + most, samples)));
    outputs.push_back(program.run(part).at(output));
  }
  return joined_rows(outputs);
}

bool never() { return false; }

/// The sum in the order of the data set, whatever the batches and their workers: the same bits. `own`: of the
/// samples of this worker's batches.
Metrics sum_of_samples(const std::vector<Metrics>& own, const std::vector<BatchSamples>& batches,
                       int64_t samples, ProcessGroup& group) {
  const auto parts = group.all_gather(std::as_bytes(std::span(own)));
  std::vector<size_t> offsets(parts.size());
  std::vector<Metrics> ordered(static_cast<size_t>(samples));
  for (size_t b = 0; b < batches.size(); ++b) {
    const size_t worker = b % parts.size();
    for (const int64_t sample : batches[b]) {
      std::memcpy(&ordered[static_cast<size_t>(sample)], parts[worker].data() + offsets[worker],
                  sizeof(Metrics));
      offsets[worker] += sizeof(Metrics);
    }
  }
  Metrics all;
  for (const Metrics& metrics : ordered) all.add(metrics);
  return all;
}

}  // namespace

std::optional<Metrics> evaluate_until(const std::function<bool()>& stop, const Program& program,
                                      const Graph& graph, const Dataset& dataset, int64_t batch_size,
                                      ProcessGroup& group, int64_t loader_threads) {
  if (!dataset.has_labels())
    fail("{}: the samples have no labels: accuracy cannot be computed", dataset.source());
  std::vector<Metrics> own;
  const std::vector<int64_t> order = sequential_order(dataset.size());
  const std::vector<BatchSamples> all = cut_into_batches(dataset, order, batch_size);
  const std::vector<BatchSamples> batches = worker_batches(all, group);
  const size_t workers = static_cast<size_t>(group.size());
  const int64_t most = samples_within(graph, kActivationBytes);
  const size_t classes = class_output(graph);
  ReadAhead<Batch> loaded = load_batches(dataset, batches, 0, loader_threads);
  Progress progress("evaluation, batches", std::ssize(batches), {.shown = group.is_first()});
  for (size_t round = 0; round < (all.size() + workers - 1) / workers; ++round) {
    if (stop()) return std::nullopt;
    if (round == batches.size()) break;  // the last round may not have a batch for each worker
    const Batch batch = loaded.take();
    const Tensor output = output_in_parts(program, classes, batch.inputs, most);
    const std::vector<Metrics> of_batch = classification_metrics(graph, output, batch.labels);
    Metrics metrics;
    for (const Metrics& of_sample : of_batch) metrics.add(of_sample);
    if (!std::isfinite(metrics.loss_sum)) {
      const BatchSamples samples = batches[round];
      fail("the loss of graph \"{}\" on samples {} to {} of {} is {}: {}", graph.name(), samples.front(),
           samples.back(), dataset.source(), metrics.loss(),
           describe_nonfinite(graph, nonfinite_nodes(program, batch.inputs)));
    }
    own.insert(own.end(), of_batch.begin(), of_batch.end());
    progress.update(static_cast<int64_t>(round) + 1);
  }
  return sum_of_samples(own, all, dataset.size(), group);
}

Metrics evaluate(const Program& program, const Graph& graph, const Dataset& dataset, int64_t batch_size,
                 ProcessGroup& group, int64_t loader_threads) {
  return *evaluate_until(never, program, graph, dataset, batch_size, group, loader_threads);
}

}  // namespace detent
