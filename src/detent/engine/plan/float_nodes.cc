#include <algorithm>
#include <map>
#include <set>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/float32/float_node.h"
#include "detent/graph/traits.h"
#include "detent/integer/pooling.h"

// Nodes that compute in float32: layers by kernels that follow the order of float32/sums.h, with the norms,
// clamps and additions behind them; of others those whose inputs already lie channels last.

namespace detent {
namespace {

bool takes_values(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  return step.role == OperatorRole::kComputes && !step.form && result_count(*step.node) == 1 &&
         !rounds_without_codes(*step.node) && std::ranges::none_of(step.inputs, is_set) &&
         std::ranges::none_of(step.outputs, is_set);
}

bool is_addition(const Node& node) {
  const auto* pair = trait<PairOperation>(node);
  return pair != nullptr && *pair == PairOperation::kAdd && !node.inputs[0].is_constant() &&
         !node.inputs[1].is_constant();
}

SumsEnd clamped(SumsEnd end, const Clamp& clamp) {
  end.clamps = true;
  end.low = static_cast<float>(clamp.low);
  end.high = static_cast<float>(clamp.high);
  return end;
}

/// Which node may still follow.
struct Chain {
  bool normalizes = false;
  bool clamps = false;
  bool adds = false;
  bool clamps_sum = false;

  /// `by_channel`: values lie with their channels last.
  bool take(const ReferenceStep& step, bool by_channel, const ValueTypes& values) {
    const Node& node = *step.node;
    if (!takes_values(step)) return false;
    if (is_batch_norm(node) && find_float_operator(node.op) != nullptr) {
      if (normalizes || clamps || adds || !by_channel) return false;
      return normalizes = true;
    }
    if (clamp_of(node) != nullptr) {
      bool& taken = adds ? clamps_sum : clamps;
      return !taken && (taken = true);
    }
    if (!is_addition(node) || adds) return false;
    const std::string a = value_name(node.inputs[0]);
    const std::string b = value_name(node.inputs[1]);
    if (a == b || values.at(a).shape != values.at(b).shape) return false;
    return adds = true;
  }
};

/// Adds what a node computes. `value` is the operand that is there.
void add_follow_up(PlanBuilder& plan, const Node& node, const std::string& value, Layout layout,
                   FloatFollowUps& follow_ups) {
  if (is_batch_norm(node)) {
    follow_ups.map = std::make_shared<const FloatChannelMap>(float_channel_map(node));
  } else if (const Clamp* clamp = clamp_of(node)) {
    SumsEnd& end = follow_ups.other ? follow_ups.last : follow_ups.end;
    end = clamped(end, *clamp);
  } else {
    const bool is_first = value_name(node.inputs[0]) == value;
    follow_ups.other = plan.values_of(value_name(node.inputs[is_first ? 1 : 0]), layout, node);
  }
}

bool has_channels_last(const ValueTypes& values, const Node& layer, const std::string& value) {
  return trait<WeightedSum>(layer)->spatial_dims > 0 || values.at(value).shape.size() == 2;
}

bool plan_pooled(PlanBuilder& plan, const Node& node, const std::string& result) {
  const std::string input = value_name(node.inputs[0]);
  const bool largest = is_pooling(node, Pooling::Of::kLargest);
  if ((!largest && !is_pooling(node, Pooling::Of::kMean)) || !plan.may_be_pooled(input)) return false;
  PoolingWindows windows = pooling_windows(node, plan.shape(input));
  if (!have_elements(windows)) return false;
  const size_t from = plan.values_of(input, Layout::kChannelsLast, node);
  const size_t to = plan.add_values_place(result, Layout::kChannelsLast);
  const auto make = largest ? largest_values_step : mean_values_step;
  plan.add(make(std::move(windows), plan.read(from), to), node.name,
           largest ? "largest float" : "mean float");
  plan.set_place(result, to);
  return true;
}

bool plan_element(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                  const std::string& result) {
  const Node& node = *step.node;
  const std::string input = value_name(node.inputs[0]);
  const size_t from = plan.values_of(input, std::nullopt, node);
  const Layout layout = plan.place(from).layout;
  const bool by_channel = layout == Layout::kChannelsLast || plan.shape(input).size() == 2;
  if (!Chain().take(step, by_channel, values)) return false;
  FloatFollowUps follow_ups;
  add_follow_up(plan, node, input, layout, follow_ups);
  const size_t to = plan.add_values_place(result, layout);
  plan.read(from);
  if (follow_ups.other) plan.read(*follow_ups.other);
  plan.add(float_elements_step(std::move(follow_ups), from, to), node.name, "elements float");
  plan.set_place(result, to);
  return true;
}

/// Concatenations and their like, and views.
bool plan_movement(PlanBuilder& plan, const Node& node, const std::string& result) {
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr) return false;
  if (movement->is_view()) {
    const size_t from = plan.values_of(value_name(node.inputs[0]), std::nullopt, node);
    if (plan.place(from).layout == Layout::kRows) return false;  // a flow costs no copy
    const size_t to = plan.add_values_place(result, Layout::kRows);
    plan.add(copy_step(plan.read(from), to), node.name, "copy");
    plan.set_place(result, to);
    return true;
  }
  constexpr int64_t kMostElements = int64_t{1} << 22;  // whose places are noted one by one
  if (!movement->copies || element_count(plan.shape(result)) > kMostElements) return false;
  MovedInputs moved;
  std::vector<Shape> shapes;
  std::optional<Layout> layout;
  for (const NodeInput& input : node.inputs) {
    if (input.is_constant() || !plan.is_tensor(value_name(input))) continue;
    if (!plan.has_values(value_name(input))) return false;
    shapes.push_back(plan.shape(value_name(input)));
    moved.places.push_back(plan.values_of(value_name(input), std::nullopt, node));
    if (!layout) layout = plan.place(moved.places.back()).layout;
  }
  if (!plan.has_positions(result)) layout = Layout::kRows;
  moved.copies = movement->copies(node, shapes, plan.shape(result));
  for (const size_t place : moved.places) plan.read(place);
  const size_t to = plan.add_values_place(result, *layout);
  plan.add(movement_step(std::move(moved), to), node.name, "moved values");
  plan.set_place(result, to);
  return true;
}

}  // namespace

