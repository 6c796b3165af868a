#include "detent/autograd/interpreter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <new>
#include <unordered_set>

#include "detent/autograd/fake_quantize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/operators.h"
#include "detent/graph/owned_parameters.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

Flow constant_flow(const Node& node, const NodeInput& input) {
  if (input.is_absent()) return std::monostate();
  if (const auto* integer = input.constant.get_if<int64_t>()) return *integer;
  if (const auto* real = input.constant.get_if<double>()) return *real;
  if (const auto integers = listed_integers(input.constant)) return at::tensor(*integers, at::kLong);
  const Operand list = constant_operand(input.constant);
  DETENT_CHECK(list.elements.has_value(), "node {}: constant input {} is no number", node.name,
               value_text(input.constant));
  return to_torch(*list.elements);
}

const at::Tensor* float_tensor(const Flow& flow) {
  const auto* tensor = std::get_if<at::Tensor>(&flow);
  return tensor != nullptr && tensor->scalar_type() == at::kFloat ? tensor : nullptr;
}

/// A value that was rounded with this stays as it is when it is rounded again.
bool is_idempotent(const std::optional<QuantSpec>& rounding) {
  return rounding && repeats_exactly(rounding->format);
}

}  // namespace

Interpreter::Interpreter(const Graph& graph) : graph_(graph) {
  verify(graph_);
  for (const Node& node : graph_.nodes()) {
    Step& step = steps_.emplace_back(make_step(node));
    step.first_value = value_count_;
    for (size_t i = 0; i < step.results.size(); ++i)
      places_.emplace(value_name(node.name, i), value_count_++);
  }
  find_last_reads();
  take_up_norms();
}

void Interpreter::take_up_norms() {
  for (Step& step : steps_) {
    const Node* norm = folded_norm(graph_, *step.node);
    if (norm == nullptr) continue;
    Step& after = steps_[graph_.position(norm->name)];
    after.passes_on = true;
    step.norm = {norm_folding(*step.node), norm, after.parameters};
  }
}

void Interpreter::find_last_reads() {
  std::vector<size_t> last_reader(value_count_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (size_t r = 0; r < steps_[i].results.size(); ++r) last_reader[steps_[i].first_value + r] = i;
    for (const Source& source : steps_[i].inputs) {
      if (source.value) last_reader[*source.value] = i;
    }
  }
  for (size_t value = 0; value < value_count_; ++value) {
    if (last_reader[value] + 1 == steps_.size()) continue;
    steps_[last_reader[value]].last_read.push_back(value);
  }
}

Interpreter::Source Interpreter::make_source(const Node& node, size_t input) const {
  const NodeInput& given = node.inputs[input];
  Source source{std::nullopt, {}, fmt::format("data_in_{}", input)};
  if (given.is_constant()) {
    source.constant = constant_flow(node, given);
    return source;
  }
  source.value = places_.at(value_name(given));
  const Node& giver = graph_.node(given.node);
  const auto own = node.quantization.find(source.operand);
  const auto theirs = giver.quantization.find(fmt::format("data_out_{}", given.result));
  source.is_rounded = own != node.quantization.end() && theirs != giver.quantization.end() &&
                      own->second.is(theirs->second) && is_idempotent(node.rounding(source.operand));
  return source;
}

bool Interpreter::keeps_rounding(const Node& node) {
  const auto result = node.quantization.find("data_out_0");
  if (result == node.quantization.end() || !moves_codes(node) || result_count(node) != 1) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto input = node.quantization.find(fmt::format("data_in_{}", i));
    const bool is_same = input != node.quantization.end() && input->second.is(result->second);
    if (!node.inputs[i].is_constant() && !is_same) return false;
  }
  return is_idempotent(result->second->effective_spec());  // affine, so that 0 has a code
}

Interpreter::Step Interpreter::make_step(const Node& node) {
  Step step;
  step.node = &node;
  step.evaluate = role_of(node) == OperatorRole::kInput ? nullptr : find_evaluator(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) step.inputs.push_back(make_source(node, i));
  for (size_t i = 0; i < result_count(node); ++i) step.results.push_back(fmt::format("data_out_{}", i));
  step.keeps_rounding = keeps_rounding(node);
  for (const auto& [name, parameter] : node.parameters)
    step.parameters.emplace_back(name, leaf_of(*parameter));
  for (const auto& [operand, quantizer] : node.quantization) {
    for (const auto& [name, parameter] : quantizer->parameters)
      step.owned_by_quantizers.emplace_back(owned_parameter_name(operand, name), leaf_of(*parameter));
    step.roundings.emplace(operand, make_rounding(node, operand));
  }
  return step;
}

