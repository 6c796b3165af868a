#include "detent/engine/weight_packer.h"

#include <algorithm>
#include <set>
#include <variant>

#include "detent/engine/pair_table.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Its shape, and no elements.
Tensor without_elements(const Tensor& tensor) {
  return Tensor::borrow(tensor.dtype(), tensor.shape(), nullptr, nullptr);
}

/// Whether both compute the same of the same parameters: copies of a graph share their elements.
bool have_same_parameters(const Node& a, const Node& b) {
  const auto is_same = [](const auto& one, const auto& other) {
    const Tensor& x = one.second->tensor;
    const Tensor& y = other.second->tensor;
    return one.first == other.first && x.dtype() == y.dtype() && x.shape() == y.shape() &&
           x.bytes().data() == y.bytes().data();
  };
  return std::ranges::equal(a.parameters, b.parameters, is_same);
}

bool are_same_but_for_parameters(const Node& a, const Node& b) {
  const auto takes_same = [](const NodeInput& one, const NodeInput& other) {
    return one.is_constant() == other.is_constant() && (!one.is_constant() || one == other);
  };
  return a.op == b.op && a.body == nullptr && b.body == nullptr && a.attributes == b.attributes &&
         a.quantization == b.quantization && std::ranges::equal(a.inputs, b.inputs, takes_same);
}

/// Where the elements of its parameters lie.
std::vector<const std::byte*> memory_of_parameters(const Node& node) {
  std::vector<const std::byte*> memory;
  for (const auto& [name, parameter] : node.parameters) memory.push_back(parameter->tensor.bytes().data());
  return memory;
}

}  // namespace

const ReferenceStep* WeightPacker::same_step(const Node& node) const {
  if (other_ == nullptr || node.parameters.empty()) return nullptr;
  const Node* given = other_->graph.find(node.name);
  const Node* theirs = other_->reference.graph.find(node.name);
  if (given == nullptr || theirs == nullptr || !have_same_parameters(node, *given) ||
      !are_same_but_for_parameters(node, *theirs))
    return nullptr;
  return &other_->reference.steps[other_->reference.graph.position(node.name)];
}

const NodeForm* WeightPacker::known_form(const Node& node) const {
  const ReferenceStep* step = same_step(node);
  return step == nullptr || !step->form ? nullptr : &*step->form;
}

bool WeightPacker::take(ReferenceStep& step) {
  const ReferenceStep* same = same_step(*step.node);
  const bool is_known = same != nullptr && same->engine == step.engine && (same->form || !step.form);
  if (is_known) return share(step.node->name);
  return step.engine == NodeEngine::kFloat ? pack_in_float(step) : pack(step);
}

bool WeightPacker::share(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto take_from = [&](auto member) {
    const auto found = (other_->weights.*member).find(name);
    if (found != (other_->weights.*member).end()) (weights_.*member).insert(*found);
  };
  take_from(&ProgramWeights::layers);
  take_from(&ProgramWeights::transposed_layers);
  take_from(&ProgramWeights::block_layers);
  take_from(&ProgramWeights::float_layers);
  take_from(&ProgramWeights::transposed_float_layers);
  take_from(&ProgramWeights::pair_tables);
  return weights_.contain(name) || weights_.float_layers.contains(name);
}

std::shared_ptr<WeightPacker::SharedFloats> WeightPacker::shared_floats(const ReferenceStep& step) {
  const Parameter* const weight = step.node->find_parameter("weight");
  const bool takes_floats =
      !step.inputs.empty() && !step.inputs[0] && !step.outputs.empty() && !step.outputs[0];
  if (weight == nullptr || !takes_floats || !step.node->quantization.empty() || accumulator_of(*step.node))
    return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<SharedFloats>& shared = shared_floats_[weight->tensor.bytes().data()];
  // Weights that are gone leave their memory to others.
  const bool is_there = shared != nullptr && shared->owner.lock() == weight->tensor.owner();
  if (!is_there) shared = std::make_shared<SharedFloats>(weight->tensor.owner());
  return shared;
}

