#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/traits.h"
#include "detent/integer/code_type.h"
#include "detent/integer/node_form.h"
#include "detent/integer/plan.h"
#include "detent/runtime/flow.h"

namespace detent {

/// A node of an integer program, as the plain reference computes it.
struct ReferenceStep {
  const Node* node;
  OperatorRole role;
  std::optional<NodeForm> form;
  NodeEngine engine;
  std::vector<std::optional<CodeType>> inputs;  // types that the node asks for
  std::vector<std::optional<CodeType>> outputs;
  std::vector<std::string> last_reads;  // values that nobody reads after this step
};

/// Its results, in the types of `outputs`. `inputs` are in those that it asks for.
std::vector<Flow> reference_results(const ReferenceStep& step, const std::vector<Flow>& inputs,
                                    const FloatNodes* in_float);

/// Throws Error where these are not of the placeholders' types and shapes.
void check_inputs(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace detent
