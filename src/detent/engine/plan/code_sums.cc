#include <algorithm>

#include <fmt/format.h>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr size_t kZero = 2;
constexpr size_t kOwnBias = 4;

std::optional<CodeOperator> code_operator(const ReferenceStep& step) {
  if (step.role != OperatorRole::kComputes || step.rounds != nullptr) return std::nullopt;
  const FloatOperator* const found = find_float_operator(step.node->op);
  return found == nullptr ? std::nullopt : found->codes;
}

bool is_known_tensor(const ValueTypes& values, const std::string& value) {
  const Operand& operand = values.at(value);
  return operand.is_tensor() && !operand.is_open() && !operand.shape.empty() &&
         element_count(operand.shape) > 0;
}

/// Whether an operand is one number, or has one for each channel of a result.
bool is_by_channel(const ValueTypes& values, const NodeInput& input, DType dtype, const Shape& result,
                   const PackedCodeSums& packed) {
  double scratch = 0;
  if (input.is_constant())
    return dtype == DType::kInt32 ? input.constant.get_if<int64_t>() != nullptr
                                  : input.constant.number(scratch) != nullptr;
  const Operand& operand = values.at(value_name(input));
  if (!operand.is_tensor() || operand.is_open() || operand.dtype != dtype) return false;
  if (operand.shape.size() > result.size()) return false;
  if (element_count(operand.shape) == 1) return true;
  const size_t axis = packed.is_linear ? result.size() - 1 : 1;
  const size_t first = result.size() - operand.shape.size();
  return axis >= first && operand.shape[axis - first] == packed.channels &&
         element_count(operand.shape) == packed.channels;
}

/// The operand of a pair beside `value`.
const NodeInput& other_operand(const Node& pair, const std::string& value) {
  const bool is_first = !pair.inputs[0].is_constant() && value_name(pair.inputs[0]) == value;
  return pair.inputs[is_first ? 1 : 0];
}

/// The chain of a node that only one reads, and that stays on its channels.
class ChainOfCodes {
 public:
  ChainOfCodes(std::span<const ReferenceStep> steps, const ValueTypes& values, const ValueReaders& readers,
               const ShownValues& shown, const std::set<size_t>& taken)
      : steps_(steps), values_(values), readers_(readers), shown_(shown), taken_(taken) {}

  std::optional<CodeChain> of(size_t layer, const PackedCodeSums& packed) const {
    if (!reads_bytes(*steps_[layer].node, packed)) return std::nullopt;
    CodeChain chain{.layer = layer, .last = layer};
    const auto bias = next(layer, PairOperation::kAdd, DType::kInt32, packed);
    const auto conversion = converted(bias.value_or(layer));
    if (!conversion) {
      // A float holds no larger integers.
      constexpr int64_t kLargest = int64_t{1} << 24;
      const bool is_exact = packed.bound <= kLargest && !is_given(*steps_[layer].node, kOwnBias);
      return is_exact ? std::optional(chain) : std::nullopt;
    }
    chain.bias = bias;
    chain.conversion = conversion;
    if (!steps_[*conversion].outputs[0])
      chain.scaling = next(*conversion, PairOperation::kMul, DType::kFloat32, packed);
    chain.last = chain.scaling.value_or(*conversion);
    return chain;
  }

 private:
  bool reads_bytes(const Node& node, const PackedCodeSums& packed) const {
    if (node.inputs[0].is_constant()) return false;
    const std::string codes = value_name(node.inputs[0]);
    if (!is_known_tensor(values_, codes) || !is_known_tensor(values_, value_name(node.name))) return false;
    const Operand& operand = values_.at(codes);
    const size_t rank = values_.at(value_name(node.name)).shape.size();
    const bool is_zero_one = !is_given(node, kZero) || node.inputs[kZero].is_constant() ||
                             element_count(values_.at(value_name(node.inputs[kZero])).shape) == 1;
    return (operand.dtype == DType::kUInt8 || operand.dtype == DType::kInt8) && is_zero_one && rank >= 2 &&
           operand.shape.size() == rank && (packed.is_linear || rank >= 3);
  }

