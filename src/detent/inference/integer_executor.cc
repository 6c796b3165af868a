#include "detent/inference/integer_executor.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/interruption.h"
#include "detent/core/parallel.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/flow.h"
#include "detent/inference/plan.h"
#include "detent/inference/reference_step.h"
#include "detent/inference/table_layer.h"
#include "detent/inference/windows.h"

namespace detent {

namespace {

using Step = ReferenceStep;
using Flows = std::map<std::string, Flow, std::less<>>;

/// Each sum in its output channel.
template <class To, class Map>
Tensor mapped_sums(const Node& node, const Tensor& sums, Map map) {
  Tensor result(DTypeOf<To>::value, sums.shape());
  const auto axis = static_cast<int64_t>(channel_axis(node, sums.shape().size()));
  const auto channels = static_cast<size_t>(sums.dim(axis));
  const auto inner =
      static_cast<size_t>(element_count({sums.shape().begin() + axis + 1, sums.shape().end()}));
  const auto from = sums.values<int32_t>();
  const auto to = result.values<To>();
  for (size_t first = 0, row = 0; first < from.size(); first += inner, ++row) {
    for (size_t i = first; i < first + inner; ++i) to[i] = map(from[i], row % channels);
  }
  return result;
}

/// Elementwise with numpy's broadcasting.
Tensor paired(const PairForm& form, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const Tensor left = gathered(a, StridedView::broadcast(a.shape(), shape));
  const Tensor right = gathered(b, StridedView::broadcast(b.shape(), shape));
  Tensor result(DType::kInt32, shape);
  const auto x = left.values<int32_t>();
  const auto y = right.values<int32_t>();
  const auto to = result.values<int32_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = form.code(x[i], y[i]);
  return result;
}

Flow computed(const SumForm& form, const Node& node, const std::vector<Flow>& inputs) {
  const Tensor sums = code_sums(form, node, inputs[0].tensor);
  if (form.output) {
    return {mapped_sums<int32_t>(node, sums, [&](int32_t s, size_t c) { return form.requantized(s, c); }),
            form.output};
  }
  Flow flow{mapped_sums<float>(node, sums, [&](int32_t s, size_t c) { return form.result(s, c); })};
  flow.sums = sums;
  return flow;
}

Flow computed(const ProductForm& form, const Node& node, const std::vector<Flow>& inputs) {
  const Tensor sums = code_product(form, node, inputs[0].tensor, inputs[1].tensor);
  if (!form.output) return {mapped<int32_t, float>(sums, [&](int32_t s) { return form.result(s); })};
  return {mapped<int32_t, int32_t>(sums, [&](int32_t s) { return form.requantized(s); }), form.output};
}

Flow computed(const TableForm& form, const Node& /*node*/, const std::vector<Flow>& inputs) {
  const Flow& input = inputs[0].is_tensor() ? inputs[0] : inputs[1];
  const auto entry = [&](int32_t code) { return form.codes[static_cast<size_t>(code - form.input.low)]; };
  return {mapped<int32_t, int32_t>(input.tensor, entry), form.output};
}

Flow computed(const PairForm& form, const Node& /*node*/, const std::vector<Flow>& inputs) {
  return {paired(form, inputs[0].tensor, inputs[1].tensor), form.output};
}

Flow computed(const AverageForm& form, const Node& node, const std::vector<Flow>& inputs) {
  return {average_pool(form, node, inputs[0].tensor), form.output};
}

Flow computed(const BlockSumForm& form, const Node& node, const std::vector<Flow>& inputs) {
  Tensor steps = block_sum_steps(form, node, inputs[0].tensor);
  if (!form.output) return {std::move(steps)};
  const CodeType type = *form.output;
  return {mapped<float, int32_t>(steps, [&](float x) { return type.at(x); }), type};
}

/// Inputs of different types are requantized to the result's.
std::vector<Flow> moved(const Node& node, const std::vector<Flow>& inputs) {
  std::vector<Operand> operands;
  for (const Flow& input : inputs) operands.push_back(operand_of(input));
  std::vector<Flow> tensors;
  std::ranges::copy_if(inputs, std::back_inserter(tensors), &Flow::is_float);
  const bool alike = std::ranges::all_of(tensors, [&](const Flow& f) { return f.type == tensors[0].type; });
  std::optional<CodeType> type = alike ? tensors[0].type : std::nullopt;
  if (type) type = moved_type(node, *type);
  std::vector<Tensor> elements;
  for (const Flow& flow : tensors) elements.push_back(alike ? flow.tensor : as_values(flow));
  std::vector<Flow> results;
  for (const Operand& result : infer_results(node, operands)) {
    const int32_t fill = type ? type->zero_point : 0;
    results.push_back({moved_elements(node, elements, result.shape, fill, results.size()), type});
  }
  return results;
}

Flow rectified(const Node& node, const Flow& input) {
  if (!input.type) return {mapped<float, float>(input.tensor, [](float x) { return std::max(x, 0.0F); })};
  const int32_t zero = input.type->zero_point;
  return {mapped<int32_t, int32_t>(input.tensor, [&](int32_t code) { return std::max(code, zero); }),
          moved_type(node, *input.type)};
}

/// The size that a node of shapes gives.
Flow counted(const Node& node, const std::vector<Flow>& inputs) {
  std::vector<Operand> operands;
  for (const Flow& input : inputs) operands.push_back(operand_of(input));
  return {.tensor = {}, .number = infer_results(node, operands).front().value};
}

std::vector<Flow> computed_in_float(const FloatNodes& nodes, const Node& node,
                                    const std::vector<Flow>& inputs) {
  std::vector<FloatFlow> values;
  for (const Flow& input : inputs) values.push_back(float_flow(input));
  std::vector<Flow> results;
  for (FloatFlow& result : nodes.results(node, values)) results.push_back(flow_of(std::move(result)));
  return results;
}

/// A layer on values, in an accumulator of floats.
Flow accumulated(const Node& node, const Accumulator& accumulator, const Flow& input) {
  const NamedTensors parameters = rounded_parameters(node);
  const FloatNode operands{node, {}, parameters};
  return {accumulated_sums(*operands.parameter("weight"), operands.values_of("bias"), node, accumulator,
                           as_values(input))
              .sums};
}

/// As it is stored: rounded, if it has a quantizer.
Tensor constant_value(const Node& node, const FloatNodes* in_float) {
  if (node.find_quantizer("value") == nullptr) return node.find_parameter("value")->tensor;
  if (in_float != nullptr) return in_float->parameters_of(node).front().second;
  return rounded_parameters(node).front().second;
}

std::vector<Flow> looped(const Step& step, const std::vector<Flow>& inputs, const Observation& of_body) {
  std::vector<Flow> results;
  try {
    for (Tensor& result : run_loop(*step.node, *step.body, inputs, of_body))
      results.push_back({std::move(result)});
  } catch (const Error& error) {
    throw node_error(*step.node, error);
  }
  return results;
}

std::vector<Flow> run_step(const Step& step, const std::vector<Flow>& inputs, const FloatNodes* in_float,
                           const Observation& observation = {}) {
  const Node& node = *step.node;
  if (step.rounds != nullptr) return {{step.rounds->rounding.rounded(as_values(inputs[0]))}};
  if (step.role == OperatorRole::kConstant) return {{constant_value(node, in_float)}};
  if (step.role == OperatorRole::kNumber) return {counted(node, inputs)};
  if (step.body != nullptr) return looped(step, inputs, observation.in_body(node.name));
  if (step.form)
    return {std::visit([&](const auto& form) { return computed(form, node, inputs); }, *step.form)};
  if (step.engine == NodeEngine::kFloat) {
    if (const auto accumulator = accumulator_of(node)) return {accumulated(node, *accumulator, inputs[0])};
    return computed_in_float(*in_float, node, inputs);
  }
  if (trait<TableLayer>(node) != nullptr) return {{table_layer_result(node, as_values(inputs[0]))}};
  if (is_rectifier(node)) return {rectified(node, inputs[0])};
  if (is_pooling(node, Pooling::Of::kLargest)) {
    return {{max_pool(node, inputs[0].tensor), inputs[0].type}};
  }
  return moved(node, inputs);
}

void show_integers(const Step& step, const Flow& result, const IntegerObserver& observe) {
  if (result.type) observe(*step.node, {result.tensor, result.type});
  const auto* sums = step.form ? std::get_if<SumForm>(&*step.form) : nullptr;
  if (result.sums) observe(*step.node, {*result.sums, {}, sums});
}

/// Values of one run that an observer sees.
class Shown {
 public:
  Shown(const ReferencePlan& plan, const Observation& observation) : plan_(plan), observation_(observation) {}

