#include <algorithm>
#include <map>
#include <set>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/engine/plan/window_regions.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/windows.h"

// Nodes that compute in float32: layers by kernels that follow the order of kernels/sums.h, with the norms,
// clamps and additions after them; of others those whose inputs already lie channels last.

namespace detent {
namespace {

bool computes_in_float(const ReferenceStep& step) {
  return step.role == OperatorRole::kComputes && step.rounds == nullptr && !step.form &&
         result_count(*step.node) == 1;
}

bool takes_values(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  return computes_in_float(step) && std::ranges::none_of(step.inputs, is_set) &&
         std::ranges::none_of(step.outputs, is_set);
}

/// Codes that can be made of values in a place, and values of them.
bool has_values_in_places(const std::optional<CodeType>& type) {
  return !type || (!type->is_sign && (fits_bytes(*type) || is_wide(*type)));
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

/// The elementwise function of a node, if it computes nothing else.
std::optional<FloatRows> element_function(const Node& node, const Shape& shape) {
  const FloatOperator* const found = find_float_operator(node.op);
  if (found == nullptr || found->rows == nullptr || node.inputs[0].is_constant()) return std::nullopt;
  FloatRows rows{.function = {},
                 .parameters = std::make_shared<const NamedTensors>(rounded_parameters(node))};
  const std::optional<RowFunction> function = found->rows({node, {}, *rows.parameters}, shape);
  if (!function || function->row != 1) return std::nullopt;
  rows.function = *function;
  return rows;
}

/// How many zeros a node puts before the positions of each dimension after the channels, if it does nothing
/// else but put them around.
std::optional<std::vector<int64_t>> border_of(const Node& node, const ValueTypes& values) {
  const auto* movement = trait<Movement>(node);
  if (movement == nullptr || !movement->copies || movement->joins || node.inputs[0].is_constant())
    return std::nullopt;
  const Operand& input = values.at(value_name(node.inputs[0]));
  const Operand& result = values.at(value_name(node.name));
  const Shape& from = input.shape;
  const Shape& to = result.shape;
  if (!input.is_tensor() || input.is_open() || result.is_open() || from.size() != to.size() ||
      from.size() < 3)
    return std::nullopt;
  if (from[0] != to[0] || from[1] != to[1] || element_count(from) == 0) return std::nullopt;
  const std::vector<StridedCopy> copies = movement->copies(node, std::span(&from, 1), to);
  if (copies.size() != 1 || !copies[0].from.is_contiguous() || copies[0].from.offset != 0)
    return std::nullopt;
  const StridedView& inside = copies[0].to;
  if (inside.shape != from || inside.strides != StridedView::of(to).strides) return std::nullopt;
  std::vector<int64_t> border;
  int64_t offset = inside.offset;
  for (size_t d = 0; d < to.size(); ++d) {
    if (d >= 2) border.push_back(offset / inside.strides[d]);
    offset %= inside.strides[d];
  }
  return border;
}

void add_padding(WindowShape& window, const std::vector<int64_t>& border) {
  int64_t* const padding[] = {&window.padding_z, &window.padding_y, &window.padding_x};
  for (size_t d = 0; d < border.size(); ++d) *padding[3 - border.size() + d] += border[d];
}

/// Which node may still follow.
struct Chain {
  bool normalizes = false;
  bool clamps = false;
  bool maps = false;
  bool adds = false;
  bool clamps_sum = false;
  bool takes_functions = false;

  /// `by_channel`: values lie with their channels last.
  bool take(const ReferenceStep& step, bool by_channel, const ValueTypes& values) {
    const Node& node = *step.node;
    if (step.rounds != nullptr)
      return !adds && !maps && takes_functions && rounding_function(step) && (maps = true);
    if (!takes_values(step)) return false;
    if (is_batch_norm(node) && find_float_operator(node.op) != nullptr) {
      if (normalizes || clamps || maps || adds || !by_channel) return false;
      return normalizes = true;
    }
    if (clamp_of(node) != nullptr) {
      if (maps && !adds) return false;
      bool& taken = adds ? clamps_sum : clamps;
      return !taken && (taken = true);
    }
    if (adds) return false;
    if (!maps && takes_functions && element_function(node, values.at(value_name(node.name)).shape))
      return maps = true;
    if (!is_addition(node)) return false;
    const std::string a = value_name(node.inputs[0]);
    const std::string b = value_name(node.inputs[1]);
    if (a == b || values.at(a).shape != values.at(b).shape) return false;
    return adds = true;
  }
};

/// Adds what a node computes. `value` is the operand that is there.
void add_float_follow_up(PlanBuilder& plan, const ReferenceStep& step, const std::string& value,
                         Layout layout, FloatFollowUps& follow_ups) {
  const Node& node = *step.node;
  if (step.rounds != nullptr) {
    follow_ups.function = rounding_function(step);
  } else if (is_batch_norm(node)) {
    follow_ups.map = std::make_shared<const FloatChannelMap>(float_channel_map(node));
  } else if (const Clamp* clamp = clamp_of(node)) {
    SumsEnd& end = follow_ups.other ? follow_ups.last : follow_ups.end;
    end = clamped(end, *clamp);
  } else if (auto function = element_function(node, plan.shape(value))) {
    follow_ups.function = std::move(function);
  } else {
    const bool is_first = value_name(node.inputs[0]) == value;
    follow_ups.other = plan.values_of(value_name(node.inputs[is_first ? 1 : 0]), layout, node);
  }
}

bool has_channels_last(const ValueTypes& values, const Node& layer, const std::string& value) {
  return trait<WeightedSum>(layer)->spatial_dims > 0 || values.at(value).shape.size() == 2;
}

bool plan_pooled(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const std::string input = value_name(node.inputs[0]);
  const bool largest = is_pooling(node, Pooling::Of::kLargest);
  if ((!largest && !is_pooling(node, Pooling::Of::kMean)) || !plan.may_be_pooled(input)) return false;
  PoolingWindows windows = pooling_windows(node, plan.shape(input));
  if (!have_elements(windows)) return false;
  const size_t from = operand_values(plan, step, 0, Layout::kChannelsLast);
  const size_t to = plan.add_values_place(result, Layout::kChannelsLast);
  const auto make = largest ? largest_values_step : mean_values_step;
  plan.add(make(std::move(windows), plan.read(from), to), node.name,
           largest ? "largest float" : "mean float");
  set_values(plan, step, to, result);
  return true;
}

bool plan_element(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                  const std::string& result) {
  const Node& node = *step.node;
  const std::string input = value_name(node.inputs[0]);
  if (!Chain().take(step, true, values)) return false;
  const size_t from = plan.values_of(input, std::nullopt, node);
  const Layout layout = plan.place(from).layout;
  const bool by_channel = layout == Layout::kChannelsLast || plan.shape(input).size() == 2;
  if (!Chain().take(step, by_channel, values)) return false;
  FloatFollowUps follow_ups;
  add_float_follow_up(plan, step, input, layout, follow_ups);
  const size_t to = plan.add_values_place(result, layout);
  plan.read(from);
  if (follow_ups.other) plan.read(*follow_ups.other);
  plan.add(float_elements_step(std::move(follow_ups), from, to), node.name, "elements float");
  plan.set_place(result, to);
  return true;
}

/// A batch norm of or to codes.
bool plan_normalized_codes(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const bool has_positions = plan.may_be_pooled(result);
  if (!is_batch_norm(node) || find_float_operator(node.op) == nullptr) return false;
  if (!has_positions && plan.shape(result).size() != 2) return false;
  const size_t from =
      operand_values(plan, step, 0, has_positions ? std::optional(Layout::kChannelsLast) : std::nullopt);
  const size_t to = plan.add_values_place(result, plan.place(from).layout);
  FloatFollowUps follow_ups{.map = std::make_shared<const FloatChannelMap>(float_channel_map(node))};
  plan.add(float_elements_step(std::move(follow_ups), plan.read(from), to), node.name, "elements float");
  set_values(plan, step, to, result);
  return true;
}

/// A softmax over the channels, of values that have them last.
bool plan_channel_rows(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  if (trait<Softmax>(node) == nullptr || !plan.has_positions(result)) return false;
  const Shape& shape = plan.shape(result);
  if (integer_attribute(node, "dim") != 1 && integer_attribute(node, "dim") != 1 - std::ssize(shape))
    return false;
  Node last = node;
  last.attributes["dim"] = int64_t{-1};
  const std::optional<RowFunction> function = find_float_operator(node.op)->rows(
      {last, {}, {}}, {element_count(shape) / std::max<int64_t>(shape[1], 1), shape[1]});
  if (!function) return false;
  const size_t from = operand_values(plan, step, 0, Layout::kChannelsLast);
  const size_t to = plan.add_values_place(result, Layout::kChannelsLast);
  plan.add(float_rows_step({.function = *function, .parameters = nullptr}, plan.read(from), to), node.name,
           "rows float");
  set_values(plan, step, to, result);
  return true;
}

/// A norm of the channels of each sample, of values that have them last.
bool plan_channel_norm(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const auto* norm = trait<Normalization>(node);
  const bool is_known = norm != nullptr && (norm->over == Normalization::Over::kChannel ||
                                            norm->over == Normalization::Over::kChannelGroup);
  if (!is_known || !plan.may_be_pooled(result) || node.find_parameter("running_mean") != nullptr)
    return false;
  const size_t from = operand_values(plan, step, 0, std::nullopt);
  if (plan.place(from).layout != Layout::kChannelsLast) return false;
  const bool is_grouped = norm->over == Normalization::Over::kChannelGroup;
  const int64_t channels = plan.shape(result)[1];
  ChannelNormLayer layer{.groups = is_grouped ? integer_attribute(node, "num_groups") : channels,
                         .eps = number_attribute(node, "eps"),
                         .parameters = std::make_shared<const NamedTensors>(rounded_parameters(node)),
                         .from = from,
                         .to = plan.add_values_place(result, Layout::kChannelsLast)};
  plan.read(layer.from);
  const size_t to = layer.to;
  plan.add(channel_norm_step(std::move(layer)), node.name, "norm float");
  set_values(plan, step, to, result);
  return true;
}

/// Functions of elements, and of rows of them.
bool plan_rows(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  const FloatOperator* const found = find_float_operator(node.op);
  if (found == nullptr || found->rows == nullptr) return false;
  const std::string input = value_name(node.inputs[0]);
  FloatRows rows{.function = {},
                 .parameters = std::make_shared<const NamedTensors>(rounded_parameters(node))};
  const std::optional<RowFunction> function = found->rows({node, {}, *rows.parameters}, plan.shape(input));
  if (!function || plan.shape(input) != plan.shape(result)) return false;
  rows.function = *function;
  const bool by_element = function->row == 1;
  const size_t from = operand_values(plan, step, 0, by_element ? std::nullopt : std::optional(Layout::kRows));
  const size_t to = plan.add_values_place(result, plan.place(from).layout);
  plan.add(float_rows_step(std::move(rows), plan.read(from), to), node.name,
           by_element ? "elements float" : "rows float");
  set_values(plan, step, to, result);
  return true;
}

/// A number that an operand is, if it is one.
std::optional<float> number_of(const NodeInput& input) {
  if (!input.is_constant()) return std::nullopt;
  if (const auto* integer = input.constant.get_if<int64_t>()) return static_cast<float>(*integer);
  if (const auto* real = input.constant.get_if<double>()) return static_cast<float>(*real);
  return std::nullopt;
}

/// The layout of a result of two operands: that of one which has its shape, with channels last if there is
/// one; nullopt where one of the operands has no values in a place.
std::optional<Layout> layout_of_pairs(PlanBuilder& plan, const ReferenceStep& step,
                                      const std::string& result) {
  Layout layout = Layout::kRows;
  for (size_t i = 0; i < 2; ++i) {
    const NodeInput& input = step.node->inputs[i];
    if (input.is_constant()) {
      if (!number_of(input)) return std::nullopt;
    } else if (!plan.is_tensor(value_name(input)) || !has_operand_values(plan, step, i)) {
      return std::nullopt;
    } else if (plan.shape(value_name(input)) == plan.shape(result)) {
      const Layout own = plan.place(operand_values(plan, step, i, std::nullopt)).layout;
      if (own == Layout::kChannelsLast) layout = own;
    }
  }
  const bool has_channels = plan.may_be_pooled(result) || plan.shape(result).size() <= 2;
  return has_channels || layout == Layout::kRows ? std::optional(layout) : std::nullopt;
}

}  // namespace

std::map<size_t, std::vector<size_t>> fused_float_layers(std::span<const ReferenceStep> steps,
                                                         std::span<const size_t> layers,
                                                         const ValueTypes& values, const ShownValues& shown) {
  const ValueReaders readers = readers_of(steps);
  std::set<size_t> taken;
  std::map<size_t, std::vector<size_t>> fused;
  for (const size_t layer : layers) {
    std::vector<size_t> found = {layer};
    Chain chain{.takes_functions = true};
    while (!steps[layer].outputs[0]) {
      const std::string value = value_name(steps[found.back()].node->name);
      const auto reading = readers.find(value);
      if (reading == readers.end() || reading->second.size() != 1 || shown.needs(value)) break;
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

namespace {

/// Layers, of those that `takes` says for the step of a pad, whose inputs pads give that nobody else reads.
std::map<size_t, size_t> layers_after_pads(
    std::span<const ReferenceStep> steps, std::span<const size_t> layers, const ValueTypes& values,
    const ShownValues& shown,
    const std::function<bool(const ReferenceStep& layer, const ReferenceStep& pad)>& takes) {
  const ValueReaders readers = readers_of(steps);
  std::map<std::string, size_t> pads;  // by the value that they give
  for (size_t i = 0; i < steps.size(); ++i) {
    const Node& node = *steps[i].node;
    if (!steps[i].form && border_of(node, values)) pads.emplace(value_name(node.name), i);
  }
  std::map<size_t, size_t> folded;
  for (const size_t layer : layers) {
    const std::string input = value_name(steps[layer].node->inputs[0]);
    const auto pad = pads.find(input);
    if (pad == pads.end() || trait<WeightedSum>(*steps[layer].node)->spatial_dims == 0) continue;
    const bool is_read_once = readers.at(input).size() == 1 && !shown.needs(input);
    if (is_read_once && takes(steps[layer], steps[pad->second])) folded.emplace(layer, pad->second);
  }
  return folded;
}

}  // namespace

std::map<size_t, size_t> folded_pads(std::span<const ReferenceStep> steps, std::span<const size_t> layers,
                                     const ValueTypes& values, const ShownValues& shown) {
  return layers_after_pads(steps, layers, values, shown,
                           [](const ReferenceStep& layer, const ReferenceStep& pad) {
                             return !layer.inputs[0] && takes_values(pad);
                           });
}

std::map<size_t, size_t> folded_code_pads(std::span<const ReferenceStep> steps,
                                          std::span<const size_t> layers, const ValueTypes& values,
                                          const ShownValues& shown) {
  return layers_after_pads(
      steps, layers, values, shown, [&](const ReferenceStep& layer, const ReferenceStep& pad) {
        const auto* form = layer.form ? std::get_if<SumForm>(&*layer.form) : nullptr;
        if (form == nullptr || !fits_bytes(form->input) || form->input.is_sign) return false;
        const CodeType& type = form->input;
        const auto is_same = [&](const std::optional<CodeType>& other) { return !other || *other == type; };
        const bool has_zero = type.low <= type.zero_point && type.zero_point <= type.high;
        const bool is_flat = values.at(value_name(pad.node->name)).shape.size() <= 4;
        return has_zero && is_flat && is_same(pad.inputs[0]) && is_same(pad.outputs[0]);
      });
}

WindowShape with_zeros_around(WindowShape window, const Node& pad, const ValueTypes& values) {
  add_padding(window, *border_of(pad, values));
  return window;
}

/// The steps of a layer: one, or one for each region of its results.
void add_float_sums(PlanBuilder& plan, FloatSumsLayer layer, const Node& node, const std::string& names) {
  const PackedFloatSums& packed = *layer.packed;
  std::vector<WindowRegion> regions;
  if (!packed.is_linear && !packed.depthwise)
    regions = window_regions(layer.window, plan.place(layer.input), plan.place(layer.output),
                             static_cast<int64_t>(packed.weights.byte_size()));
  if (!regions.empty() &&
      !ignores_zeros({packed.weights.data(), packed.weights.byte_size() / sizeof(float)}, packed.start))
    regions.clear();
  const char* kind = packed.depthwise   ? "depthwise float"
                     : packed.is_linear ? "linear float"
                                        : "convolution float";
  const auto add = [&](FloatSumsLayer part, int64_t results) {
    plan.read(part.input);
    plan.read(part.output);
    if (part.follow_ups.other) plan.read(*part.follow_ups.other);
    const double products =
        static_cast<double>(results * packed.channels) * static_cast<double>(part.window.positions());
    plan.add(float_sums_step(std::move(part)), names, kind).products = products;
  };
  if (regions.empty()) {
    if (!packed.is_linear)
      layer.input = plan.with_border(
          layer.input, layer.window.halo(plan.place(layer.input), plan.place(layer.output)), node);
    const Place& out = plan.place(layer.output);
    const int64_t results = element_count(out.shape);
    return add(std::move(layer), results);
  }
  const Place out = plan.place(layer.output);
  for (const WindowRegion& region : regions) {
    FloatSumsLayer part = layer;
    part.window = region.window;
    part.first_tap = region.first_tap;
    part.grid = region.grid;
    part.fills_halo = &region == &regions.front();
    add(std::move(part), out.images() / out.depth() * region.results(out) * packed.outputs);
  }
}

void plan_float_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                      std::span<const size_t> fused, const ReferenceStep* pad) {
  const Node& node = *steps[fused.front()].node;
  const auto packed = weights.float_layers.find(node.name)->second;
  const std::string result = value_name(steps[fused.back()].node->name);
  const Layout layout = packed->is_linear ? Layout::kRows : Layout::kChannelsLast;
  FloatSumsLayer layer{.packed = packed, .window = packed->window, .follow_ups = {}, .input = 0, .output = 0};
  const std::string input = value_name((pad == nullptr ? node : *pad->node).inputs[0]);
  if (pad != nullptr) layer.window = with_zeros_around(layer.window, *pad->node, plan.types());
  const std::optional<CodeType>& codes = steps[fused.front()].inputs[0];
  layer.input =
      codes ? plan.values_of_codes(input, *codes, layout, node) : plan.values_of(input, layout, node);
  std::string names = pad == nullptr ? node.name : pad->node->name + ", " + node.name;
  std::string value = value_name(node.name);
  for (const size_t index : fused.subspan(1)) {
    const ReferenceStep& next = steps[index];
    names += ", " + next.node->name;
    add_float_follow_up(plan, next, value, layout, layer.follow_ups);
    value = value_name(next.node->name);
  }
  layer.output = plan.add_values_place(result, layout);
  const size_t output = layer.output;
  add_float_sums(plan, std::move(layer), node, names);
  if (const auto& type = steps[fused.back()].outputs[0]) {
    plan_rounded(plan, output, *type, node, result);
  } else {
    plan.set_place(result, output);
  }
}

bool has_operand_values(const PlanBuilder& plan, const ReferenceStep& step, size_t index) {
  const std::string value = value_name(step.node->inputs[index]);
  if (!step.inputs[index]) return plan.may_have_values(value);
  return plan.is_placeable(value) && (fits_bytes(*step.inputs[index]) || is_wide(*step.inputs[index]));
}

size_t operand_values(PlanBuilder& plan, const ReferenceStep& step, size_t index,
                      std::optional<Layout> layout) {
  const std::string value = value_name(step.node->inputs[index]);
  const std::optional<CodeType>& type = step.inputs[index];
  return type ? plan.values_of_codes(value, *type, layout, *step.node)
              : plan.values_of(value, layout, *step.node);
}

void set_values(PlanBuilder& plan, const ReferenceStep& step, size_t from, const std::string& result) {
  const std::optional<CodeType>& type = step.outputs[0];
  type ? plan_rounded(plan, from, *type, *step.node, result) : plan.set_place(result, from);
}

bool plan_value_pairs(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const FloatOperator* const found = find_float_operator(step.node->op);
  return found != nullptr && found->pairs != nullptr && plan_value_pairs(plan, step, found->pairs, result);
}

bool plan_value_pairs(PlanBuilder& plan, const ReferenceStep& step, PairFunction function,
                      const std::string& result) {
  const Node& node = *step.node;
  if (node.inputs.size() != 2) return false;
  const std::optional<Layout> layout = layout_of_pairs(plan, step, result);
  if (!layout) return false;
  PairOperand operands[2];
  for (size_t i = 0; i < 2; ++i) {
    const NodeInput& input = node.inputs[i];
    if (input.is_constant()) {
      operands[i].number = *number_of(input);
      continue;
    }
    const bool has_rank = plan.shape(value_name(input)).size() == plan.shape(result).size();
    operands[i].place = operand_values(plan, step, i, has_rank ? layout : std::nullopt);
  }
  const size_t to = plan.add_values_place(result, *layout);
  for (const PairOperand& operand : operands) {
    if (operand.place) plan.read(*operand.place);
  }
  plan.add(float_pairs_step(function, operands[0], operands[1], to), node.name, "pairs float");
  set_values(plan, step, to, result);
  return true;
}

bool plan_transposed_floats(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                            const std::string& result) {
  const Node& node = *step.node;
  const auto phases = weights.transposed_float_layers.find(node.name);
  if (phases == weights.transposed_float_layers.end() || !has_operand_values(plan, step, 0)) return false;
  if (plan.shape(result).size() != trait<WeightedSum>(node)->spatial_dims + 2) return false;
  size_t from = operand_values(plan, step, 0, Layout::kChannelsLast);
  const size_t to = plan.add_values_place(result, Layout::kChannelsLast);
  bool is_first = true;
  for (const TransposedFloatPhase& phase : *phases->second) {
    const Place& out = plan.place(to);
    const ResultGrid& grid = phase.grid;
    const int64_t planes = grid.planes(out);
    const int64_t rows = grid.rows(out);
    const int64_t columns = grid.columns(out);
    if (planes * rows * columns == 0) continue;
    const double windows = static_cast<double>(plan.shape(result)[0] * planes * rows * columns);
    from = plan.with_border(from, phase.packed->window.halo(plan.place(from), planes, rows, columns), node);
    plan.read(from);
    plan.read(to);
    plan.add(float_sums_step({.packed = phase.packed,
                              .window = phase.packed->window,
                              .follow_ups = {},
                              .input = from,
                              .output = to,
                              .grid = grid,
                              .fills_halo = is_first}),
             node.name, "transposed float")
        .products = windows * static_cast<double>(phase.packed->outputs * phase.packed->depth());
    is_first = false;
  }
  set_values(plan, step, to, result);
  return true;
}

bool plan_values(PlanBuilder& plan, const ReferenceStep& step, const ValueTypes& values,
                 const std::string& result) {
  const Node& node = *step.node;
  if (!computes_in_float(step) || node.inputs.empty() || !has_values_in_places(step.outputs[0])) return false;
  if (node.inputs[0].is_constant()) return plan_value_pairs(plan, step, result);
  if (!has_operand_values(plan, step, 0)) return false;
  const bool has_no_codes = takes_values(step);
  return plan_pooled(plan, step, result) ||
         (has_no_codes ? plan_element(plan, step, values, result)
                       : plan_normalized_codes(plan, step, result)) ||
         plan_channel_rows(plan, step, result) || plan_channel_norm(plan, step, result) ||
         plan_rows(plan, step, result) || plan_value_pairs(plan, step, result) ||
         plan_resampled(plan, step, result) || plan_reduced(plan, step, result) ||
         plan_float_product(plan, step, result) || plan_rounded_movement(plan, step, result) ||
         (has_no_codes && plan_movement(plan, step, std::nullopt, result));
}

}  // namespace detent
