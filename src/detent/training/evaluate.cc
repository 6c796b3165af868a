#include "detent/training/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/nll_loss.h>
#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/activation_memory.h"
#include "detent/graph/traits.h"
#include "detent/training/finite_check.h"
#include "detent/training/loader.h"

namespace detent {

void Metrics::add(const Metrics& other) {
  loss_sum += other.loss_sum;
  correct += other.correct;
  count += other.count;
}

std::string Metrics::text() const {
  return fmt::format("loss {:.4f}, accuracy {:.4f} +- {:.4f} ({}/{})", loss(), accuracy(), standard_error(),
                     correct, count);
}

at::Tensor classification_loss(const Graph& graph, const at::Tensor& output, const at::Tensor& labels) {
  if (output.dim() != 2 || output.size(0) != labels.size(0)) {
    fail("graph \"{}\": the output has shape {}, expected [{}, classes] for classification", graph.name(),
         shape_text(output.sizes().vec()), labels.size(0));
  }
  const Node& last = graph.node(graph.nodes().back().inputs[0].node);
  const auto* softmax = trait<Softmax>(last);
  return softmax != nullptr && softmax->log ? at::nll_loss(output, labels)
                                            : at::cross_entropy_loss(output, labels);
}

int64_t count_correct(const at::Tensor& output, const at::Tensor& labels) {
  return at::eq(at::argmax(output, 1), labels).sum().item<int64_t>();
}

Metrics sum_over_workers(const std::vector<Metrics>& own, ProcessGroup& group) {
  const auto parts = group.all_gather(std::as_bytes(std::span(own)));
  Metrics all;
  for (size_t entry = 0;; ++entry) {
    const std::vector<std::byte>& part = parts[entry % parts.size()];
    const size_t offset = entry / parts.size() * sizeof(Metrics);
    if (offset == part.size()) return all;
    Metrics metrics;
    std::memcpy(&metrics, part.data() + offset, sizeof(Metrics));
    all.add(metrics);
  }
}

namespace {

/// A network under evaluation.
struct Network {
  std::function<at::Tensor(std::span<const Tensor> inputs)> predict;
  /// Where the output begins to be not finite.
  std::function<std::string(std::span<const Tensor> inputs)> explain;
};

std::optional<Metrics> evaluate_with(const Network& network, const std::function<bool()>& stop,
                                     const Graph& graph, const Dataset& dataset, int64_t batch_size,
                                     ProcessGroup& group, int64_t loader_threads) {
  if (!dataset.has_labels()) {
    fail("{}: the samples have no labels: accuracy cannot be computed", dataset.source());
  }
  std::vector<Metrics> own;
  const std::vector<int64_t> order = sequential_order(dataset.size());
  const std::vector<BatchSamples> all = cut_into_batches(order, batch_size);
  const std::vector<BatchSamples> batches = worker_batches(all, group);
  const size_t workers = static_cast<size_t>(group.size());
  ReadAhead<Batch> loaded = load_batches(dataset, batches, 0, loader_threads);
  Progress progress("evaluation, batches", std::ssize(batches), {.shown = group.is_first()});
  for (size_t round = 0; round < (all.size() + workers - 1) / workers; ++round) {
    if (stop()) return std::nullopt;
    if (round == batches.size()) break;  // the last round may not have a batch for each worker
    const Batch batch = loaded.take();
    const at::Tensor labels = to_torch(batch.labels);
    const at::Tensor output = network.predict(batch.inputs);
    const int64_t count = labels.size(0);
    const auto loss = classification_loss(graph, output, labels).item<double>();
    if (!std::isfinite(loss)) {
      const BatchSamples samples = batches[round];
      fail("the loss of graph \"{}\" on samples {} to {} of {} is {}: {}", graph.name(), samples.front(),
           samples.back(), dataset.source(), loss, network.explain(batch.inputs));
    }
    own.push_back({loss * static_cast<double>(count), count_correct(output, labels), count});
    progress.update(std::ssize(own));
  }
  return sum_over_workers(own, group);
}

bool never() { return false; }

using Predict = std::function<at::Tensor(std::span<const Tensor> inputs)>;

/// The same of parts of the inputs, whose activations take no more than kActivationBytes.
Predict in_parts(const Graph& graph, const Predict& predict) {
  return [predict, most = samples_within(graph, kActivationBytes)](std::span<const Tensor> inputs) {
    const int64_t samples = inputs.front().dim(0);
    if (samples <= most) return predict(inputs);
    std::vector<at::Tensor> outputs;
    for (int64_t begin = 0; begin < samples; begin += most) {
      std::vector<Tensor> part;
      for (const Tensor& input : inputs) part.push_back(input.rows(begin, std::min(begin + most, samples)));
      outputs.push_back(predict(part));
    }
    return at::cat(outputs);
  };
}

}  // namespace

std::optional<Metrics> evaluate_until(const std::function<bool()>& stop, const Graph& graph,
                                      const Dataset& dataset, int64_t batch_size, ProcessGroup& group,
                                      int64_t loader_threads) {
  const Interpreter interpreter(graph);
  const Network network = {
      in_parts(graph,
               [&](std::span<const Tensor> inputs) { return interpreter.outputs(to_torch(inputs)).front(); }),
      [&](std::span<const Tensor> inputs) { return describe_first_non_finite(interpreter, inputs); }};
  return evaluate_with(network, stop, graph, dataset, batch_size, group, loader_threads);
}

Metrics evaluate(const Graph& graph, const Dataset& dataset, int64_t batch_size, ProcessGroup& group,
                 int64_t loader_threads) {
  return *evaluate_until(never, graph, dataset, batch_size, group, loader_threads);
}

Metrics evaluate(const Program& program, const Graph& graph, const Dataset& dataset, int64_t batch_size,
                 ProcessGroup& group, int64_t loader_threads) {
  const Network network = {
      in_parts(graph, [&](std::span<const Tensor> inputs) { return to_torch(program.run(inputs).front()); }),
      [&](std::span<const Tensor> inputs) { return describe_first_non_finite(program, inputs); }};
  return *evaluate_with(network, never, graph, dataset, batch_size, group, loader_threads);
}

}  // namespace detent
