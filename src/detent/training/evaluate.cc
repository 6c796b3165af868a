#include "detent/training/evaluate.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/nll_loss.h>
#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/training/loader.h"

namespace detent {

void Metrics::add(const Metrics& other) {
  loss_sum += other.loss_sum;
  correct += other.correct;
  count += other.count;
}

std::string Metrics::text() const {
  return fmt::format("loss {:.4f}, accuracy {:.4f} ({}/{})", loss(), accuracy(), correct, count);
}

at::Tensor classification_loss(const Graph& graph, const at::Tensor& output, const at::Tensor& labels) {
  if (output.dim() != 2 || output.size(0) != labels.size(0)) {
    fail("graph \"{}\": the output has shape {}, expected [{}, classes] for classification", graph.name(),
         shape_text(output.sizes().vec()), labels.size(0));
  }
  const Node& last = graph.node(graph.nodes().back().inputs[0].node);
  return last.op == "log_softmax" ? at::nll_loss(output, labels) : at::cross_entropy_loss(output, labels);
}

int64_t count_correct(const at::Tensor& output, const at::Tensor& labels) {
  return at::eq(at::argmax(output, 1), labels).sum().item<int64_t>();
}

Metrics evaluate(const Graph& graph, const Dataset& dataset, int64_t batch_size) {
  Interpreter interpreter(graph);
  Metrics metrics;
  for_each_batch(dataset, sequential_order(dataset.size()), batch_size, [&](const Batch& batch) {
    const at::Tensor labels = to_torch(batch.labels);
    const at::Tensor output = interpreter.run(to_torch(batch.inputs));
    const int64_t count = labels.size(0);
    const auto loss = classification_loss(graph, output, labels).item<double>();
    metrics.add({loss * static_cast<double>(count), count_correct(output, labels), count});
    return true;
  });
  return metrics;
}

}  // namespace detent
