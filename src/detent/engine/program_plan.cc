#include "detent/engine/program_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "detent/core/convert.h"
#include "detent/engine/deferred_plan.h"
#include "detent/engine/fusion.h"
#include "detent/engine/place.h"
#include "detent/engine/plan/plan_nodes.h"
#include "detent/engine/plan/tree_walks.h"
#include "detent/engine/row_layer.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"

namespace detent {
namespace {

class Planner {
 public:
  Planner(const ProgramParts& program, const PlannedSteps& planned, const ValueTypes& types,
          const Observation& observation)
      : program_(program),
        observation_(observation),
        first_(planned.first),
        end_(open_layer(program, planned.first, types)),
        steps_(std::span(program.reference.steps).subspan(first_, end_ - first_)),
        types_(types),
        weights_(program.weights),
        in_float_(program.reference.in_float.get()),
        shown_(program.reference, observation),
        plan_(types, program.kernels) {
    for (const EarlierValue& value : planned.values) add_earlier(value);
    later_ = values_between(program.reference, end_);
    for (const std::string& value : later_) shown_.need(value);
    find_fused();
  }

  ProgramPlan planned() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const ShownValue& shown : shown_.inputs_of(first_ + i)) show(steps_[i], shown);
      plan_step(i);
      for (const ShownValue& shown : shown_.results_of(first_ + i)) show(steps_[i], shown);
    }
    if (end_ < program_.reference.steps.size()) defer_rest();
    return plan_.finished();
  }

 private:
  void find_fused() {
    std::vector<size_t> fast;
    std::vector<size_t> fast_in_float;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (takes_layer(steps_[i], weights_.layers) || takes_layer(steps_[i], weights_.block_layers))
        fast.push_back(i);
      if (takes_layer(steps_[i], weights_.float_layers)) fast_in_float.push_back(i);
    }
    fused_ = fused_layers(steps_, fast, types_, shown_);
    fused_in_float_ = fused_float_layers(steps_, fast_in_float, types_, shown_);
    for (const auto& [last, layer] : fused_) inner_.insert(layer.steps.begin(), layer.steps.end() - 1);
    for (const auto& [last, layer] : fused_in_float_) inner_.insert(layer.begin(), layer.end() - 1);
    pads_ = folded_pads(steps_, fast_in_float, types_, shown_);
    const std::map<size_t, size_t> code_pads = folded_code_pads(steps_, fast, types_, shown_);
    for (auto& [last, layer] : fused_) {
      const auto pad = code_pads.find(layer.steps.front());
      if (pad != code_pads.end()) inner_.insert(*(layer.pad = pad->second));
    }
    for (const auto& [layer, pad] : pads_) inner_.insert(pad);
    std::set<size_t> taken = inner_;
    for (const auto& [last, layer] : fused_) taken.insert(last);
    for (const auto& [last, layer] : fused_in_float_) taken.insert(last);
    code_chains_ = code_chains(steps_, weights_, types_, shown_, taken);
    for (const auto& [last, chain] : code_chains_) {
      for (const std::optional<size_t>& step : {std::optional(chain.layer), chain.bias, chain.conversion}) {
        if (step && *step != last) inner_.insert(*step);
      }
    }
    comparisons_ = counted_comparisons(steps_, types_, shown_);
    for (const auto& [conversion, comparison] : comparisons_) inner_.insert(comparison);
    walks_ = tree_walks(steps_, types_, shown_);
    for (const auto& [last, walk] : walks_) inner_.insert(walk.steps.begin(), walk.steps.end() - 1);
    dynamic_bytes_ = dynamic_bytes(steps_, weights_, code_chains_);
    std::erase_if(dynamic_bytes_, [&](const auto& found) {
      return shown_.needs(value_name(steps_[found.first].node->name));
    });
  }

  void add_earlier(const EarlierValue& earlier) {
    PlannedValue value = plan_.new_value(earlier.name);
    value.type = earlier.type;
    value.known = earlier.known;
    if (!earlier.known) {
      value.flow = plan_.new_flow();
      value.flow_is_ready = true;
      plan_.add_taken_input(value.flow);
    }
    plan_.add_value(earlier.name, std::move(value));
  }

  /// The steps from `end_` on are planned in the run: their values are the plan's outputs.
  void defer_rest() {
    DeferredSteps rest{.program = program_, .observation = observation_, .first = end_};
    for (const std::string& name : later_) {
      const PlannedValue& value = plan_.value(name);
      rest.types[name] = types_.at(name);
      if (value.known) {
        rest.known.push_back({name, value.type, value.known});
      } else {
        rest.values.emplace_back(name, plan_.flow_of(name));
      }
    }
    for (const auto& [name, flow] : rest.values) plan_.note_flow(flow);
    for (size_t i = 0; i < program_.reference.steps.back().node->inputs.size(); ++i) {
      rest.outputs.push_back(plan_.new_flow());
      plan_.add_output(rest.outputs.back());
    }
    plan_.add(deferred_plan(std::move(rest)), program_.reference.steps[end_].node->name,
              "planned in the run");
  }

  void plan_step(size_t i) {
    const ReferenceStep& step = steps_[i];
    if (inner_.contains(i)) return;
    const auto layer = fused_.find(i);
    const auto layer_in_float = fused_in_float_.find(i);
    if (layer != fused_.end()) {
      const bool has_blocks = weights_.block_layers.contains(steps_[layer->second.steps[0]].node->name);
      (has_blocks ? plan_blocks : plan_layer)(plan_, weights_, steps_, layer->second);
    } else if (layer_in_float != fused_in_float_.end()) {
      const auto pad = pads_.find(layer_in_float->second.front());
      plan_float_layer(plan_, weights_, steps_, layer_in_float->second,
                       pad == pads_.end() ? nullptr : &steps_[pad->second]);
    } else if (const auto chain = code_chains_.find(i); chain != code_chains_.end()) {
      plan_code_chain(plan_, weights_, steps_, chain->second);
    } else if (const auto walk = walks_.find(i); walk != walks_.end()) {
      plan_tree_walk(plan_, steps_, walk->second);
    } else if (step.role == OperatorRole::kInput) {
      plan_input(step);
    } else if (step.role == OperatorRole::kOutput) {
      for (const NodeInput& input : step.node->inputs) plan_.add_output(plan_.flow_of(value_name(input)));
    } else if (step.rounds != nullptr) {
      if (!plan_rounding(plan_, step, value_name(step.node->name))) plan_reference(step);
    } else if (const auto counted = comparisons_.find(i); counted != comparisons_.end()) {
      const ReferenceStep& comparison = steps_[counted->second];
      if (plan_counted(plan_, comparison, step)) return;
      plan_reference(comparison);
      plan_reference(step);
    } else if (const auto bytes = dynamic_bytes_.find(i); bytes != dynamic_bytes_.end()) {
      if (!plan_dynamic_bytes(plan_, step, bytes->second)) plan_reference(step);
    } else if (!plan_known(step) && !plan_integer_codes(plan_, step, value_name(step.node->name)) &&
               !plan_recurrent(plan_, weights_, step) && !plan_places(step)) {
      plan_reference(step);
    }
  }

  /// Only what is float32 is shown.
  void show(const ReferenceStep& step, const ShownValue& shown) {
    if (!plan_.is_float(shown.value)) return;
    if (shown.unrounded && step.role == OperatorRole::kInput) {
      show_flow(shown, input_flows_.at(shown.value));
    } else if (shown.unrounded) {
      std::vector<size_t> inputs = input_flows(*step.node);
      plan_.add(show_unrounded_step(computed(step), in_float_, std::move(inputs), *shown.unrounded),
                shown.node->name, "shown");
    } else if (const auto place = observation_.in_any_order && !shown.type
                                      ? plan_.place_before_flow(shown.value)
                                      : std::nullopt) {
      plan_.add(show_place_step(*shown.node, shown.operand, plan_.read(*place)), shown.node->name, "shown");
    } else {
      show_flow(shown, plan_.flow_of(shown.value));
    }
  }

  void show_flow(const ShownValue& shown, size_t flow) {
    plan_.note_flow(flow);
    plan_.add(show_step(*shown.node, shown.operand, shown.type, flow), shown.node->name, "shown");
  }

  /// Flows of the node's inputs, for the step that is added next.
  std::vector<size_t> input_flows(const Node& node) {
    std::vector<size_t> inputs;
    for (const NodeInput& input : node.inputs)
      inputs.push_back(input.is_constant() ? kNoFlow : plan_.flow_of(value_name(input)));
    for (const size_t flow : inputs) {
      if (flow != kNoFlow) plan_.note_flow(flow);
    }
    return inputs;
  }

  /// With the weights that its form has lost.
  std::shared_ptr<const ReferenceStep> computed(const ReferenceStep& step) const {
    return weights_.contain(step.node->name)
               ? std::make_shared<const ReferenceStep>(with_weights(step, weights_))
               : std::shared_ptr<const ReferenceStep>(std::shared_ptr<void>(), &step);
  }

  template <class Layers>
  bool takes_layer(const ReferenceStep& step, const Layers& packed) const {
    if (!packed.contains(step.node->name)) return false;
    const std::string input = value_name(step.node->inputs[0]);
    if (!plan_.is_placeable(input) || !plan_.is_placeable(value_name(step.node->name))) return false;
    const size_t dims = trait<WeightedSum>(*step.node)->spatial_dims;
    return dims == 0 || plan_.shape(input).size() == dims + 2;
  }

  void plan_input(const ReferenceStep& step) {
    const std::string name = value_name(step.node->name);
    PlannedValue value = plan_.new_value(name);
    value.flow = plan_.new_flow();
    plan_.add_input(value.flow);
    input_flows_.emplace(name, value.flow);
    const std::optional<CodeType>& type = step.outputs[0];
    value.type = type;
    value.flow_is_ready = !type || !(fits_bytes(*type) || is_wide(*type));
    if (!value.flow_is_ready) value.quantizer = step.node;
    if (type && value.flow_is_ready) {
      const size_t codes = plan_.new_flow();
      plan_.note_flow(codes);
      plan_.add(convert_flow(*step.node, *type, value.flow, codes), name, "reference",
                "codes of more than 8 bits");
      value.flow = codes;
    }
    plan_.add_value(name, std::move(value));
  }

  /// Tensors that the graph owns, in the type of codes that they have, and integers that follow from shapes
  /// and constants, such as the sizes that networks reshape to.
  bool plan_known(const ReferenceStep& step) {
    if (step.role == OperatorRole::kConstant) {
      add_known(step, 0, reference_results(step, {}, in_float_).front());
      return true;
    }
    if (follows_from_known(step)) {
      std::vector<Flow> inputs;
      for (const NodeInput& input : step.node->inputs)
        inputs.push_back(input.is_constant() ? constant_flow(input) : *plan_.value(value_name(input)).known);
      const std::vector<Flow> results = reference_results(step, inputs, in_float_);
      for (size_t i = 0; i < results.size(); ++i) add_known(step, i, results[i]);
      return true;
    }
    std::vector<Tensor> known;
    for (size_t i = 0; i < result_count(*step.node); ++i) {
      const Operand& result = types_.at(value_name(step.node->name, i));
      if (!result.is_tensor() || is_floating_point(result.dtype) || !result.elements) return false;
      known.push_back(*result.elements);
    }
    for (size_t i = 0; i < known.size(); ++i) add_known(step, i, {known[i]});
    return true;
  }

  /// Whether the node computes on floats that each run has, such as the position biases of an attention, and
  /// its results are small enough to be kept. Views cost nothing, and tensors that large take more memory
  /// than time.
  bool follows_from_known(const ReferenceStep& step) {
    constexpr int64_t kMostBytes = int64_t{16} << 20;  // of a plan
    const Node& node = *step.node;
    const bool computes = step.role == OperatorRole::kComputes && step.body == nullptr && !step.form &&
                          step.rounds == nullptr && step.engine != NodeEngine::kGiven &&
                          !find_operator(node.op).random && !accumulator_of(node) && !node.inputs.empty();
    const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
    if (!computes || std::ranges::any_of(step.inputs, is_set) || std::ranges::any_of(step.outputs, is_set))
      return false;
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant() || input.is_absent()) continue;
      const std::optional<Flow>& known = plan_.value(value_name(input)).known;
      if (!known || !known->is_tensor() || known->type) return false;
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < result_count(node); ++i) {
      const Operand& result = types_.at(value_name(node.name, i));
      if (!result.is_tensor() || result.is_open() || shown_.needs(value_name(node.name, i))) return false;
      bytes += element_count(result.shape) * static_cast<int64_t>(dtype_size(result.dtype));
    }
    if (bytes > kMostBytes - known_bytes_) return false;
    known_bytes_ += bytes;
    return true;
  }

  void add_known(const ReferenceStep& step, size_t result, Flow flow) {
    const std::string name = value_name(step.node->name, result);
    PlannedValue value = plan_.new_value(name);
    value.type = flow.type;
    value.known = std::move(flow);
    plan_.add_value(name, std::move(value));
  }

  /// A node other than a layer, on bytes or values in places; false where there is no kernel for it. What
  /// moves elements may take sizes too.
  bool plan_places(const ReferenceStep& step) {
    if (step.role != OperatorRole::kComputes) return false;
    if (result_count(*step.node) != 1) return plan_parts(plan_, step);
    const std::string result = value_name(step.node->name);
    if (!plan_.is_placeable(result)) return false;
    const std::vector<std::string>& indices = find_operator(step.node->op).index_operands;
    const FloatOperator* const computed = find_float_operator(step.node->op);
    const bool takes_known =
        computed != nullptr && (computed->resampled != nullptr || computed->reduction != nullptr);
    for (size_t i = 0; i < step.node->inputs.size(); ++i) {
      const NodeInput& input = step.node->inputs[i];
      if (input.is_constant() || plan_.is_placeable(value_name(input))) continue;
      if (i > 0 && takes_known && plan_.value(value_name(input)).known) continue;
      const bool is_index = std::ranges::find(indices, fmt::format("data_in_{}", i)) != indices.end();
      if (step.engine != NodeEngine::kMoves || (plan_.is_tensor(value_name(input)) && !is_index))
        return false;
    }
    return plan_transposed(plan_, weights_, step, result) || plan_joined(plan_, step, result) ||
           plan_wide(plan_, step, result) || plan_table(plan_, step, result) ||
           plan_pairs(plan_, weights_, step, result) || plan_product(plan_, step, result) ||
           plan_mean(plan_, step, result) || plan_moved(plan_, step, result) ||
           plan_transposed_floats(plan_, weights_, step, result) || plan_values(plan_, step, types_, result);
  }

  void plan_reference(const ReferenceStep& step) {
    const Node& node = *step.node;
    std::vector<size_t> inputs = input_flows(node);
    std::vector<size_t> results;
    for (size_t i = 0; i < result_count(node); ++i) {
      const std::string name = value_name(node.name, i);
      PlannedValue value = plan_.new_value(name);
      value.flow = plan_.new_flow();
      value.flow_is_ready = true;
      plan_.note_flow(value.flow);
      results.push_back(value.flow);
      value.type = result_type(step, i);
      plan_.add_value(name, std::move(value));
    }
    if (const auto layer = open_rows(step)) {
      plan_.add(row_layer_step(step, layer, inputs[0], results[0]), node.name, "linear of open rows");
      return;
    }
    const char* kernel = step.body != nullptr                ? "loop"
                         : step.engine == NodeEngine::kFloat ? "float"
                                                             : "reference";
    plan_.add(reference_step(computed(step), in_float_, std::move(inputs), std::move(results),
                             known_movement(node)),
              node.name, kernel, why_reference(step));
  }

  /// nullopt where the node computes, or shapes depend on values.
  std::optional<KnownMovement> known_movement(const Node& node) const {
    if (trait<Movement>(node) == nullptr || result_count(node) != 1 ||
        !find_operator(node.op).index_operands.empty())
      return std::nullopt;
    const Operand& result = types_.at(value_name(node.name));
    KnownMovement known{
        .inputs = {}, .shapes = {}, .result = result.shape, .is_view = is_view(node), .copies = {}};
    bool is_open = result.is_open();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      const Operand& operand = types_.at(value_name(node.inputs[i]));
      is_open = is_open || operand.is_open() || !operand.is_tensor();
      known.inputs.push_back(i);
      known.shapes.push_back(operand.shape);
    }
    if (is_open || known.inputs.empty()) return std::nullopt;
    known.copies = movement_copies(node, known.shapes, known.result);
    return known;
  }

  /// A linear layer on rows of which only a run knows how many there are; null where there is none.
  std::shared_ptr<const RowLayer> open_rows(const ReferenceStep& step) const {
    if (step.rounds != nullptr || !types_.at(value_name(step.node->name)).is_open()) return nullptr;
    return step.node->inputs[0].is_constant() ? nullptr : packed_row_layer(step, weights_);
  }

  /// Type of a result of the reference.
  std::optional<CodeType> result_type(const ReferenceStep& step, size_t index) const {
    if (step.outputs[index]) return step.outputs[index];
    if (step.form || step.engine != NodeEngine::kMoves) return std::nullopt;
    std::optional<CodeType> common;
    bool is_first = true;
    for (size_t i = 0; i < step.node->inputs.size(); ++i) {
      if (step.node->inputs[i].is_constant()) continue;
      const std::string name = value_name(step.node->inputs[i]);
      const Operand& operand = types_.at(name);
      if (!operand.is_tensor() || operand.dtype != DType::kFloat32) continue;
      std::optional<CodeType> type = step.inputs[i] ? step.inputs[i] : plan_.value(name).type;
      if (!is_first && common != type) return std::nullopt;
      is_first = false;
      common = type;
    }
    return common ? std::optional(moved_type(*step.node, *common)) : std::nullopt;
  }

  std::string why_reference(const ReferenceStep& step) const {
    if (step.role != OperatorRole::kComputes || step.rounds != nullptr) return "";
    if (step.engine == NodeEngine::kFloat) return "computes in float";
    if (weights_.contain(step.node->name)) return "its rank";
    if (trait<TableLayer>(*step.node) != nullptr) return "truth tables";
    if (!step.form) return "no kernel moves elements so";
    if (const auto* sums = std::get_if<SumForm>(&*step.form)) return why_not_packed(*sums, *step.node);
    if (const auto* blocks = std::get_if<BlockSumForm>(&*step.form))
      return why_not_packed(*blocks, *step.node);
    if (const auto* product = std::get_if<ProductForm>(&*step.form)) {
      const auto shape = [&](size_t i) { return plan_.shape(value_name(step.node->inputs[i])); };
      return why_not_multiplied(*product, shape(0), shape(1));
    }
    return std::holds_alternative<AverageForm>(*step.form) ? "a mean of these codes or windows"
                                                           : "codes of more than 8 bits";
  }

  const ProgramParts program_;
  const Observation& observation_;
  const size_t first_;
  const size_t end_;
  std::span<const ReferenceStep> steps_;  // from `first_` to `end_`
  const ValueTypes& types_;
  const ProgramWeights& weights_;
  const FloatNodes* in_float_;
  ShownValues shown_;
  std::map<std::string, size_t> input_flows_;  // as they come
  PlanBuilder plan_;
  std::map<size_t, FusedLayer> fused_;
  std::map<size_t, std::vector<size_t>> fused_in_float_;
  std::map<size_t, size_t> pads_;  // by the layer that reads what they give
  std::map<size_t, CodeChain> code_chains_;
  std::map<size_t, size_t> comparisons_;
  std::map<size_t, TreeWalk> walks_;
  std::map<size_t, Layout> dynamic_bytes_;
  std::vector<std::string> later_;  // values that the steps from `end_` on read
  std::set<size_t> inner_;          // steps that a later one computes
  int64_t known_bytes_ = 0;         // of results that the plan computed
};

}  // namespace