std::map<size_t, std::vector<size_t>> fused_float_layers(std::span<const ReferenceStep> steps,
                                                         std::span<const size_t> layers,
                                                         const ValueTypes& values) {
  const ValueReaders readers = readers_of(steps);
  std::set<size_t> taken;
  std::map<size_t, std::vector<size_t>> fused;
  for (const size_t layer : layers) {
    std::vector<size_t> found = {layer};
    Chain chain;
    while (!steps[layer].outputs[0]) {
      const std::string value = value_name(steps[found.back()].node->name);
      const auto reading = readers.find(value);
      if (reading == readers.end() || reading->second.size() != 1) break;
      const size_t next = reading->second.front();
      const bool by_channel = has_channels_last(values, *steps[layer].node, value);
      if (taken.contains(next) || !chain.take(steps[next], by_channel, values)) break;
      taken.insert(next);
      found.push_back(next);
    }
    const size_t last = found.back();
    fused.emplace(last, std::move(found));
  }
  return fused;
}

void plan_float_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                      std::span<const size_t> fused) {
  const Node& node = *steps[fused.front()].node;
  const auto packed = weights.float_layers.find(node.name)->second;
  const std::string result = value_name(steps[fused.back()].node->name);
  const Layout layout = packed->is_linear ? Layout::kRows : Layout::kChannelsLast;
  FloatSumsLayer layer{.packed = packed, .follow_ups = {}, .input = 0, .output = 0};
  const std::string input = value_name(node.inputs[0]);
  const std::optional<CodeType>& codes = steps[fused.front()].inputs[0];
  layer.input =
      codes ? plan.values_of_codes(input, *codes, layout, node) : plan.values_of(input, layout, node);
  std::string names = node.name;
  std::string value = value_name(node.name);
  for (const size_t index : fused.subspan(1)) {
    const Node& next = *steps[index].node;
    names += ", " + next.name;
    add_follow_up(plan, next, value, layout, layer.follow_ups);
    value = value_name(next.name);
  }
  layer.output = plan.add_values_place(result, layout);
  const Place& out = plan.place(layer.output);
  Place& in = plan.place(plan.read(layer.input));
  if (!packed->is_linear) in.halo.cover(packed->window.halo(in, out.depth(), out.height(), out.width()));
  if (layer.follow_ups.other) plan.read(*layer.follow_ups.other);
  const size_t output = layer.output;
  const char* kind = packed->depthwise ? "depthwise" : packed->is_linear ? "linear" : "convolution";
  plan.add(float_sums_step(std::move(layer)), names, std::string(kind) + " float").products =
      static_cast<double>(element_count(plan.shape(result))) * static_cast<double>(packed->depth());
  if (const auto& type = steps[fused.back()].outputs[0]) {
    plan_rounded(plan, output, *type, node, result);
  } else {
    plan.set_place(result, output);
  }
}

bool plan_values(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                 const std::string& result) {
  const Node& node = *step.node;
  if (!takes_values(step) || node.inputs.empty() || node.inputs[0].is_constant()) return false;
  if (!plan.has_values(value_name(node.inputs[0]))) return false;
  return plan_pooled(plan, node, result) || plan_element(plan, step, values, result) ||
         plan_movement(plan, node, result);
}

}  // namespace detent