at::Tensor Interpreter::leaf_of(const Parameter& parameter) {
  const auto [leaf, is_new] = leaves_.try_emplace(&parameter);
  if (is_new) {
    leaf->second = to_torch(parameter.tensor);
    if (parameter.trainable) leaf->second.set_requires_grad(true);
  }
  return leaf->second;
}

/// The optimizer moves what a quantizer owns, and the gradient reaches it.
Interpreter::Rounding Interpreter::make_rounding(const Node& node, const std::string& operand) {
  const Quantizer& quantizer = *node.find_quantizer(operand);
  OwnedTensors owned;
  for (const auto& [name, parameter] : quantizer.parameters) owned.emplace_back(name, leaf_of(*parameter));
  return {{quantizer.spec, std::move(owned), quantizer.rounding, observer_of(quantizer)},
          node.find_parameter(operand) == nullptr};
}

/// nullptr where there is none.
ScaleObserver* Interpreter::observer_of(const Quantizer& quantizer) {
  if (!quantizer.observer) return nullptr;
  const auto [own, is_new] = observers_.emplace(&quantizer, *quantizer.observer);
  if (is_new) observers_in_order_.push_back(&own->second);
  return &own->second;
}

void Interpreter::store_observers(Graph& graph) const {
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      const auto own = observers_.find(&*quantizer);
      if (own == observers_.end()) continue;
      quantizer->observer = own->second;
      if (!own->second.is_observing()) quantizer->observer.reset();
    }
  }
}

void Interpreter::update_quantizers() {
  for (Step& step : steps_) {
    for (auto& [operand, rounding] : step.roundings) rounding = make_rounding(*step.node, operand);
  }
}

at::Tensor Interpreter::quantized(const Step& step, std::string_view operand, const at::Tensor& value) const {
  const Node& node = *step.node;
  const auto rounding = step.roundings.find(operand);
  if (rounding == step.roundings.end()) return value;
  const auto& [quantizer, is_of_samples] = rounding->second;
  const GatherSamples& gather = is_of_samples ? gather_ : GatherSamples();
  try {
    const uint64_t seed = std::hash<std::string_view>{}(node.name) ^ std::hash<std::string_view>{}(operand);
    if (!rounds_) {
      observe_scale(value, quantizer, gather);
      return value;
    }
    if (quantizer.owned.empty()) return fake_quantize(value, quantizer.spec, seed + run_count_);
    const int64_t samples = is_of_samples ? value.size(0) : 1;
    return round_with_owned(value, quantizer, samples, seed + run_count_, gather);
  } catch (const Error& error) {
    fail("node \"{}\", operand \"{}\": {}", node.name, operand, error.what());
  }
}

Flow Interpreter::input_of(const Step& step, const Source& source, std::vector<Flow>& values,
                           const Observation& observation) const {
  if (!source.value) return source.constant;
  Flow flow = values[*source.value];
  if (const at::Tensor* tensor = float_tensor(flow)) {
    const at::Tensor given = *tensor;
    observation.see(ObservedValues::kBeforeQuantization, *step.node, source.operand, given);
    const at::Tensor rounded = source.is_rounded ? given : quantized(step, source.operand, given);
    observation.see(ObservedValues::kAfterQuantization, *step.node, source.operand, rounded);
    flow = rounded;
  }
  return flow;
}

Flow Interpreter::evaluated_with_norm(const Step& step, Evaluation evaluation) const {
  FoldedNorm norm = step.norm;
  norm.is_frozen = statistics_are_frozen_;
  return run_with_norm(step.evaluate, std::move(evaluation), norm,
                       [&](const at::Tensor& weight) { return quantized(step, "weight", weight); });
}

bool Interpreter::is_observing() const {
  return std::ranges::any_of(observers_, [](const auto& own) { return own.second.is_observing(); });
}

/// Observes in the order of a run.
void Interpreter::observe_without_samples() {
  ++run_count_;
  if (!gather_) return;
  const at::Tensor nothing = at::empty({0}, at::kFloat);
  const auto observe = [&](const Step& step, const std::string& operand) {
    const auto rounding = step.roundings.find(operand);
    if (rounding != step.roundings.end()) observe_scale(nothing, rounding->second.quantizer, gather_);
  };
  for (const Step& step : steps_) {
    for (const Source& source : step.inputs)
      if (source.value && !source.is_rounded) observe(step, source.operand);
    if (step.keeps_rounding || role_of(*step.node) == OperatorRole::kOutput) continue;
    for (const std::string& result : step.results) observe(step, result);
  }
}

Evaluation Interpreter::evaluation_of(const Step& step) const {
  const bool uses_statistics = statistics_are_frozen_ && step.node->find_parameter("running_mean") != nullptr;
  return {.node = *step.node,
          .inputs = {},
          .parameters = step.parameters,
          .training = !uses_statistics,
          .gather = gather_ ? &gather_ : nullptr};
}

