#include <fmt/core.h>

#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/session.h"
#include "detent/training/evaluate.h"

namespace detent {

void run_test(const TorchCommand& command, ProcessGroup& group) {
  const auto dataset = load_split(command, Split::kTest);
  const Graph graph = load_network(command, *dataset);
  const Metrics metrics =
      evaluate(graph, *dataset, command.options.training.batch_size, group, command.options.num_workers);
  fmt::print("{}{}: {} test samples from {}\ntest: {}\n", graph.name(),
             is_quantized(graph) ? " (quantized)" : "", dataset->size(), dataset->source(), metrics.text());
}

}  // namespace detent