  void input(const Step& step, size_t index, const Flow& given, const Flow& taken) const {
    if (step.rounds != nullptr || step.inputs_are_rounded[index] || !taken.is_float()) return;
    see(*step.node, fmt::format("data_in_{}", index), before() ? given : taken);
  }

  /// `inputs` as the node took them.
  void result(const Step& step, size_t index, const Flow& result, const std::vector<Flow>& inputs) const {
    const std::string operand = fmt::format("data_out_{}", index);
    if (!result.is_float() || step.rounds != nullptr) return;
    if (!before()) {
      if (!step.results_are_rounded[index]) see(*step.node, operand, result);
    } else if (observation_.shows(step.node->name, operand)) {
      see(*step.node, operand,
          step.outputs[index] ? Flow{unrounded_result(step, index, inputs, plan_.in_float.get())} : result);
    }
  }

  /// An input of the graph.
  void placed(const Step& step, const Flow& given, const Flow& rounded) const {
    if (!rounded.is_float() || (!before() && step.results_are_rounded[0])) return;
    see(*step.node, "data_out_0", before() ? given : rounded);
  }

  /// Shows the operand that a step rounds for another node, if it does.
  void rounding(const Step& step, const std::vector<Flow>& given, const std::vector<Flow>& rounded) const {
    if (step.rounds == nullptr) return;
    const bool is_result = step.rounds->operand.starts_with("data_out_");  // which its node has shown before
    if (before() && is_result) return;
    see(plan_.graph.node(step.rounds->node), step.rounds->operand, before() ? given[0] : rounded[0]);
  }

