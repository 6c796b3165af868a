#include "detent/execution/interpreter.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <omp.h>

#include <algorithm>
#include <functional>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/execution/fake_quantize.h"
#include "detent/execution/tensor_memory.h"
#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

Flow constant_flow(const Node& node, const Value& value) {
  if (const auto* integer = value.get_if<int64_t>()) return *integer;
  if (const auto* real = value.get_if<double>()) return *real;
  fail("node \"{}\": constant input {} is no number", node.name, value_text(value));
}

}  // namespace

Interpreter::Interpreter(const Graph& graph, Mode mode) : graph_(graph), mode_(mode) {
  use_block_cache_for_tensors();
  verify(graph);
  std::map<std::string_view, int> index;
  for (const Node& node : graph.nodes()) {
    steps_.push_back(make_step(node, index));
    index[node.name] = static_cast<int>(steps_.size()) - 1;
  }
  std::vector<size_t> last_reader(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (const int source : steps_[i].sources) {
      if (source >= 0) last_reader[static_cast<size_t>(source)] = i;
    }
  }
  for (size_t i = 0; i + 1 < steps_.size(); ++i)
    steps_[last_reader[i]].last_readers_of.push_back(static_cast<int>(i));
}

Interpreter::Step Interpreter::make_step(const Node& node,
                                         const std::map<std::string_view, int>& index) const {
  Step step;
  step.node = &node;
  step.evaluate = role_of(node) == OperatorRole::kInput ? nullptr : find_evaluator(node.op);
  for (const NodeInput& input : node.inputs) {
    step.sources.push_back(input.is_constant() ? -1 : index.at(input.node));
    step.constants.push_back(input.is_constant() ? constant_flow(node, input.constant) : Flow());
  }
  for (const auto& [name, parameter] : node.parameters) {
    at::Tensor tensor = to_torch(parameter.tensor);
    if (mode_ == Mode::kTraining) tensor.set_requires_grad(parameter.trainable);
    step.parameters.emplace_back(name, std::move(tensor));
  }
  if (mode_ == Mode::kInference && graph_.requantization()) {
    std::optional<NodeForm> form = node_form(node, *graph_.requantization());
    if (form && IntegerSimulation::is_needed(node, *form)) {
      step.integers.emplace(node, std::move(*form), step.evaluate);
      return step;
    }
  }
  if (mode_ == Mode::kInference) {
    for (auto& [name, tensor] : step.parameters) tensor = quantized(step, name, tensor);
  }
  return step;
}

at::Tensor Interpreter::quantized(const Step& step, std::string_view operand, const at::Tensor& value) const {
  const Node& node = *step.node;
  const QuantSpec* spec = node.find_quantization(operand);
  if (spec == nullptr) return value;
  try {
    const uint64_t seed = std::hash<std::string_view>{}(node.name) ^ std::hash<std::string_view>{}(operand);
    if (spec->scale_rule == ScaleRule::kGiven) return fake_quantize(value, *spec, seed + run_count_);
    const auto scale = std::ranges::find(step.parameters, Node::scale_name(operand),
                                         &std::pair<std::string_view, at::Tensor>::first);
    const int64_t samples = node.find_parameter(operand) == nullptr ? value.size(0) : 1;
    return fake_quantize(value, *spec, scale->second, samples, seed + run_count_);
  } catch (const Error& error) {
    fail("node \"{}\", operand \"{}\": {}", node.name, operand, error.what());
  }
}

