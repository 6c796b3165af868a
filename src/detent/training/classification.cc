#include "detent/training/classification.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/nll_loss.h>

#include "detent/core/error.h"

namespace detent {

at::Tensor classification_loss(const Graph& graph, const at::Tensor& output, const at::Tensor& labels) {
  if (output.dim() != 2 || output.size(0) != labels.size(0)) {
    fail("graph \"{}\": the output has shape {}, expected [{}, classes] for classification", graph.name(),
         shape_text(output.sizes().vec()), labels.size(0));
  }
  return gives_log_probabilities(graph) ? at::nll_loss(output, labels)
                                        : at::cross_entropy_loss(output, labels);
}

int64_t count_correct(const at::Tensor& output, const at::Tensor& labels) {
  return at::eq(at::argmax(output, 1), labels).sum().item<int64_t>();
}

}  // namespace detent