 private:
  bool before() const { return observation_.values == ObservedValues::kBeforeQuantization; }
  void see(const Node& node, const std::string& operand, const Flow& value) const {
    if (observation_.shows(node.name, operand)) observation_.see(node, operand, as_values(value));
  }

  const ReferencePlan& plan_;
  const Observation& observation_;
};

std::vector<Flow> inputs_of(const Step& step, const Flows& flows, const Shown& shown) {
  const Node& node = *step.node;
  std::vector<Flow> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const NodeInput& input = node.inputs[i];
    if (input.is_constant()) {
      inputs.push_back(constant_flow(input));
      continue;
    }
    const Flow& given = flows.at(value_name(input));
    inputs.push_back(converted(node, given, step.inputs[i]));
    shown.input(step, i, given, inputs.back());
  }
  return inputs;
}

/// Node and operand of all that nodes of their own round.
using RoundedOperands = std::set<std::pair<std::string, std::string>>;

RoundedOperands rounded_operands(const ReferencePlan& plan) {
  RoundedOperands operands;
  for (const auto& [name, rounding] : plan.roundings) operands.emplace(rounding.node, rounding.operand);
  return operands;
}

/// Products of values have no codes that integers could add up.
void check_accumulator(const Step& step) {
  if (step.engine != NodeEngine::kFloat) return;
  const std::optional<Accumulator> accumulator = accumulator_of(*step.node);
  if (!accumulator || accumulator->is_float()) return;
  fail(
      "node \"{}\" ({}): has the accumulator {}, and computes in float: expected an accumulator of floats "
      "(fp16, bf16, fp22, ...), or integers for its weights and inputs",
      step.node->name, step.node->op, accumulator->text());
}

/// The step of a node of the plan.
Step make_step(const ReferencePlan& plan, const RoundedOperands& rounded, const Node& node,
               const ValueTypes& values, const StepMaking& making) {
  const std::optional<Requantization> requantization = plan.graph.requantization();
  Step step{&node, role_of(node), std::nullopt, NodeEngine::kGiven, {}, {}, {}};
  const IntegerExecutor plain;
  if (node.body != nullptr)
    step.body = (making.bodies == nullptr ? plain : *making.bodies).compile(*node.body);
  const auto rounding = plan.roundings.find(node.name);
  if (rounding != plan.roundings.end()) step.rounds = &rounding->second;
  for (size_t i = 0; step.role != OperatorRole::kOutput && i < result_count(node); ++i)
    step.results_are_rounded.push_back(rounded.contains({node.name, fmt::format("data_out_{}", i)}));
  const NodeForm* known = making.known_form ? making.known_form(node) : nullptr;
  if (known != nullptr) {
    step.form = *known;
  } else if (requantization) {
    step.form = node_form(node, *requantization);
  }
  step.engine = step.rounds != nullptr ? NodeEngine::kFloat : node_engine(node, step.form, values);
  check_accumulator(step);
  const auto type_of = [&](const std::string& operand) {
    return requantization ? executed_type(node, operand) : std::nullopt;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string operand = fmt::format("data_in_{}", i);
    step.inputs.push_back(type_of(operand));
    const auto before = plan.roundings.find(node.inputs[i].node);
    step.inputs_are_rounded.push_back(before != plan.roundings.end() && before->second.node == node.name &&
                                      before->second.operand == operand);
  }
  if (step.role == OperatorRole::kOutput) return step;
  for (size_t i = 0; i < result_count(node); ++i)
    step.outputs.push_back(type_of(fmt::format("data_out_{}", i)));
  return step;
}

/// The weight of a node becomes its shape alone, unless nodes share it.
class WeightRelease {
 public:
  explicit WeightRelease(Graph& graph) : nodes_(graph.nodes()) {
    for (const Node& node : nodes_) {
      for (const auto& [name, parameter] : node.parameters) ++uses_[&*parameter];
    }
  }
  void release(size_t node) {
    Parameter* const weight = nodes_[node].find_parameter("weight");
    if (weight == nullptr || uses_.find(weight)->second != 1) return;
    weight->tensor = Tensor::borrow(weight->tensor.dtype(), weight->tensor.shape(), nullptr, nullptr);
  }

