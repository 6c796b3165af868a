#include "detent/evaluation/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// -log of the share that the label's exponential has of all: max + log(sum exp(x - max)) - x[label].
double cross_entropy(std::span<const float> logits, size_t label) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return std::log(sum) + most - double{logits[label]};
}

}  // namespace

void Metrics::add(const Metrics& other) {
  loss_sum += other.loss_sum;
  correct += other.correct;
  count += other.count;
}

std::string Metrics::text() const {
  return fmt::format("loss {:.4f}, accuracy {:.4f} +- {:.4f} ({}/{})", loss(), accuracy(), standard_error(),
                     correct, count);
}

size_t class_output(const Graph& graph) {
  const std::vector<NodeInput>& outputs = graph.nodes().back().inputs;
  if (outputs.size() == 1) return 0;
  const ValueTypes values = infer_shapes(graph);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto found = values.find(value_name(outputs[i]));
    if (found != values.end() && is_floating_point(found->second.dtype)) return i;
  }
  return 0;
}

bool gives_log_probabilities(const Graph& graph) {
  const NodeInput& output = graph.nodes().back().inputs[class_output(graph)];
  const auto* softmax = trait<Softmax>(graph.node(output.node));
  return softmax != nullptr && softmax->log;
}

std::vector<Metrics> classification_metrics(const Graph& graph, const Tensor& output, const Tensor& labels) {
  const int64_t samples = labels.dim(0);
  if (output.shape().size() != 2 || output.dim(0) != samples || output.dim(1) == 0) {
    fail("graph \"{}\": the output has shape {}, expected [{}, classes] for classification", graph.name(),
         shape_text(output.shape()), samples);
  }
  if (output.dtype() != DType::kFloat32) {
    fail("graph \"{}\": the output is {}, expected float32 for classification", graph.name(),
         dtype_name(output.dtype()));
  }
  const auto classes = static_cast<size_t>(output.dim(1));
  const bool is_log = gives_log_probabilities(graph);
  std::vector<Metrics> metrics(static_cast<size_t>(samples), Metrics{.count = 1});
  for (size_t i = 0; i < metrics.size(); ++i) {
    const auto row = output.values<float>().subspan(i * classes, classes);
    const int64_t label = labels.values<int64_t>()[i];
    if (label < 0 || label >= std::ssize(row))
      fail("graph \"{}\": label {}, expected one of {} classes", graph.name(), label, classes);
    const auto wanted = static_cast<size_t>(label);
    metrics[i].loss_sum = is_log ? -double{row[wanted]} : cross_entropy(row, wanted);
    const auto is_larger = [](float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
    metrics[i].correct = std::ranges::max_element(row, is_larger) - row.begin() == label ? 1 : 0;
  }
  return metrics;
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

}  // namespace detent