std::vector<Flow> Interpreter::run_step(const Step& step, std::vector<Flow>& values,
                                        const Observation& observation) const {
  constexpr auto kBefore = ObservedValues::kBeforeQuantization;
  const Node& node = *step.node;
  Evaluation evaluation = evaluation_of(step);
  for (const Source& source : step.inputs)
    evaluation.inputs.push_back(input_of(step, source, values, observation));
  if (step.passes_on) return evaluation.inputs;
  if (step.norm.node != nullptr) return {evaluated_with_norm(step, std::move(evaluation))};
  for (auto& [name, tensor] : evaluation.parameters) tensor = quantized(step, name, tensor);
  if (role_of(node) == OperatorRole::kOutput) return evaluation.inputs;
  std::vector<Flow> results = std::move(step.evaluate(evaluation).flows());
  DETENT_CHECK(results.size() == step.results.size(), "node {}: {} results of {}", node.name, results.size(),
               step.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (const at::Tensor* tensor = float_tensor(results[i])) {
      observation.see(kBefore, node, step.results[i], *tensor);
    }
  }
  return results;
}

Flow Interpreter::placeholder_value(const Node& node, const at::Tensor& input, NamedSizes& sizes) const {
  const TensorType& type = graph_.input_types().find(node.name)->second;
  const DType dtype = dtype_of(input);
  if (dtype != type.dtype || !type.matches(input.sizes().vec(), sizes)) {
    fail("input \"{}\": got {} of shape {}, expected {}", node.name, dtype_name(dtype),
         shape_text(input.sizes().vec()), tensor_type_text(type));
  }
  return input;
}

std::vector<at::Tensor> Interpreter::outputs(const std::vector<at::Tensor>& inputs,
                                             const TorchObserver& observe, ObservedValues observed) const {
  const Observation observation{observe, observed};
  if (inputs.size() != graph_.input_types().size())
    fail("got {} inputs, expected {}", inputs.size(), graph_.input_types().size());
  std::vector<Flow> values(value_count_);
  NamedSizes sizes;
  size_t next_input = 0;
  for (const Step& step : steps_) {
    const Node& node = *step.node;
    std::vector<Flow> results;
    try {
      if (step.evaluate == nullptr) {
        results = {placeholder_value(node, inputs[next_input++], sizes)};
        if (const at::Tensor* tensor = float_tensor(results[0]))
          observation.see(ObservedValues::kBeforeQuantization, node, "data_out_0", *tensor);
      } else {
        results = run_step(step, values, observation);
      }
    } catch (const c10::Error& error) {
      fail("node \"{}\" ({}): {}", node.name, node.op, error.what_without_backtrace());
    } catch (const std::bad_alloc&) {
      fail("node \"{}\" ({}): out of memory", node.name, node.op);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Flow& value = values[step.first_value + i] = std::move(results[i]);
      const at::Tensor* tensor = role_of(node) == OperatorRole::kOutput ? nullptr : float_tensor(value);
      if (tensor == nullptr) continue;
      const at::Tensor rounded = step.keeps_rounding ? *tensor : quantized(step, step.results[i], *tensor);
      observation.see(ObservedValues::kAfterQuantization, node, step.results[i], rounded);
      value = rounded;
    }
    for (const size_t value : step.last_read) values[value] = Flow();
  }
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < steps_.back().results.size(); ++i) {
    const auto* output = std::get_if<at::Tensor>(&values[steps_.back().first_value + i]);
    if (output == nullptr) fail("graph \"{}\": the output is no tensor", graph_.name());
    outputs.push_back(*output);
  }
  return outputs;
}

at::Tensor Interpreter::run(const std::vector<at::Tensor>& inputs, const TorchObserver& observe,
                            ObservedValues values) {
  ++run_count_;
  return outputs(inputs, observe, values).front();
}

std::vector<std::pair<std::string, at::Tensor>> Interpreter::named_trainable_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  std::unordered_set<const void*> seen;
  for (const Step& step : steps_) {
    const auto add = [&](std::string_view name, const at::Tensor& tensor) {
      if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) return;
      result.emplace_back(step.node->parameter_key(name), tensor);
    };
    for (const auto& [name, tensor] : step.parameters) add(name, tensor);
    for (const auto& [name, tensor] : step.owned_by_quantizers) add(name, tensor);
  }
  return result;
}

std::vector<std::string> Interpreter::quantizer_parameter_names() const {
  std::vector<std::string> result;
  for (const Step& step : steps_) {
    for (const auto& [name, tensor] : step.owned_by_quantizers)
      if (tensor.requires_grad()) result.push_back(step.node->parameter_key(name));
  }
  return result;
}

std::vector<at::Tensor> Interpreter::trainable_parameters() const {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : named_trainable_parameters()) result.push_back(tensor);
  return result;
}

}  // namespace detent
