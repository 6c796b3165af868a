#include "detent/autograd/initialize.h"

#include <ATen/Context.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

void seed_everything(uint64_t seed) { at::manual_seed(seed); }

void initialize_parameters(Graph& graph) {
  const auto uniform = [](Tensor& tensor, double from, double to) { to_torch(tensor).uniform_(from, to); };
  const auto normal = [](Tensor& tensor, double deviation) { to_torch(tensor).normal_(0, deviation); };
  initialize_parameters(graph, {uniform, normal});
}

}  // namespace detent
