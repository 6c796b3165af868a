#include "detent/engine/deferred_plan.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <set>

#include "detent/core/error.h"
#include "detent/engine/ready_plan.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Whether sizes give the step a kernel that is far faster than the reference. Linear layers take rows as
/// they come (row_layer.h).
bool needs_sizes(const ProgramWeights& weights, const ReferenceStep& step) {
  if (step.role != OperatorRole::kComputes || step.rounds != nullptr) return false;
  const Node& node = *step.node;
  const auto* sum = trait<WeightedSum>(node);
  return (sum != nullptr && sum->spatial_dims > 0) || trait<MatrixProduct>(node) != nullptr ||
         weights.recurrent_layers.contains(node.name);
}

bool is_open(const Node& node, const ValueTypes& types) {
  if (types.at(value_name(node.name)).is_open()) return true;
  return std::ranges::any_of(node.inputs, [&](const NodeInput& input) {
    return !input.is_constant() && types.at(value_name(input)).is_open();
  });
}

bool are_same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) {
    const bool is_known = x.elements.has_value();
    return x.shape == y.shape && is_known == y.elements.has_value() &&
           (!is_known || x.elements->equals(*y.elements));
  });
}

class DeferredPlan final : public EngineStep {
 public:
  explicit DeferredPlan(DeferredSteps steps) : steps_(std::move(steps)) {}

  bool has_plan() const override { return true; }

  void run(RunState& state) const override {
    std::vector<Flow> values;
    std::vector<Operand> types;
    for (const auto& [name, flow] : steps_.values) {
      types.push_back(operand_of(state.flows[flow]));
      values.push_back(std::move(state.flows[flow]));
    }
    const std::shared_ptr<const ReadyPlan> plan = plan_for(std::move(types), values);
    std::vector<Flow> outputs = plan->run(std::move(values), state.observation, state.times);
    for (size_t i = 0; i < outputs.size(); ++i) state.flows[steps_.outputs[i]] = std::move(outputs[i]);
  }

 private:
  struct Kept {
    std::vector<Operand> types;
    std::shared_ptr<const ReadyPlan> plan;
  };

  std::shared_ptr<const ReadyPlan> plan_for(std::vector<Operand> types,
                                            const std::vector<Flow>& values) const {
    constexpr size_t kMostPlans = 4;
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find_if(plans_, [&](const Kept& kept) { return are_same(kept.types, types); });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
    } else {
      auto plan = std::make_shared<const ReadyPlan>(planned(types, values));
      plans_.push_front({std::move(types), std::move(plan)});
      if (plans_.size() > kMostPlans) plans_.pop_back();
    }
    return plans_.front().plan;
  }

  ProgramPlan planned(const std::vector<Operand>& types, const std::vector<Flow>& values) const {
    PlannedSteps steps{.first = steps_.first, .values = steps_.known};
    ValueTypes all = steps_.types;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = steps_.values[i].first;
      steps.values.push_back({.name = name, .type = values[i].type});
      all.insert_or_assign(name, types[i]);
    }
    const Graph& graph = steps_.program.reference.graph;
    infer_more_shapes(graph.nodes().subspan(steps_.first), all);
    return plan_program(steps_.program, steps, all, steps_.observation);
  }

  const DeferredSteps steps_;
  mutable std::mutex mutex_;
  mutable std::list<Kept> plans_;  // the last that was asked for first
};

}  // namespace

size_t open_layer(const ProgramParts& program, size_t first, const ValueTypes& types) {
  const std::vector<ReferenceStep>& steps = program.reference.steps;
  for (size_t i = first + 1; i < steps.size(); ++i) {
    if (!needs_sizes(program.weights, steps[i]) || !is_open(*steps[i].node, types)) continue;
    const auto is_input = [](const ReferenceStep& step) { return step.role == OperatorRole::kInput; };
    return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.end(), is_input) ? steps.size()
                                                                                              : i;
  }
  return steps.size();
}

std::vector<std::string> values_between(const ReferencePlan& reference, size_t step) {
  std::set<std::string> read;
  std::set<std::string_view> later;
  for (size_t i = step; i < reference.steps.size(); ++i) {
    const Node& node = *reference.steps[i].node;
    later.insert(node.name);
    for (const NodeInput& input : node.inputs) {
      if (!input.is_constant() && !later.contains(input.node)) read.insert(value_name(input));
    }
  }
  return {read.begin(), read.end()};
}

std::unique_ptr<EngineStep> deferred_plan(DeferredSteps steps) {
  return std::make_unique<DeferredPlan>(std::move(steps));
}

}  // namespace detent