ReferenceStep with_weights(const ReferenceStep& step, const ProgramWeights& weights) {
  ReferenceStep result = step;
  const auto layer = weights.layers.find(step.node->name);
  const auto transposed = weights.transposed_layers.find(step.node->name);
  const auto blocks = weights.block_layers.find(step.node->name);
  if (layer != weights.layers.end()) {
    auto& form = std::get<SumForm>(*result.form);
    form.weight = unpacked_weights(*layer->second, form.weight.shape());
  } else if (transposed != weights.transposed_layers.end()) {
    auto& form = std::get<SumForm>(*result.form);
    form.weight = unpacked_weights(*transposed->second, *step.node, form.weight.shape());
  } else if (blocks != weights.block_layers.end()) {
    std::get<BlockSumForm>(*result.form).weight = blocks->second->unpacked();
  }
  return result;
}

ProgramPlan plan_program(const ProgramParts& program, const PlannedSteps& steps, const ValueTypes& types,
                         const Observation& observation) {
  return Planner(program, steps, types, observation).planned();
}

std::string why_not_multiplied(const ProductForm& form, const Shape& a, const Shape& b) {
  if (a.size() < 2 || b.size() < 2) return "a product of vectors";
  if (!fits_bytes(form.a) || !fits_bytes(form.b)) return "inputs of more than 8 bits";
  if (form.output && !fits_bytes(*form.output)) return "results of more than 8 bits";
  if (!form.fits_depth(a.back())) return "sums beyond 32 bits";
  const float factor = form.output ? form.multiplier : form.scale;
  if (!std::isfinite(factor)) return "infinite scales";
  if (form.output && form.output->is_sign) {
    if (form.fixed) return "signs in fixed point";
    if (factor == 0) return "scales of 0";  // products with it have no sign
  }
  return "";
}

}  // namespace detent
