#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"
#include "detent/inference/code_type.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/flow.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"
#include "detent/inference/rounding_nodes.h"

namespace detent {

/// A node of an integer program, as the plain reference computes it.
struct ReferenceStep {
  const Node* node;
  OperatorRole role;
  std::optional<NodeForm> form;
  NodeEngine engine;
  std::vector<std::optional<CodeType>> inputs;  // types that the node asks for
  std::vector<std::optional<CodeType>> outputs;
  std::vector<std::string> last_reads;         // values that nobody reads after this step
  const RoundedOperand* rounds = nullptr;      // the node is one that with_roundings_as_nodes made, for this
  std::vector<bool> inputs_are_rounded = {};   // by such a node before this one, which shows them instead
  std::vector<bool> results_are_rounded = {};  // by such a node after this one, which shows what it leaves
  std::shared_ptr<const Program> body = {};    // of a loop
};

/// Its results, in the types of `outputs`. `inputs` are in those that it asks for. `observation` is the
/// program's: a loop shows what it says of its body.
std::vector<Flow> reference_results(const ReferenceStep& step, const std::vector<Flow>& inputs,
                                    const FloatNodes* in_float, const Observation& observation = {});

/// A result before it is rounded to its type of `outputs`: sums in units of their scale, else what the node
/// computes in float of its quantized operands.
Tensor unrounded_result(const ReferenceStep& step, size_t index, const std::vector<Flow>& inputs,
                        const FloatNodes* in_float);

/// A program of the plain reference.
struct ReferencePlan {
  Graph graph;
  std::map<std::string, RoundedOperand, std::less<>> roundings;  // by node
  std::vector<ReferenceStep> steps;                              // of the graph's nodes
  std::unique_ptr<const FloatNodes> in_float;                    // null where nothing needs them
};

/// How the steps of a plan are made, from several threads.
struct StepMaking {
  /// The form of a node where it is known already, or nullptr.
  std::function<const NodeForm*(const Node&)> known_form = {};
  /// Sees each step as soon as it is made: it may take the weights of its form, and says whether nobody needs
  /// those of the node any more.
  std::function<bool(ReferenceStep&)> take = {};
  const Executor* bodies = nullptr;  // runs those of loops; nullptr: the plain reference
};

/// As IntegerProgram.
std::unique_ptr<ReferencePlan> reference_plan(Graph graph, const StepMaking& making = {});

/// Results of a loop (graph/loop.h), whose body runs once for each iteration and shows what `observation`
/// says. Throws Error without the loop's name.
std::vector<Tensor> run_loop(const Node& loop, const Program& body, std::span<const Flow> inputs,
                             const Observation& observation);

/// `steps` are the plan's, or copies of them.
std::vector<Tensor> run_reference(const ReferencePlan& plan, std::span<const ReferenceStep> steps,
                                  std::span<const Tensor> inputs, const Observation& observation = {},
                                  const IntegerObserver& observe_integers = {});

/// Throws Error where these are not of the placeholders' types and shapes.
void check_inputs(const ReferencePlan& plan, std::span<const Tensor> inputs);

/// The sums of a matrix product of int32 codes, [..., m, k] x [..., k, n], before requantization: int32.
Tensor code_product(const ProductForm& form, const Node& node, const Tensor& a, const Tensor& b);

/// The sums of a linear layer or convolution, int32: from `codes` (int32, of the form's input type) to the
/// shape of the node's result, before requantization. Convolutions are products of matrices of integers,
/// which add up to the same in every order; in an accumulator of the node's that may not hold all sums, they
/// come in the order of graph/accumulator.h.
Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes);

}  // namespace detent