bool WeightPacker::pack_in_float(const ReferenceStep& step) {
  const Node& node = *step.node;
  const std::shared_ptr<SharedFloats> shared = shared_floats(step);
  std::unique_lock<std::mutex> lock;
  if (shared != nullptr) lock = std::unique_lock(shared->mutex);
  if (lock && shared->packed != nullptr && are_same_but_for_parameters(*shared->node, node) &&
      shared->parameters == memory_of_parameters(node)) {
    const std::lock_guard of_weights(mutex_);
    weights_.float_layers.emplace(node.name, shared->packed);
    return true;
  }
  auto packed = packed_float_sums(step);
  if (!packed) {
    auto phases = transposed_float_phases(step);
    if (!phases.empty()) add(weights_.transposed_float_layers, node.name, std::move(phases));
    return false;
  }
  const auto added = add(weights_.float_layers, node.name, std::move(*packed));
  if (lock) {
    shared->node = &node;
    shared->parameters = memory_of_parameters(node);
    shared->packed = added;
  }
  return true;
}

bool WeightPacker::pack(ReferenceStep& step) {
  const std::string& name = step.node->name;
  if (!step.form) return false;
  if (auto* form = std::get_if<SumForm>(&*step.form);
      form != nullptr && why_not_packed(*form, *step.node).empty()) {
    if (trait<WeightedSum>(*step.node)->transposed) {
      add(weights_.transposed_layers, name, transposed_phases(*form, *step.node, kernels_));
    } else {
      add(weights_.layers, name, packed_sums(*form, *step.node, kernels_));
    }
    form->weight = without_elements(form->weight);
    return true;
  }
  if (auto* blocks = std::get_if<BlockSumForm>(&*step.form);
      blocks != nullptr && why_not_packed(*blocks, *step.node).empty()) {
    add(weights_.block_layers, name, packed_blocks(*blocks, *step.node, kernels_));
    blocks->weight = without_elements(blocks->weight);
    return true;
  }
  if (const auto* pairs = std::get_if<PairForm>(&*step.form);
      pairs != nullptr && pairs_bytes(*pairs) && !has_pair_kernel(*pairs)) {
    add_pair_table(name, *pairs);
  }
  return false;
}

std::shared_ptr<const std::vector<uint8_t>> WeightPacker::same_table(const std::string& name,
                                                                     const PairForm& form) const {
  if (other_ == nullptr) return nullptr;
  const auto found = other_->weights.pair_tables.find(name);
  if (found == other_->weights.pair_tables.end()) return nullptr;
  const ReferenceStep& step = other_->reference.steps[other_->reference.graph.position(name)];
  const auto* const theirs = step.form ? std::get_if<PairForm>(&*step.form) : nullptr;
  return theirs != nullptr && *theirs == form ? found->second : nullptr;
}

void WeightPacker::add_pair_table(const std::string& name, const PairForm& form) {
  auto table = same_table(name, form);
  if (table == nullptr) table = std::make_shared<const std::vector<uint8_t>>(pair_table(form));
  const std::lock_guard lock(mutex_);
  weights_.pair_tables.emplace(name, std::move(table));
}

void drop_weights(Graph& graph, const ProgramWeights& weights) {
  std::set<const Parameter*> needed;
  for (const Node& node : graph.nodes()) {
    const bool is_packed = weights.contain(node.name) || weights.float_layers.contains(node.name);
    for (const auto& [name, parameter] : node.all_parameters()) {
      if (name != "weight" || !is_packed) needed.insert(&*parameter);
    }
  }
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      Tensor& tensor = parameter->tensor;
      tensor = needed.contains(&*parameter) ? tensor.clone() : without_elements(tensor);
    }
  }
}

}  // namespace detent
