#include "detent/engine/fast_executor.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/program_plan.h"
#include "detent/engine/ready_plan.h"
#include "detent/engine/weight_packer.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/integer_executor.h"

namespace detent {
namespace {

/// A plan for inputs of some shapes.
struct ShapedPlan {
  std::vector<Operand> inputs;  // whose sizes may be open
  Observation observation;      // `see` is that of the run for which it was made
  std::shared_ptr<const ReadyPlan> plan;

  bool is_open() const { return std::ranges::any_of(inputs, &Operand::is_open); }

  bool is_for(std::span<const Tensor> of, const Observation& shown) const {
    const auto fits = [](int64_t expected, int64_t size) {
      return expected == size || expected == kOpenSize;
    };
    const auto is_like = [&](const Operand& type, const Tensor& input) {
      return type.dtype == input.dtype() && std::ranges::equal(type.shape, input.shape(), fits);
    };
    if (!std::ranges::equal(inputs, of, is_like) || (observation.see == nullptr) != (shown.see == nullptr))
      return false;
    return shown.see == nullptr ||
           (observation.values == shown.values && observation.operands == shown.operands &&
            observation.in_any_order == shown.in_any_order);
  }
};

}  // namespace

struct FastProgram::Compiled {
  const KernelSet& kernels;
  ProgramWeights weights = {};
  std::unique_ptr<ReferencePlan> reference;  // without the weights that are packed
  mutable std::mutex mutex = {};
  mutable std::list<ShapedPlan> plans = {};  // the last that was asked for first

  Compiled(Graph graph, const PackedProgram* other) : kernels(kernel_set()) {
    WeightPacker packer(kernels, weights, other);
    const FastExecutor bodies;
    reference = reference_plan(std::move(graph),
                               {.known_form = [&](const Node& node) { return packer.known_form(node); },
                                .take = [&](ReferenceStep& step) { return packer.take(step); },
                                .bodies = &bodies});
    reference->in_float = std::make_unique<const FloatNodes>(packed_parameters());
    weights.recurrent_layers = packed_recurrent_layers(*reference);
    weights.code_layers = packed_code_layers(*reference, kernels);
    drop_weights(reference->graph, weights);
  }

  /// The weights of float layers, for whatever of them no kernel computes.
  GiveParameter packed_parameters() const {
    return [this](const Node& node, std::string_view name) -> std::optional<Tensor> {
      const auto layer = weights.float_layers.find(node.name);
      if (name != "weight" || layer == weights.float_layers.end()) return std::nullopt;
      return unpacked_weight(*layer->second, node.find_parameter(name)->tensor.shape());
    };
  }

  std::shared_ptr<const ReadyPlan> plan_for(std::span<const Tensor> inputs,
                                            const Observation& observation = {}) const {
    constexpr size_t kMostPlans = 8;
    const std::lock_guard lock(mutex);
    const auto found =
        std::ranges::find_if(plans, [&](const ShapedPlan& plan) { return plan.is_for(inputs, observation); });
    if (found == plans.end() || found->is_open()) check_inputs(*reference, inputs);
    if (found != plans.end()) {
      plans.splice(plans.begin(), plans, found);
      return plans.front().plan;
    }
    const ValueTypes values = values_for(inputs);
    std::vector<Operand> types;
    for (const std::string& name : reference->graph.input_names()) types.push_back(values.at(name));
    const ProgramParts program{*reference, weights, kernels};
    plans.push_front({std::move(types), observation,
                      std::make_shared<const ReadyPlan>(plan_program(program, {}, values, observation))});
    if (plans.size() > kMostPlans) plans.pop_back();
    return plans.front().plan;
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation = {},
                          StepTimes* times = nullptr) const {
    const KeptTileShapes kept;
    std::vector<Flow> flows;
    for (const Tensor& input : inputs) flows.push_back({input});
    const std::vector<Flow> results =
        plan_for(inputs, observation)->run(std::move(flows), &observation, times);
    const ReferenceStep& output = reference->steps.back();
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < results.size(); ++i)
      outputs.push_back(as_values(converted(*output.node, results[i], output.inputs[i])));
    return outputs;
  }