 private:
  std::span<Node> nodes_;
  std::map<const Parameter*, int> uses_;
};

/// Layers by several threads: most of the time goes into the codes of their weights. What fails first in the
/// order of the nodes is thrown, however they take turns.
void make_steps(ReferencePlan& plan, const ValueTypes& values, const StepMaking& making) {
  WeightRelease weights(plan.graph);
  const std::span<const Node> nodes = std::as_const(plan.graph).nodes();
  const RoundedOperands rounded = rounded_operands(plan);
  std::vector<std::exception_ptr> errors(nodes.size());
  plan.steps.resize(nodes.size());
  parallel_for(std::ssize(nodes), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        plan.steps[i] = make_step(plan, rounded, nodes[i], values, making);
        if (making.take && making.take(plan.steps[i])) weights.release(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  const auto failed = std::ranges::find_if(errors, [](const auto& error) { return error != nullptr; });
  if (failed != errors.end()) std::rethrow_exception(*failed);
}

void note_last_reads(std::vector<Step>& steps) {
  std::set<std::string, std::less<>> read;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    for (const NodeInput& input : step->node->inputs) {
      std::string value = value_name(input);
      if (!input.is_constant() && read.insert(value).second) step->last_reads.push_back(std::move(value));
    }
  }
}

}  // namespace

Tensor unrounded_result(const ReferenceStep& step, size_t index, const std::vector<Flow>& inputs,
                        const FloatNodes* in_float) {
  const Node& node = *step.node;
  if (step.form) {
    if (const auto* sums = std::get_if<SumForm>(&*step.form)) {
      return mapped_sums<float>(node, code_sums(*sums, node, inputs[0].tensor),
                                [&](int32_t s, size_t c) { return static_cast<float>(s) * sums->scale[c]; });
    }
    if (const auto* product = std::get_if<ProductForm>(&*step.form)) {
      return mapped<int32_t, float>(code_product(*product, node, inputs[0].tensor, inputs[1].tensor),
                                    [&](int32_t s) { return static_cast<float>(s) * product->scale; });
    }
    if (const auto* blocks = std::get_if<BlockSumForm>(&*step.form)) {
      const float unit = blocks->output ? blocks->output->scale : 1.0F;
      return mapped<float, float>(block_sum_steps(*blocks, node, inputs[0].tensor),
                                  [&](float steps) { return steps * unit; });
    }
    return as_values(computed_in_float(*in_float, node, inputs).front());
  }
  return as_values(run_step(step, inputs, in_float).at(index));
}

std::vector<Flow> reference_results(const ReferenceStep& step, const std::vector<Flow>& inputs,
                                    const FloatNodes* in_float, const Observation& observation) {
  std::vector<Flow> results = run_step(step, inputs, in_float, observation);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = converted(*step.node, std::move(results[i]), step.outputs[i]);
  return results;
}

namespace {

/// " where N is 2 as in earlier inputs", or nothing.
std::string sizes_of_earlier_inputs(const TensorType& type, const NamedSizes& earlier) {
  std::vector<std::string> sizes;
  for (const Dimension& dim : type.shape) {
    const auto known = earlier.find(dim.symbol);
    if (dim.is_named() && known != earlier.end())
      sizes.push_back(fmt::format("{} is {}", dim.symbol, known->second));
  }
  return sizes.empty() ? "" : fmt::format(" where {} as in earlier inputs", fmt::join(sizes, ", "));
}

}  // namespace

void check_inputs(const ReferencePlan& plan, std::span<const Tensor> inputs) {
  std::vector<std::string> names;
  for (const Step& step : plan.steps) {
    if (step.role == OperatorRole::kInput) names.push_back(step.node->name);
  }
  if (inputs.size() != names.size()) {
    throw DetailedError(fmt::format("got {} inputs, expected {}", inputs.size(), names.size()),
                        {.got = std::to_string(inputs.size()), .allowed = std::to_string(names.size())});
  }
  NamedSizes sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = plan.graph.input_types().find(names[i])->second;
    const NamedSizes earlier = sizes;
    if (inputs[i].dtype() == type.dtype && type.matches(inputs[i].shape(), sizes)) continue;
    fail_value(fmt::format("input \"{}\"", names[i]),
               fmt::format("{} of shape {}", dtype_name(inputs[i].dtype()), shape_text(inputs[i].shape())),
               tensor_type_text(type) + sizes_of_earlier_inputs(type, earlier), {.node = names[i]});
  }
}

