#include "detent/language/decoder.h"

#include <algorithm>
#include <set>
#include <span>

#include "detent/inference/reference_step.h"
#include "detent/language/language_graph.h"

namespace detent {
namespace {

int64_t bytes_of(const ValueTypes& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end() || !found->second.is_tensor()) return 0;
  return element_count(found->second.shape) * static_cast<int64_t>(dtype_size(found->second.dtype));
}

int64_t result_bytes(const ValueTypes& values, const Node& node) {
  int64_t bytes = 0;
  for (size_t i = 0; i < result_count(node); ++i) bytes += bytes_of(values, value_name(node.name, i));
  return bytes;
}

int64_t input_bytes(const ValueTypes& values, const Node& node) {
  int64_t bytes = 0;
  for (const NodeInput& input : node.inputs) {
    if (!input.is_constant()) bytes += bytes_of(values, value_name(input));
  }
  return bytes;
}

/// The most that the steps need at the same time.
int64_t most_bytes(std::span<const ReferenceStep> steps, const ValueTypes& values) {
  int64_t alive = 0;
  int64_t most = 0;
  for (const ReferenceStep& step : steps) {
    const int64_t results = result_bytes(values, *step.node);
    alive += results;
    most = std::max(most, alive + 2 * input_bytes(values, *step.node) + results);
    for (const std::string& name : step.last_reads) alive -= bytes_of(values, name);
  }
  return most;
}

}  // namespace

int64_t parameter_bytes(const ReferencePlan& plan) {
  std::set<const Parameter*> seen;
  int64_t bytes = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Node& node = *plan.steps[i].node;
    for (const auto& [name, parameter] : node.parameters) {
      const Tensor& tensor = parameter->tensor;
      if (tensor.bytes().data() == nullptr) continue;
      const auto size = static_cast<int64_t>(tensor.byte_size());
      if (seen.insert(&*parameter).second) bytes += size;
      if (plan.steps[i].engine == NodeEngine::kFloat && node.find_quantizer(name) != nullptr) bytes += size;
    }
  }
  return bytes;
}

int64_t buffer_bytes(const ReferencePlan& plan, size_t head, const DecoderLoad& load) {
  const int64_t tokens = std::max<int64_t>(load.tokens, 1);
  const int64_t at_once = std::clamp<int64_t>(load.at_once, 1, tokens);
  const int64_t of_all = most_bytes(std::span(plan.steps).first(head), values_of_tokens(plan.graph, tokens));
  const int64_t before = of_all / tokens * at_once + at_once;
  // As sums, as values, and as what is drawn from or scored.
  const int64_t rows = load.all_logits ? at_once : 1;
  const int64_t vocabulary = plan.steps[head].node->find_parameter("weight")->tensor.dim(0);
  return load.sequences * (before + 3 * rows * vocabulary * static_cast<int64_t>(sizeof(float)));
}

}  // namespace detent