  /// Types of the values for these inputs. Sizes that have no usual one, as those have that a loop changes,
  /// stay open after a few plans.
  ValueTypes values_for(std::span<const Tensor> inputs) const {
    constexpr size_t kFewPlans = 4;
    const Graph& graph = reference->graph;
    const NamedSizes sizes = sizes_of(graph, inputs);
    NamedSizes open = sizes;
    for (const auto& [name, type] : graph.input_types()) {
      for (const Dimension& dim : type.shape)
        if (dim.size == kOpenSize) open[dim.symbol] = kOpenSize;
    }
    if (plans.size() < kFewPlans || open == sizes) return infer_shapes(graph, sizes);
    try {
      return infer_shapes(graph, open);
    } catch (const Error&) {
      return infer_shapes(graph, sizes);  // where an operator needs to know one
    }
  }
};

FastProgram::FastProgram(Graph graph)
    : compiled_(std::make_unique<const Compiled>(std::move(graph), nullptr)) {}

FastProgram::FastProgram(Graph graph, const Graph& other_graph, const FastProgram& other) {
  const PackedProgram packed{other_graph, *other.compiled_->reference, other.compiled_->weights};
  compiled_ = std::make_unique<const Compiled>(std::move(graph), &packed);
}

FastProgram::~FastProgram() = default;

std::vector<Tensor> FastProgram::run(std::span<const Tensor> inputs, const Observation& observation) const {
  return compiled_->run(inputs, observation);
}

std::vector<StepProfile> FastProgram::profile(std::span<const Tensor> inputs, int runs) const {
  StepTimes times;
  for (int i = 0; i < runs; ++i) compiled_->run(inputs, {}, &times);
  std::vector<StepProfile> profile;
  for (const auto& [step, seconds] : times.steps()) {
    profile.push_back({step->nodes, step->kernel, step->why, step->products, step->multiplies_floats,
                       step->bytes, seconds});
  }
  return profile;
}

int64_t FastProgram::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, layer] : compiled_->weights.layers) bytes += layer->weight_bytes();
  for (const auto& [name, phases] : compiled_->weights.transposed_layers)
    for (const TransposedPhase& phase : *phases) bytes += phase.packed->weight_bytes();
  for (const auto& [name, layer] : compiled_->weights.block_layers) bytes += layer->byte_size();
  for (const auto& [name, phases] : compiled_->weights.transposed_float_layers) {
    for (const TransposedFloatPhase& phase : *phases)
      bytes += static_cast<int64_t>(phase.packed->weights.byte_size());
  }
  std::set<const PackedFloatSums*> float_layers;  // which nodes may share
  for (const auto& [name, layer] : compiled_->weights.float_layers) {
    if (float_layers.insert(layer.get()).second) bytes += static_cast<int64_t>(layer->weights.byte_size());
  }
  for (const auto& [name, layer] : compiled_->weights.recurrent_layers) bytes += layer->byte_size();
  for (const ReferenceStep& step : compiled_->reference->steps) {
    if (step.body != nullptr) bytes += static_cast<const FastProgram&>(*step.body).weight_bytes();
  }
  return bytes;
}

int64_t FastProgram::arena_bytes(std::span<const Tensor> inputs) const {
  return compiled_->plan_for(inputs)->arena_bytes();
}

std::string FastProgram::target() const { return compiled_->kernels.name; }

std::unique_ptr<const Program> FastExecutor::compile_like(const Graph& graph,
                                                          const CompiledGraph& other) const {
  const auto* program = dynamic_cast<const FastProgram*>(&other.program);
  if (program == nullptr) return compile(graph);
  return std::make_unique<FastProgram>(graph, other.graph, *program);
}

std::string slow_steps_text(std::span<const StepProfile> steps) {
  constexpr double kShare = 0.1;
  constexpr double kLeastSeconds = 1e-3;
  constexpr size_t kMostNamed = 3;
  double all = 0;
  double of_slow = 0;
  std::vector<const StepProfile*> slow;
  for (const StepProfile& step : steps) {
    all += step.seconds;
    if (!step.is_slow()) continue;
    of_slow += step.seconds;
    slow.push_back(&step);
  }
  if (all < kLeastSeconds || of_slow <= kShare * all) return "";
  std::ranges::stable_sort(slow, std::greater(), &StepProfile::seconds);
  std::string names;
  for (size_t i = 0; i < std::min(slow.size(), kMostNamed); ++i)
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", slow[i]->nodes, slow[i]->why);
  return fmt::format("{:.0f} % of a run is spent in {} node{} without a fast kernel: {}{}",
                     100 * of_slow / all, slow.size(), slow.size() == 1 ? "" : "s", names,
                     slow.size() > kMostNamed ? ", ..." : "");
}

}  // namespace detent
