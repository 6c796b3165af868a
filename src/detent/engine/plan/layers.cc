#include <fmt/format.h>

#include <algorithm>

#include "detent/core/error.h"
#include "detent/engine/pair_table.h"
#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Whether a step on codes of `type` only cuts them; `finish` does so then.
bool cuts_sums(const ReferenceStep& step, const CodeType& type, SumFinish& finish) {
  if (rectifies_bytes(step, type)) {
    finish.least = std::max(finish.least, 0.0F);
    return true;
  }
  const auto cut = cut_of(step);
  if (!cut) return false;
  const auto zero = static_cast<float>(type.zero_point - type.low);
  const float least = static_cast<float>(cut->first) - zero;
  const float most = static_cast<float>(cut->second) - zero;
  finish.least = std::clamp(finish.least, least, most);
  finish.most = std::clamp(finish.most, least, most);
  return true;
}

/// A rectifier cuts the sums themselves, or, after something else, is a table.
void add_follow_up(PlanBuilder& plan, const ReferenceStep& step, const std::string& value, Layout layout,
                   CodeType& type, SumsLayer& layer) {
  if (layer.follow_ups.empty() && cuts_sums(step, type, layer.finish)) return;
  if (rectifies_bytes(step, type)) {
    if (layer.follow_ups.back().table.empty()) {
      ByteAddition& addition = layer.follow_ups.back().addition;
      addition.least = std::max(addition.least, 0.0F);
    } else {
      for (uint8_t& byte : layer.follow_ups.back().table)
        byte = std::max(byte, static_cast<uint8_t>(type.zero_point - type.low));
    }
    return;
  }
  if (auto table = byte_table(step)) {
    type = std::get<TableForm>(*step.form).output;
    layer.follow_ups.push_back({.table = std::move(*table)});
    return;
  }
  const auto& form = std::get<PairForm>(*step.form);
  FollowUp follow{.table = {}, .addition = byte_addition(form)};
  const bool is_first = value_name(step.node->inputs[0]) == value;
  if (!is_first) {
    std::swap(follow.addition.scale_a, follow.addition.scale_b);
    std::swap(follow.addition.zero_a, follow.addition.zero_b);
  }
  const std::string other = value_name(step.node->inputs[is_first ? 1 : 0]);
  follow.other = plan.place_of(other, is_first ? form.b : form.a, layout, *step.node);
  type = form.output;
  layer.follow_ups.push_back(std::move(follow));
}

}  // namespace

void plan_layer(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                const FusedLayer& fused) {
  const ReferenceStep& first = steps[fused.steps.front()];
  const Node& node = *first.node;
  const auto& form = std::get<SumForm>(*first.form);
  const auto packed = weights.layers.find(node.name)->second;
  const std::string result = value_name(steps[fused.steps.back()].node->name);
  const bool is_linear = trait<WeightedSum>(node)->spatial_dims == 0;
  const Layout layout = is_linear ? Layout::kRows : Layout::kChannelsLast;
  SumsLayer layer{.packed = packed, .finish = packed->finish, .input = 0, .output = 0, .follow_ups = {}};
  const Node* const pad = fused.pad ? steps[*fused.pad].node : nullptr;
  if (pad != nullptr) layer.window = with_zeros_around(packed->window, *pad, plan.types());
  const WindowShape& window = layer.window ? *layer.window : packed->window;
  layer.input = plan.place_of(value_name((pad != nullptr ? *pad : node).inputs[0]), form.input, layout, node);
  std::string names = pad == nullptr ? node.name : pad->name + ", " + node.name;
  CodeType type = form.output.value_or(CodeType());
  std::string value = value_name(node.name);
  for (const size_t index : std::span(fused.steps).subspan(1)) {
    const ReferenceStep& step = steps[index];
    names += ", " + step.node->name;
    add_follow_up(plan, step, value, layout, type, layer);
    value = value_name(step.node->name);
  }
  const bool gives_wide = form.output && is_wide(*form.output);
  layer.output = plan.add_place({.shape = plan.shape(result),
                                 .layout = layout,
                                 .type = gives_wide ? CodeType() : fused.type,
                                 .is_values = !form.output || gives_wide});
  if (!is_linear)
    layer.input =
        plan.with_border(layer.input, window.halo(plan.place(layer.input), plan.place(layer.output)), node);
  plan.read(layer.input);
  plan.read(layer.output);
  for (const FollowUp& step : layer.follow_ups) {
    if (step.table.empty()) plan.read(step.other);
  }
  const size_t output = layer.output;
  const double outputs = static_cast<double>(element_count(plan.shape(value_name(node.name))));
  const int64_t products = form.weight.numel() / std::max<int64_t>(form.weight.dim(0), 1);
  const std::string bits = packed->packing == WeightPacking::kBytes       ? ""
                           : packed->packing == WeightPacking::kBitPlanes ? ", bits"
                           : packed->packing == WeightPacking::kSigns
                               ? ", signs"
                               : fmt::format(", weights of {} bits", packing_shape(packed->packing).text);
  const char* kind = packed->depthwise ? "depthwise" : is_linear ? "linear" : "convolution";
  plan.add(sums_step(std::move(layer)), names, fmt::format("{} {}{}", kind, plan.kernels().name, bits))
      .products = outputs * static_cast<double>(products);
  if (gives_wide) {
    plan_rounded_steps(plan, output, *form.output, node, result);
  } else {
    plan.set_place(result, output);
  }
}