  /// The only step that reads the result of one.
  std::optional<size_t> reader(size_t step) const {
    const std::string value = value_name(steps_[step].node->name);
    const auto reading = readers_.find(value);
    if (reading == readers_.end() || reading->second.size() != 1 || shown_.needs(value)) return std::nullopt;
    const size_t found = reading->second.front();
    const bool computes = steps_[found].role == OperatorRole::kComputes && steps_[found].rounds == nullptr;
    return computes && !taken_.contains(found) ? std::optional(found) : std::nullopt;
  }

  std::optional<size_t> converted(size_t step) const {
    const auto found = reader(step);
    if (!found || code_operator(steps_[*found]) != CodeOperator::kConversion) return std::nullopt;
    return values_.at(value_name(steps_[*found].node->name)).dtype == DType::kFloat32 ? found : std::nullopt;
  }

  /// An operation with numbers of the channels.
  std::optional<size_t> next(size_t step, PairOperation operation, DType dtype,
                             const PackedCodeSums& packed) const {
    const auto found = reader(step);
    if (!found) return std::nullopt;
    const ReferenceStep& pair = steps_[*found];
    const auto* computes = trait<PairOperation>(*pair.node);
    if (computes == nullptr || *computes != operation || pair.form) return std::nullopt;
    for (const std::optional<CodeType>& type : pair.inputs) {
      if (type) return std::nullopt;
    }
    const std::string value = value_name(steps_[step].node->name);
    const NodeInput& other = other_operand(*pair.node, value);
    const Shape& shape = values_.at(value).shape;
    if (values_.at(value_name(pair.node->name)).shape != shape) return std::nullopt;
    return is_by_channel(values_, other, dtype, shape, packed) ? found : std::nullopt;
  }

  std::span<const ReferenceStep> steps_;
  const ValueTypes& values_;
  const ValueReaders& readers_;
  const ShownValues& shown_;
  const std::set<size_t>& taken_;
};

RunNumber run_number(PlanBuilder& plan, const NodeInput& input) {
  if (input.is_absent()) return {};
  if (input.is_constant()) {
    double scratch = 0;
    return {.flow = {}, .number = *input.constant.number(scratch)};
  }
  return {.flow = plan.flow_of(value_name(input))};
}

/// The operand of the chain's step `pair` beside the result of step `before`.
RunNumber beside(PlanBuilder& plan, std::span<const ReferenceStep> steps, size_t pair, size_t before) {
  return run_number(plan, other_operand(*steps[pair].node, value_name(steps[before].node->name)));
}

CodeSums code_sums_of(PlanBuilder& plan, std::shared_ptr<const PackedCodeSums> packed,
                      std::span<const ReferenceStep> steps, const CodeChain& chain) {
  const Node& node = *steps[chain.layer].node;
  CodeSums sums{.packed = std::move(packed)};
  if (plan.types().at(value_name(node.inputs[0])).dtype == DType::kInt8) sums.low = -128;
  if (is_given(node, kZero)) sums.zero = run_number(plan, node.inputs[kZero]);
  if (is_given(node, kOwnBias)) sums.biases.push_back(run_number(plan, node.inputs[kOwnBias]));
  if (chain.bias) sums.biases.push_back(beside(plan, steps, *chain.bias, chain.layer));
  if (chain.scaling) sums.units.push_back(beside(plan, steps, *chain.scaling, *chain.conversion));
  return sums;
}

void note_flows(PlanBuilder& plan, const CodeSums& sums) {
  const auto note = [&](const RunNumber& number) {
    if (number.flow) plan.note_flow(*number.flow);
  };
  note(sums.zero);
  for (const RunNumber& bias : sums.biases) note(bias);
  for (const RunNumber& unit : sums.units) note(unit);
}

PlannedValue in_flow(PlanBuilder& plan, const std::string& name, size_t flow) {
  PlannedValue value = plan.new_value(name);
  value.flow = flow;
  value.flow_is_ready = true;
  return value;
}

}  // namespace

std::map<size_t, CodeChain> code_chains(std::span<const ReferenceStep> steps, const ProgramWeights& weights,
                                        const ValueTypes& values, const ShownValues& shown,
                                        const std::set<size_t>& taken) {
  if (weights.code_layers.empty()) return {};
  const ValueReaders readers = readers_of(steps);
  const ChainOfCodes chains(steps, values, readers, shown, taken);
  std::map<size_t, CodeChain> found;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto packed = weights.code_layers.find(steps[i].node->name);
    if (packed == weights.code_layers.end()) continue;
    if (const auto chain = chains.of(i, *packed->second)) found.emplace(chain->last, *chain);
  }
  return found;
}