Flow Interpreter::run_step(const Step& step, const std::vector<Flow>& results,
                           const Observation& observation) const {
  constexpr auto kBefore = ObservedValues::kBeforeQuantization;
  constexpr auto kAfter = ObservedValues::kAfterQuantization;
  const Node& node = *step.node;
  Evaluation evaluation{node, {}, step.parameters, mode_ == Mode::kTraining};
  for (size_t i = 0; i < step.sources.size(); ++i) {
    if (step.sources[i] < 0) {
      evaluation.inputs.push_back(step.constants[i]);
      continue;
    }
    Flow flow = results[static_cast<size_t>(step.sources[i])];
    if (auto* tensor = std::get_if<at::Tensor>(&flow)) {
      const std::string operand = fmt::format("data_in_{}", i);
      observation.see(kBefore, node, operand, *tensor);
      *tensor = quantized(step, operand, *tensor);
      observation.see(kAfter, node, operand, *tensor);
    }
    evaluation.inputs.push_back(std::move(flow));
  }
  if (mode_ == Mode::kTraining) {
    for (auto& [name, tensor] : evaluation.parameters) tensor = quantized(step, name, tensor);
  }
  const bool is_output = role_of(node) == OperatorRole::kOutput;
  if (step.integers) {
    const bool wanted = observation.observe && observation.values == kBefore;
    if (wanted) observation.see(kBefore, node, "data_out_0", step.integers->unrounded(evaluation.inputs));
    return step.integers->run(evaluation.inputs);
  }
  Flow result = step.evaluate(evaluation);
  const auto* tensor = std::get_if<at::Tensor>(&result);
  if (tensor != nullptr && !is_output) observation.see(kBefore, node, "data_out_0", *tensor);
  return result;
}

at::Tensor Interpreter::run(const std::vector<at::Tensor>& inputs, const TorchObserver& observe,
                            ObservedValues values) {
  const Observation observation{observe, values};
  const at::AutoGradMode gradients(mode_ == Mode::kTraining);
  if (mode_ == Mode::kTraining) ++run_count_;
  std::vector<Flow> results(steps_.size());
  size_t next_input = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Node& node = *step.node;
    try {
      if (step.evaluate == nullptr) {
        if (next_input >= inputs.size())
          fail("got {} inputs, expected {}", inputs.size(), graph_.input_names().size());
        results[i] = inputs[next_input++];
        observation.see(ObservedValues::kBeforeQuantization, node, "data_out_0",
                        std::get<at::Tensor>(results[i]));
      } else {
        results[i] = run_step(step, results, observation);
      }
    } catch (const c10::Error& error) {
      fail("node \"{}\" ({}): {}", node.name, node.op, error.what_without_backtrace());
    }
    auto* tensor = std::get_if<at::Tensor>(&results[i]);
    if (tensor != nullptr && role_of(node) != OperatorRole::kOutput) {
      *tensor = quantized(step, "data_out_0", *tensor);
      observation.see(ObservedValues::kAfterQuantization, node, "data_out_0", *tensor);
    }
    for (const int source : step.last_readers_of) results[static_cast<size_t>(source)] = Flow();
  }
  const auto* output = std::get_if<at::Tensor>(&results.back());
  if (output == nullptr) fail("graph \"{}\": the output is no tensor", graph_.name());
  return *output;
}

std::vector<std::pair<std::string, at::Tensor>> Interpreter::named_trainable_parameters() const {
  DETENT_CHECK(mode_ == Mode::kTraining, "an interpreter in inference mode");
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const Step& step : steps_) {
    for (const auto& [name, tensor] : step.parameters) {
      if (tensor.requires_grad()) result.emplace_back(step.node->parameter_key(name), tensor);
    }
  }
  return result;
}

std::vector<at::Tensor> Interpreter::trainable_parameters() const {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : named_trainable_parameters()) result.push_back(tensor);
  return result;
}

namespace {

/// Makes libtorch, and the libraries beneath it, use the calling thread alone as long as it lives.
class OneThread {
 public:
  // libtorch sets the number for a thread that first asks for it, and must have done so before.
  OneThread() : before_(at::get_num_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

Tensor TorchExecutor::run(const Graph& graph, std::span<const Tensor> inputs, const OperandObserver& observe,
                          ObservedValues values) {
  std::optional<OneThread> one_thread;
  if (in_parallel_for()) one_thread.emplace();
  Interpreter interpreter(graph);
  std::vector<at::Tensor> tensors;
  for (const Tensor& input : inputs) tensors.push_back(to_torch(input));
  TorchObserver forward;
  if (observe) {
    forward = [&](const Node& node, std::string_view operand, const at::Tensor& value) {
      observe(node, operand, from_torch(value));
    };
  }
  return from_torch(interpreter.run(tensors, forward, values));
}

}  // namespace detent
