#include "detent/engine/fast_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/parallel.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/pair_table.h"
#include "detent/engine/program_plan.h"
#include "detent/float32/float_nodes.h"
#include "detent/graph/traits.h"
#include "detent/graph/value_sizes.h"
#include "detent/reference/integer_executor.h"

namespace detent {
namespace {

/// A plan for inputs of some shapes, with the memory of runs that are over.
struct ShapedPlan {
  std::vector<Shape> shapes;
  Observation observation;  // `see` is that of the run for which it was made
  ProgramPlan plan;
  mutable std::mutex mutex = {};
  mutable std::vector<Tensor> arenas = {};

  ShapedPlan(std::vector<Shape> of, Observation shown, ProgramPlan planned)
      : shapes(std::move(of)), observation(std::move(shown)), plan(std::move(planned)) {}

  bool is_for(const std::vector<Shape>& of, const Observation& shown) const {
    if (shapes != of || (observation.see == nullptr) != (shown.see == nullptr)) return false;
    return shown.see == nullptr ||
           (observation.values == shown.values && observation.operands == shown.operands);
  }

  Tensor take_arena() const {
    const std::lock_guard lock(mutex);
    if (arenas.empty()) return Tensor(DType::kUInt8, {std::max<int64_t>(plan.arena_bytes, 1)});
    Tensor arena = std::move(arenas.back());
    arenas.pop_back();
    return arena;
  }
  void give_back(Tensor arena) const {
    const std::lock_guard lock(mutex);
    arenas.push_back(std::move(arena));
  }
};

/// Its shape, and no elements.
Tensor without_elements(const Tensor& tensor) {
  return Tensor::borrow(tensor.dtype(), tensor.shape(), nullptr, nullptr);
}

/// Packs the weights of layers where kernels can compute them, and leaves their forms without; makes the
/// tables of pairs. From several threads at once.
class WeightPacker {
 public:
  WeightPacker(const KernelSet& kernels, ProgramWeights& weights) : kernels_(kernels), weights_(weights) {}

  /// Whether it has the node's weights.
  bool take(ReferenceStep& step) {
    const std::string& name = step.node->name;
    if (step.engine == NodeEngine::kFloat) {
      auto packed = packed_float_sums(step);
      if (!packed) {
        auto phases = transposed_float_phases(step);
        if (!phases.empty()) add(weights_.transposed_float_layers, name, std::move(phases));
        return false;
      }
      add(weights_.float_layers, name, std::move(*packed));
      return true;
    }
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
      add(weights_.pair_tables, name, pair_table(*pairs));
    }
    return false;
  }

 private:
  template <class Map, class Packed>
  void add(Map& map, const std::string& name, Packed packed) {
    auto shared = std::make_shared<const Packed>(std::move(packed));
    const std::lock_guard lock(mutex_);
    map.emplace(name, std::move(shared));
  }

  const KernelSet& kernels_;
  ProgramWeights& weights_;
  std::mutex mutex_;
};

/// The graph's weights that only packed layers have; with them goes the file in memory that all parameters
/// are parts of.
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

}  // namespace

struct FastProgram::Compiled {
  const KernelSet& kernels;
  ProgramWeights weights = {};
  std::unique_ptr<ReferencePlan> reference;  // without the weights that are packed
  mutable std::mutex mutex = {};
  mutable std::list<std::shared_ptr<const ShapedPlan>> plans = {};  // the last that was asked for first

  explicit Compiled(Graph graph) : kernels(kernel_set()) {
    WeightPacker packer(kernels, weights);
    reference = reference_plan(std::move(graph), [&](ReferenceStep& step) { return packer.take(step); });
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

  std::shared_ptr<const ShapedPlan> plan_for(std::span<const Tensor> inputs,
                                             const Observation& observation = {}) const {
    constexpr size_t kMostPlans = 8;
    check_inputs(*reference, inputs);
    std::vector<Shape> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.shape());
    const std::lock_guard lock(mutex);
    const auto found =
        std::ranges::find_if(plans, [&](const auto& plan) { return plan->is_for(shapes, observation); });
    if (found != plans.end()) {
      plans.splice(plans.begin(), plans, found);
      return plans.front();
    }
    const ValueTypes values = infer_shapes(reference->graph, sizes_of(reference->graph, inputs));
    plans.push_front(std::make_shared<const ShapedPlan>(
        shapes, observation, plan_program(*reference, values, weights, kernels, observation)));
    if (plans.size() > kMostPlans) plans.pop_back();
    return plans.front();
  }
};