std::map<size_t, Layout> dynamic_bytes(std::span<const ReferenceStep> steps, const ProgramWeights& weights,
                                       const std::map<size_t, CodeChain>& chains) {
  if (chains.empty()) return {};
  std::map<size_t, Layout> layouts;  // by the step that reads bytes
  for (const auto& [last, chain] : chains)
    layouts.emplace(chain.layer, weights.code_layers.at(steps[chain.layer].node->name)->layout());
  const ValueReaders readers = readers_of(steps);
  std::map<size_t, Layout> found;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (code_operator(steps[i]) != CodeOperator::kRange) continue;
    const std::string codes = value_name(steps[i].node->name);
    const auto reading = readers.find(codes);
    if (reading == readers.end()) continue;
    const auto first = layouts.find(reading->second.front());
    const bool is_alike = std::ranges::all_of(reading->second, [&](size_t reader) {
      const auto layout = layouts.find(reader);
      return layout != layouts.end() && layout->second == first->second &&
             value_name(steps[reader].node->inputs[0]) == codes;
    });
    if (is_alike) found.emplace(i, first->second);
  }
  return found;
}

bool plan_dynamic_bytes(PlanBuilder& plan, const ReferenceStep& step, Layout layout) {
  const Node& node = *step.node;
  if (node.inputs[0].is_constant() || !has_operand_values(plan, step, 0)) return false;
  const size_t from = operand_values(plan, step, 0, layout);
  const std::string codes = value_name(node.name);
  const size_t to = plan.add_place({.shape = plan.shape(codes), .layout = layout, .type = kIntegerBytes});
  const size_t scale = plan.new_flow();
  const size_t zero = plan.new_flow();
  plan.note_flow(scale);
  plan.note_flow(zero);
  plan.add(dynamic_bytes_step(plan.kernels(), plan.read(from), to, scale, zero), node.name,
           fmt::format("quantize {}", plan.kernels().name));
  PlannedValue bytes = plan.new_value(codes);
  bytes.places.push_back(to);
  plan.add_value(codes, std::move(bytes));
  for (const auto& [index, flow] : {std::pair{size_t{1}, scale}, std::pair{size_t{2}, zero}}) {
    const std::string name = value_name(node.name, index);
    plan.add_value(name, in_flow(plan, name, flow));
  }
  return true;
}

void plan_code_chain(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                     const CodeChain& chain) {
  const Node& node = *steps[chain.layer].node;
  const auto packed = weights.code_layers.at(node.name);
  const std::string result = value_name(steps[chain.last].node->name);
  const PackedSums& first = packed->sums;
  SumsLayer layer{.packed = std::shared_ptr<const PackedSums>(packed, &first),
                  .finish = first.finish,
                  .input = 0,
                  .output = 0,
                  .follow_ups = {},
                  .codes = code_sums_of(plan, packed, steps, chain)};
  layer.input = plan.integer_bytes(value_name(node.inputs[0]), layer.codes->low, packed->layout(), node);
  layer.output = plan.add_values_place(result, packed->layout());
  if (!packed->is_linear)
    layer.input = plan.with_border(
        layer.input, first.window.halo(plan.place(layer.input), plan.place(layer.output)), node);
  plan.read(layer.input);
  plan.read(layer.output);
  note_flows(plan, *layer.codes);
  std::string names = node.name;
  for (const std::optional<size_t>& step : {chain.bias, chain.conversion, chain.scaling}) {
    if (step) names += ", " + steps[*step].node->name;
  }
  const char* kind = first.depthwise ? "depthwise" : packed->is_linear ? "linear" : "convolution";
  const size_t output = layer.output;
  plan.add(sums_step(std::move(layer)), names, fmt::format("{} {}", kind, plan.kernels().name)).products =
      static_cast<double>(element_count(plan.shape(result))) * static_cast<double>(packed->depth);
  if (chain.conversion) return set_values(plan, steps[chain.last], output, result);
  const size_t flow = plan.new_flow();
  plan.note_flow(flow);
  plan.add(integers_of_values(plan.read(output), flow), node.name, "row-major copy");
  plan.add_value(result, in_flow(plan, result, flow));
}

}  // namespace detent
