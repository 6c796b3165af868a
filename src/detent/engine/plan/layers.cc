#include <fmt/format.h>

#include <algorithm>

#include "detent/engine/pair_table.h"
#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// A rectifier cuts the sums themselves, or, behind something else, is a table.
void add_follow_up(PlanBuilder& plan, const ReferenceStep& step, const std::string& value, Layout layout,
                   CodeType& type, SumsLayer& layer) {
  if (rectifies_bytes(step, type)) {
    if (layer.follow_ups.empty()) {
      layer.finish.least = std::max(layer.finish.least, 0.0F);
    } else if (layer.follow_ups.back().table.empty()) {
      ByteAddition& addition = layer.follow_ups.back().addition;
      addition.least = std::max(addition.least, 0.0F);
    } else {
      for (uint8_t& byte : layer.follow_ups.back().table)
        byte = std::max(byte, static_cast<uint8_t>(type.zero_point - type.low));
    }
    return;
  }
  const auto cut = cut_of(step);
  if (cut && layer.follow_ups.empty()) {
    const auto zero = static_cast<float>(type.zero_point - type.low);
    const float least = static_cast<float>(cut->first) - zero;
    const float most = static_cast<float>(cut->second) - zero;
    layer.finish.least = std::clamp(layer.finish.least, least, most);
    layer.finish.most = std::clamp(layer.finish.most, least, most);
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
  layer.input = plan.place_of(value_name(node.inputs[0]), form.input, layout, node);
  std::string names = node.name;
  CodeType type = form.output.value_or(CodeType());
  std::string value = value_name(node.name);
  for (const size_t index : std::span(fused.steps).subspan(1)) {
    const ReferenceStep& step = steps[index];
    names += ", " + step.node->name;
    add_follow_up(plan, step, value, layout, type, layer);
    value = value_name(step.node->name);
  }
  layer.output = plan.add_place({.shape = plan.shape(result),
                                 .layout = layout,
                                 .type = fused.type,
                                 .is_values = !form.output.has_value()});
  const Place& out = plan.place(layer.output);
  Place& in = plan.place(plan.read(layer.input));
  if (!is_linear) in.halo.cover(packed->window.halo(in, out.depth(), out.height(), out.width()));
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
  plan.set_place(result, output);
}

bool plan_transposed(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                     const std::string& result) {
  const auto phases = weights.transposed_layers.find(step.node->name);
  if (phases == weights.transposed_layers.end()) return false;
  const Node& node = *step.node;
  const auto& form = std::get<SumForm>(*step.form);
  const std::string input = value_name(node.inputs[0]);
  if (plan.shape(input).size() != trait<WeightedSum>(node)->spatial_dims + 2) return false;
  const size_t from = plan.place_of(input, form.input, Layout::kChannelsLast, node);
  const size_t to = plan.add_place({.shape = plan.shape(result),
                                    .layout = Layout::kChannelsLast,
                                    .type = form.output.value_or(CodeType()),
                                    .is_values = !form.output.has_value()});
  const double windows =
      static_cast<double>(element_count(plan.shape(input))) / static_cast<double>(form.weight.dim(0));
  const double products = windows * static_cast<double>(form.weight.numel());
  bool is_first = true;
  for (const TransposedPhase& phase : *phases->second) {
    Place& out = plan.place(to);
    const ResultGrid& grid = phase.grid;
    const int64_t planes = ResultGrid::count(grid.first_z, grid.step_z, out.depth());
    const int64_t rows = ResultGrid::count(grid.first_y, grid.step_y, out.height());
    const int64_t columns = ResultGrid::count(grid.first_x, grid.step_x, out.width());
    if (planes * rows * columns == 0) continue;
    Place& in = plan.place(from);
    in.halo.cover(phase.packed->window.halo(in, planes, rows, columns));
    plan.read(from);
    plan.read(to);
    plan.add(sums_step({.packed = phase.packed,
                        .finish = phase.packed->finish,
                        .input = from,
                        .output = to,
                        .follow_ups = {},
                        .grid = grid,
                        .fills_halo = is_first}),
             node.name, fmt::format("transposed {}", plan.kernels().name))
        .products = products / static_cast<double>(phases->second->size());
    is_first = false;
  }
  plan.set_place(result, to);
  return true;
}

bool plan_blocks(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                 const std::string& result) {
  const auto packed = weights.block_layers.find(step.node->name);
  if (packed == weights.block_layers.end()) return false;
  const auto& form = std::get<BlockSumForm>(*step.form);
  const std::string input = value_name(step.node->inputs[0]);
  const size_t from = plan.place_of(input, form.input, Layout::kRows, *step.node);
  const size_t to = plan.add_place({.shape = plan.shape(result),
                                    .layout = Layout::kRows,
                                    .type = form.output.value_or(CodeType()),
                                    .is_values = !form.output.has_value()});
  const std::string kernel = fmt::format("blocks of {} {}, weights of {} bits", packed->second->block,
                                         plan.kernels().name, packed->second->nibbles ? 4 : 8);
  plan.add(block_sums_step(packed->second, plan.read(from), to), step.node->name, kernel).products =
      static_cast<double>(element_count(plan.shape(result))) * static_cast<double>(form.inputs());
  plan.set_place(result, to);
  return true;
}

}  // namespace detent