bool plan_transposed(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                     const std::string& result) {
  const auto phases = weights.transposed_layers.find(step.node->name);
  if (phases == weights.transposed_layers.end()) return false;
  const Node& node = *step.node;
  const auto& form = std::get<SumForm>(*step.form);
  const std::string input = value_name(node.inputs[0]);
  if (plan.shape(input).size() != trait<WeightedSum>(node)->spatial_dims + 2) return false;
  size_t from = plan.place_of(input, form.input, Layout::kChannelsLast, node);
  const bool gives_wide = form.output && is_wide(*form.output);
  const size_t to = plan.add_place({.shape = plan.shape(result),
                                    .layout = Layout::kChannelsLast,
                                    .type = gives_wide ? CodeType() : form.output.value_or(CodeType()),
                                    .is_values = !form.output || gives_wide});
  const double windows =
      static_cast<double>(element_count(plan.shape(input))) / static_cast<double>(form.weight.dim(0));
  const double products = windows * static_cast<double>(form.weight.numel());
  bool is_first = true;
  for (const TransposedPhase& phase : *phases->second) {
    const Place& out = plan.place(to);
    const ResultGrid& grid = phase.grid;
    const int64_t planes = grid.planes(out);
    const int64_t rows = grid.rows(out);
    const int64_t columns = grid.columns(out);
    if (planes * rows * columns == 0) continue;
    from = plan.with_border(from, phase.packed->window.halo(plan.place(from), planes, rows, columns), node);
    plan.read(from);
    plan.read(to);
    plan.add(sums_step({.packed = phase.packed,
                        .finish = phase.packed->finish,
                        .input = from,
                        .output = to,
                        .follow_ups = {},
                        .grid = grid,
                        .fills_halo = is_first}),
             node.name,
             fmt::format("{}transposed {}", phase.packed->depthwise ? "depthwise " : "", plan.kernels().name))
        .products = products / static_cast<double>(phases->second->size());
    is_first = false;
  }
  if (gives_wide) {
    plan_rounded_steps(plan, to, *form.output, node, result);
  } else {
    plan.set_place(result, to);
  }
  return true;
}

void plan_blocks(PlanBuilder& plan, const ProgramWeights& weights, std::span<const ReferenceStep> steps,
                 const FusedLayer& fused) {
  const ReferenceStep& first = steps[fused.steps.front()];
  const auto& form = std::get<BlockSumForm>(*first.form);
  const auto packed = weights.block_layers.find(first.node->name)->second;
  const std::string result = value_name(steps[fused.steps.back()].node->name);
  const Layout layout = packed->is_linear ? Layout::kRows : Layout::kChannelsLast;
  size_t from = plan.place_of(value_name(first.node->inputs[0]), form.input, layout, *first.node);
  std::string names = first.node->name;
  SumFinish finish = packed->finish;
  for (const size_t index : std::span(fused.steps).subspan(1)) {
    names += ", " + steps[index].node->name;
    DETENT_CHECK(cuts_sums(steps[index], *form.output, finish), "{} after blocks", names);
  }
  const size_t to = plan.add_place({.shape = plan.shape(result),
                                    .layout = layout,
                                    .type = form.output.value_or(CodeType()),
                                    .is_values = !form.output || is_wide(*form.output)});
  if (!packed->is_linear)
    from = plan.with_border(from, packed->window.halo(plan.place(from), plan.place(to)), *first.node);
  plan.read(from);
  plan.read(to);
  const std::string kernel = fmt::format("blocks of {} {}, weights of {} bits", packed->block,
                                         plan.kernels().name, packed->nibbles ? 4 : 8);
  plan.add(block_sums_step(packed, finish, from, to), std::move(names), kernel).products =
      static_cast<double>(element_count(plan.shape(value_name(first.node->name)))) *
      static_cast<double>(form.inputs() * packed->window.positions());
  plan.set_place(result, to);
}

}  // namespace detent