std::unique_ptr<ReferencePlan> reference_plan(Graph graph, const StepMaking& making) {
  verify(graph);
  RoundedGraph rounded = with_roundings_as_nodes(std::move(graph));
  const ValueTypes values = infer_shapes(rounded.graph);
  auto plan = std::make_unique<ReferencePlan>(
      ReferencePlan{std::move(rounded.graph), std::move(rounded.roundings), {}, nullptr});
  make_steps(*plan, values, making);
  note_last_reads(plan->steps);
  plan->in_float = std::make_unique<const FloatNodes>();
  return plan;
}

std::vector<Tensor> run_reference(const ReferencePlan& plan, std::span<const ReferenceStep> steps,
                                  std::span<const Tensor> inputs, const Observation& observation,
                                  const IntegerObserver& observe_integers) {
  check_inputs(plan, inputs);
  const Shown shown(plan, observation);
  Flows flows;
  size_t next_input = 0;
  for (const Step& step : steps) {
    check_interruption();
    const Node& node = *step.node;
    if (step.role == OperatorRole::kOutput) break;
    std::vector<Flow> taken;
    std::vector<Flow> results;
    if (step.role == OperatorRole::kInput) {
      taken = {{inputs[next_input++]}};
      results = {converted(node, taken[0], step.outputs[0])};
      shown.placed(step, taken[0], results[0]);
    } else {
      taken = inputs_of(step, flows, shown);
      results = reference_results(step, taken, plan.in_float.get(), observation);
      shown.rounding(step, taken, results);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Flow result = std::move(results[i]);
      if (step.role != OperatorRole::kInput) shown.result(step, i, result, taken);
      if (observe_integers && i == 0) show_integers(step, result, observe_integers);
      flows[value_name(node.name, i)] = std::move(result);
    }
    for (const std::string& name : step.last_reads) flows.erase(name);
  }
  std::vector<Tensor> outputs;
  for (const Flow& output : inputs_of(steps.back(), flows, shown)) outputs.push_back(as_values(output));
  return outputs;
}

void check_finished_quantizers(const Graph& graph) {
  const auto is_quantized = [](const Node& node) { return !node.quantization.empty(); };
  if (!graph.requantization() && std::ranges::any_of(graph.nodes(), is_quantized)) {
    fail(
        "graph \"{}\" has quantizers of training or of a simulation, and is not ready for integer execution: "
        "`detent quantize` makes it so (the pass finish_qat)",
        graph.name());
  }
}

void check_integer_execution(const Graph& graph) {
  check_finished_quantizers(graph);
  for (const Node& node : graph.nodes()) {
    if (trait<TableLayer>(node) != nullptr) continue;  // takes the values of any format
    for (const auto& [operand, quantizer] : node.quantization) {
      if (!operand.starts_with("data_")) continue;
      const std::optional<QuantSpec> rounding = node.rounding(operand);
      if (rounding && !executed_types(*rounding).empty()) continue;
      fail(
          "node \"{}\" ({}): operand \"{}\" has the format {}, expected affine of at most 16 bits with one "
          "given scale, or binary without one",
          node.name, node.op, operand, quant_spec_text(quantizer->spec));
    }
  }
}

IntegerProgram::IntegerProgram(const Graph& graph) : plan_(reference_plan(graph)) {}

IntegerProgram::~IntegerProgram() = default;

int64_t IntegerProgram::sum_bound(std::string_view node) const {
  for (const Step& step : plan_->steps) {
    const auto* sums = step.form ? std::get_if<SumForm>(&*step.form) : nullptr;
    if (sums != nullptr && step.node->name == node) return sums->bound;
  }
  return 0;
}

std::vector<Tensor> IntegerProgram::run(std::span<const Tensor> inputs,
                                        const Observation& observation) const {
  return run_reference(*plan_, plan_->steps, inputs, observation);
}

std::vector<Tensor> IntegerProgram::run_observed(std::span<const Tensor> inputs,
                                                 const Observation& observation,
                                                 const IntegerObserver& observe_integers) const {
  return run_reference(*plan_, plan_->steps, inputs, observation, observe_integers);
}

}  // namespace detent