namespace {

using Clock = std::chrono::steady_clock;

/// Runs all steps; notes the least time of each in `seconds`, where there are any.
std::vector<Tensor> run_plan(const ShapedPlan& shaped, const ReferenceStep& output,
                             std::span<const Tensor> inputs, std::span<double> seconds,
                             const Observation& observation = {}) {
  const KeptTileShapes kept;
  const ProgramPlan& plan = shaped.plan;
  Tensor arena = shaped.take_arena();
  RunState state{.places = plan.places,
                 .arena = arena.bytes().data(),
                 .flows = std::vector<Flow>(plan.flow_count),
                 .threads = in_parallel_for() ? 1 : thread_count(),
                 .observation = &observation};
  for (size_t i = 0; i < inputs.size(); ++i) state.flows[plan.inputs[i]] = {inputs[i]};
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const EngineStep& step = *plan.steps[i];
    check_interruption();
    const Clock::time_point start = seconds.empty() ? Clock::time_point() : Clock::now();
    step.run(state);
    for (const size_t flow : step.dropped_flows) state.flows[flow] = {};
    if (!seconds.empty())
      seconds[i] = std::min(seconds[i], std::chrono::duration<double>(Clock::now() - start).count());
  }
  check_interruption();  // of the last step
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    outputs.push_back(as_values(converted(*output.node, state.flows[plan.outputs[i]], output.inputs[i])));
  shaped.give_back(std::move(arena));
  return outputs;
}

}  // namespace

FastProgram::FastProgram(Graph graph) : compiled_(std::make_unique<const Compiled>(std::move(graph))) {}

FastProgram::~FastProgram() = default;

std::vector<Tensor> FastProgram::run(std::span<const Tensor> inputs, const Observation& observation) const {
  return run_plan(*compiled_->plan_for(inputs, observation), compiled_->reference->steps.back(), inputs, {},
                  observation);
}

std::vector<StepProfile> FastProgram::profile(std::span<const Tensor> inputs, int runs) const {
  const auto shaped = compiled_->plan_for(inputs);
  std::vector<double> seconds(shaped->plan.steps.size(), HUGE_VAL);
  for (int i = 0; i < runs; ++i) run_plan(*shaped, compiled_->reference->steps.back(), inputs, seconds);
  std::vector<StepProfile> profile;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const EngineStep& step = *shaped->plan.steps[i];
    profile.push_back(
        {step.nodes, step.kernel, step.why, step.products, step.multiplies_floats, step.bytes, seconds[i]});
  }
  return profile;
}

int64_t FastProgram::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, layer] : compiled_->weights.layers)
    bytes += static_cast<int64_t>(layer->weights.byte_size());
  for (const auto& [name, phases] : compiled_->weights.transposed_layers) {
    for (const TransposedPhase& phase : *phases)
      bytes += static_cast<int64_t>(phase.packed->weights.byte_size());
  }
  for (const auto& [name, layer] : compiled_->weights.block_layers) bytes += layer->byte_size();
  for (const auto& [name, phases] : compiled_->weights.transposed_float_layers) {
    for (const TransposedFloatPhase& phase : *phases)
      bytes += static_cast<int64_t>(phase.packed->weights.byte_size());
  }
  for (const auto& [name, layer] : compiled_->weights.float_layers)
    bytes += static_cast<int64_t>(layer->weights.byte_size());
  for (const auto& [name, layer] : compiled_->weights.recurrent_layers) bytes += layer->byte_size();
  return bytes;
}

int64_t FastProgram::arena_bytes(std::span<const Tensor> inputs) const {
  return compiled_->plan_for(inputs)->plan.arena_bytes;
}

std::string FastProgram::target() const { return compiled_->kernels.name; }

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
