#include "detent/engine/plan/plan_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "detent/engine/fusion.h"

namespace detent {

namespace {

/// The positions that a contiguous view `whole` makes of a view of channels, in a value of shape `from`: the
/// inner view has [samples, channels, height, rows, width, columns].
std::optional<SpreadChannels> channels_to_positions(const StridedView& inner, const StridedView& whole,
                                                    const Shape& from, const Shape& to) {
  if (inner.shape.size() != 6 || from.size() != 4 || to.size() != 4) return std::nullopt;
  if (!whole.is_contiguous() || whole.offset != 0 || inner.offset != 0) return std::nullopt;
  const Shape& in = inner.shape;
  const int64_t plane = from[2] * from[3];
  const Shape positions = {in[0], in[1] * in[3] * in[5], in[2], in[4]};
  if (positions != from || to != Shape{in[0], in[1], in[2] * in[3], in[4] * in[5]}) return std::nullopt;
  const std::vector<int64_t>& steps = inner.strides;
  const auto is = [&](size_t d, int64_t step) { return in[d] == 1 || steps[d] == step; };
  if (!is(0, from[1] * plane) || !is(2, from[3]) || !is(4, 1)) return std::nullopt;
  for (const size_t d : {size_t{1}, size_t{3}, size_t{5}}) {
    if (in[d] == 1 || steps[d] % plane != 0) return std::nullopt;
  }
  return SpreadChannels{in[3], in[5], steps[1] / plane, steps[3] / plane, steps[5] / plane};
}

}  // namespace

bool PlanBuilder::is_float(const std::string& value) const {
  const Operand& operand = types_.at(value);
  return operand.is_tensor() && operand.dtype == DType::kFloat32;
}

bool PlanBuilder::is_placeable(const std::string& value) const {
  const Operand& operand = types_.at(value);
  return is_float(value) && !operand.is_open() && !operand.shape.empty() && element_count(operand.shape) > 0;
}

bool PlanBuilder::has_positions(const std::string& value) const {
  const size_t rank = types_.at(value).shape.size();
  return rank == 3 || rank == 4;
}

bool PlanBuilder::may_be_pooled(const std::string& value) const {
  const size_t rank = types_.at(value).shape.size();
  return rank >= 3 && rank <= 5;
}

PlannedValue PlanBuilder::new_value(const std::string& name) const {
  return {.shape = types_.at(name).shape};
}

EngineStep& PlanBuilder::add(std::unique_ptr<EngineStep> step, std::string nodes, std::string kernel,
                             std::string why) {
  step->nodes = std::move(nodes);
  step->kernel = std::move(kernel);
  step->why = std::move(why);
  plan_.steps.push_back(std::move(step));
  return *plan_.steps.back();
}

size_t PlanBuilder::add_place(Place place) {
  place.measure();
  place.first_step = place.last_step = plan_.steps.size();
  plan_.places.push_back(std::move(place));
  users_.push_back({plan_.steps.size()});
  return plan_.places.size() - 1;
}

size_t PlanBuilder::add_values_place(const std::string& value, Layout layout, const CodeType& type) {
  return add_place({.shape = shape(value), .layout = layout, .type = type, .is_values = true});
}

size_t PlanBuilder::read(size_t place) {
  Place& at = plan_.places[place];
  at.last_step = plan_.steps.size();
  users_[place].push_back(plan_.steps.size());
  if (at.part_of) plan_.places[*at.part_of].last_step = plan_.steps.size();
  return place;
}

size_t PlanBuilder::with_border(size_t place, const Halo& halo, const Node& reader) {
  if (halo.empty()) return place;
  size_t bordered = place;
  if (plan_.places[place].is_shared) {
    const Place& at = plan_.places[place];
    bordered =
        add_place({.shape = at.shape, .layout = at.layout, .type = at.type, .is_values = at.is_values});
    add(copy_step(read(place), bordered), reader.name, "copy", "a border");
  }
  plan_.places[bordered].halo.cover(halo);
  return bordered;
}

size_t PlanBuilder::new_place(const PlannedValue& value, const CodeType& type, Layout layout) {
  return add_place({.shape = value.shape, .layout = layout, .type = type, .is_values = is_wide(type)});
}

std::optional<size_t> PlanBuilder::existing_place(const PlannedValue& value, const CodeType& type,
                                                  std::optional<Layout> layout) const {
  for (const size_t place : value.places) {
    const Place& at = plan_.places[place];
    if (!at.is_values && at.type == type && (!layout || at.layout == *layout)) return place;
  }
  return std::nullopt;
}

size_t PlanBuilder::place_of(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                             const Node& reader) {
  if (is_wide(type)) return wide_place_of(name, type, layout, reader);
  PlannedValue& value = values_.at(name);
  if (const auto found = existing_place(value, type, layout)) return *found;
  if (value.move && value.places.empty()) {
    make_move(name);
    return place_of(name, type, layout, reader);
  }
  const Layout wanted = layout ? *layout : Layout::kRows;
  if (value.type && *value.type != type) return converted_place(name, type, layout, reader);
  if (!value.type && value.quantizer == nullptr && !type.is_sign && has_values(name))
    return bytes_from_values(name, type, layout, reader);
  const auto from = existing_place(value, type, std::nullopt);
  if (!from || !value.type) return place_of_flow(name, type, wanted, reader);
  const size_t to = new_place(value, type, wanted);
  add(copy_step(read(*from), to), reader.name, "copy", "another layout");
  if (std::ranges::find(constants_, *from) != constants_.end()) note_constant(name, to);
  value.places.push_back(to);
  return to;
}

size_t PlanBuilder::bytes_from_values(const std::string& name, const CodeType& type,
                                      std::optional<Layout> layout, const Node& reader) {
  const size_t from = values_of(name, layout, reader);
  const size_t to = rounded_bytes(from, type, shape(name), reader);
  values_.at(name).places.push_back(to);
  return to;
}

size_t PlanBuilder::rounded_bytes(size_t from, const CodeType& type, const Shape& shape, const Node& reader) {
  const size_t to = add_place({.shape = shape, .layout = plan_.places[from].layout, .type = type});
  auto step = bytes_of_values(kernels_, reader, type, from, to);
  if (const auto function = byte_function(from, *step)) {
    add(table_step(kernels_, function->table, read(function->place), to), reader.name,
        fmt::format("table {}", kernels_.name));
  } else {
    read(from);
    add(std::move(step), reader.name, fmt::format("quantize {}", kernels_.name));
  }
  return to;
}

std::optional<PlanBuilder::ByteFunction> PlanBuilder::byte_function(size_t from,
                                                                    const EngineStep& last) const {
  std::vector<const EngineStep*> steps = {&last};
  while (plan_.places[from].is_values) {
    const Place& place = plan_.places[from];
    const size_t writer = users_[from].front();
    if (place.part_of || writer >= plan_.steps.size()) return std::nullopt;
    const EngineStep& step = *plan_.steps[writer];
    const std::optional<size_t> source = step.element_source();
    if (!source || step.row_results() != from || plan_.places[*source].shape != place.shape ||
        plan_.places[*source].layout != place.layout)
      return std::nullopt;
    steps.push_back(&step);
    from = *source;
  }
  if (steps.size() < 3) return std::nullopt;  // to values and back
  constexpr size_t kCodes = 256;
  alignas(float) std::array<std::byte, kCodes * sizeof(float)> elements = {};
  for (size_t code = 0; code < kCodes; ++code) elements[code] = static_cast<std::byte>(code);
  for (size_t i = steps.size(); i-- > 0;) {
    const auto operands = elements;
    if (steps[i]->compute_elements(operands.data(), elements.data(), plan_.places[from].type.size()))
      return std::nullopt;
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(elements.data());
  return ByteFunction{from, {bytes, bytes + kCodes}};
}

size_t PlanBuilder::integer_bytes(const std::string& name, int32_t low, Layout layout, const Node& reader) {
  if (const auto found = existing_place(values_.at(name), kIntegerBytes, layout)) return *found;
  const size_t flow = flow_of(name);
  const size_t to = new_place(values_.at(name), kIntegerBytes, layout);
  note_flow(flow);
  add(bytes_of_integers(low, flow, to), reader.name, "copy", "another layout");
  note_constant(name, to);
  values_.at(name).places.push_back(to);
  return to;
}

void PlanBuilder::note_constant(const std::string& name, size_t place) {
  constexpr int64_t kMostKept = int64_t{16} << 20;  // bytes of all: others may take turns in the arena
  const int64_t bytes = plan_.places[place].bytes();
  if (!values_.at(name).known || constant_bytes_ + bytes > kMostKept) return;
  constant_bytes_ += bytes;
  plan_.steps.back()->is_once = true;
  constants_.push_back(place);
}

size_t PlanBuilder::wide_place_of(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                                  const Node& reader) {
  PlannedValue& value = values_.at(name);
  for (const size_t place : value.places) {
    const Place& at = plan_.places[place];
    if (at.is_values && at.type == type && (!layout || at.layout == *layout)) return place;
  }
  if (value.type == type && has_values(name)) return values_of(name, layout, reader);
  if (value.move && value.places.empty()) make_move(name);
  // Its own codes come first.
  if (value.places.empty() && value.quantizer != nullptr && value.type != type)
    place_of(name, CodeType(*value.type), layout, reader);
  size_t to = 0;
  if (!value.places.empty()) {
    const size_t from = values_of(name, layout, reader);
    to = new_place(value, type, plan_.places[from].layout);
    add(rounded_values(kernels_, reader, type.scale, type, read(from), to), reader.name,
        fmt::format("quantize {}", kernels_.name));
  } else {
    const Node& node = value.quantizer != nullptr ? *value.quantizer : reader;
    const size_t flow = value.quantizer != nullptr ? value.flow : flow_of(name);
    to = new_place(value, type, layout.value_or(Layout::kRows));
    note_flow(flow);
    add(values_of_flow(kernels_, node, type, flow, to), node.name, fmt::format("quantize {}", kernels_.name));
    note_constant(name, to);
  }
  value.places.push_back(to);
  return to;
}

size_t PlanBuilder::place_of_flow(const std::string& name, const CodeType& type, Layout layout,
                                  const Node& reader) {
  const PlannedValue& value = values_.at(name);
  const bool reads_values = value.quantizer != nullptr;
  const Node& node = reads_values ? *value.quantizer : reader;
  const size_t flow = reads_values ? value.flow : flow_of(name);
  const size_t to = new_place(value, type, layout);
  note_flow(flow);
  if (value.flow_has_integers) {
    add(bytes_of_integers(type.low, flow, to), node.name, "copy", "another layout");
  } else {
    add(bytes_of_flow(kernels_, node, flow, to), node.name, fmt::format("quantize {}", kernels_.name));
  }
  note_constant(name, to);
  values_.at(name).places.push_back(to);
  return to;
}

/// From codes of the value's own type.
size_t PlanBuilder::converted_place(const std::string& name, const CodeType& type,
                                    std::optional<Layout> layout, const Node& reader) {
  const CodeType own = *values_.at(name).type;
  if (is_wide(own) && !type.is_sign && has_values(name)) return bytes_from_values(name, type, layout, reader);
  if (!fits_bytes(own)) {
    const size_t flow = flow_of(name);
    const size_t to = new_place(values_.at(name), type, layout.value_or(Layout::kRows));
    note_flow(flow);
    add(bytes_of_flow(kernels_, reader, flow, to), reader.name, "quantize", "codes of more than 8 bits");
    note_constant(name, to);
    values_.at(name).places.push_back(to);
    return to;
  }
  const size_t from = place_of(name, own, layout, reader);
  const size_t to = new_place(values_.at(name), type, plan_.places[from].layout);
  add(table_step(kernels_, conversion_table(own, type), read(from), to), reader.name,
      fmt::format("table {}", kernels_.name), "codes of another type");
  values_.at(name).places.push_back(to);
  return to;
}

std::optional<size_t> PlanBuilder::existing_values(const PlannedValue& value,
                                                   std::optional<Layout> layout) const {
  for (const size_t place : value.places) {
    const Place& at = plan_.places[place];
    const bool is_rounded = at.type != CodeType() && at.type != value.type;
    if (at.is_values && !is_rounded && (!layout || at.layout == *layout)) return place;
  }
  return std::nullopt;
}

bool PlanBuilder::has_values(const std::string& name) const {
  const PlannedValue& value = values_.at(name);
  return existing_values(value, std::nullopt).has_value() || (value.move && !value.move->type);
}

std::optional<size_t> PlanBuilder::place_before_flow(const std::string& name) {
  const PlannedValue& value = values_.at(name);
  if (value.flow_is_ready || value.known || value.quantizer != nullptr) return std::nullopt;
  if (value.move && value.places.empty()) make_move(name);
  return existing_values(values_.at(name), std::nullopt);
}

bool PlanBuilder::may_have_values(const std::string& name) const {
  if (has_values(name)) return true;
  const PlannedValue& value = values_.at(name);
  if (!is_placeable(name)) return false;
  if (value.type) return fits_bytes(*value.type) && !value.type->is_sign;
  return (value.flow_is_ready || value.known) && value.quantizer == nullptr;
}

size_t PlanBuilder::values_of(const std::string& name, std::optional<Layout> layout, const Node& reader) {
  if (values_.at(name).move && values_.at(name).places.empty()) make_move(name);
  if (const auto found = existing_values(values_.at(name), layout)) return *found;
  const Layout wanted = layout.value_or(Layout::kRows);
  auto from = existing_values(values_.at(name), std::nullopt);
  PlannedValue& value = values_.at(name);
  if (!from && value.type && fits_bytes(*value.type) && !value.type->is_sign &&
      (!value.places.empty() || value.quantizer != nullptr)) {
    const CodeType own = *value.type;
    const size_t to = dequantized(own, place_of(name, own, layout, reader), reader);
    value.places.push_back(to);
    return to;
  }
  const size_t flow = from ? kNoFlow : flow_of(name);
  const size_t to = add_place({.shape = value.shape, .layout = wanted, .type = {}, .is_values = true});
  if (from) {
    add(copy_step(read(*from), to), reader.name, "copy", "another layout");
    if (std::ranges::find(constants_, *from) != constants_.end()) note_constant(name, to);
  } else {
    note_flow(flow);
    add(values_of_flow(kernels_, reader, std::nullopt, flow, to), reader.name, "copy", "another layout");
    note_constant(name, to);
  }
  value.places.push_back(to);
  return to;
}

size_t PlanBuilder::dequantized(const CodeType& type, size_t from, const Node& reader) {
  const Place& bytes = plan_.places[from];
  const size_t to = add_place({.shape = bytes.shape, .layout = bytes.layout, .type = {}, .is_values = true});
  add(values_of_bytes(kernels_, type, read(from), to), reader.name,
      fmt::format("dequantize {}", kernels_.name));
  return to;
}

size_t PlanBuilder::values_of_codes(const std::string& name, const CodeType& type,
                                    std::optional<Layout> layout, const Node& reader) {
  if (is_wide(type)) return place_of(name, type, layout, reader);
  if (values_.at(name).type == type && !type.is_sign) return values_of(name, layout, reader);
  for (const size_t place : values_.at(name).places) {
    const Place& at = plan_.places[place];
    if (at.is_values && at.type == type && (!layout || at.layout == *layout)) return place;
  }
  const size_t to = dequantized(type, place_of(name, type, layout, reader), reader);
  plan_.places[to].type = type;
  values_.at(name).places.push_back(to);
  return to;
}

std::optional<Place> PlanBuilder::reshaped(size_t from, const StridedView& view) {
  Place& source = plan_.places[from];
  const size_t rank = source.shape.size();
  if (view.shape.size() != rank || rank < 3 || rank > 5 || !source.halo.empty()) return std::nullopt;
  Place result{
      .shape = view.shape, .layout = Layout::kRows, .type = source.type, .is_values = source.is_values};
  // From channels last to rows of channels, or back from there.
  StridedView moved = StridedView::of(source.shape);
  for (std::vector<int64_t>* sizes : {&moved.shape, &moved.strides}) {
    if (source.has_positions()) {
      std::rotate(sizes->begin() + 1, sizes->begin() + 2, sizes->end());
    } else {
      std::rotate(sizes->begin() + 1, sizes->end() - 1, sizes->end());
      result.layout = Layout::kChannelsLast;
    }
  }
  if (view.shape != moved.shape || view.strides != moved.strides || view.offset != 0) return std::nullopt;
  source.is_shared = result.is_shared = true;
  result.part_of = source.part_of.value_or(from);
  result.part_begin = source.part_begin;
  return result;
}

bool PlanBuilder::spread_channels(const std::string& name) {
  const PendingMove move = *values_.at(name).move;
  const PlannedValue& apart = values_.at(move.from);
  if (!apart.move || !apart.places.empty() || apart.move->type != move.type) return false;
  const PendingMove inner = *apart.move;
  const Shape& to_shape = values_.at(name).shape;
  const auto spread = channels_to_positions(inner.view, move.view, shape(inner.from), to_shape);
  if (!spread) return false;
  const size_t from = operand(inner.from, inner.type, std::nullopt, *inner.node);
  const Place& source = plan_.places[from];
  if (!source.has_positions()) return false;
  const size_t to = add_place({.shape = to_shape,
                               .layout = Layout::kChannelsLast,
                               .type = source.type,
                               .is_values = source.is_values});
  values_.at(name).places.push_back(to);
  const bool has_values = plan_.places[to].is_values;
  add(spread_channels_step(*spread, read(from), to), inner.node->name,
      has_values ? "moved values" : "moved bytes");
  return true;
}

void PlanBuilder::make_move(const std::string& name) {
  if (spread_channels(name)) return;
  const PendingMove move = *values_.at(name).move;
  const size_t from = operand(move.from, move.type, std::nullopt, *move.node);
  if (auto place = reshaped(from, move.view)) {
    values_.at(name).places.push_back(add_place(std::move(*place)));
    return;
  }
  const Place& source = plan_.places[from];
  // Channels stay last of what is cut out; dimensions in another order are rows.
  const bool is_cut_out = source.shape.size() == move.view.shape.size() && move.view.keeps_order();
  Place result{.shape = values_.at(name).shape,
               .layout = has_positions(name) && is_cut_out ? source.layout : Layout::kRows,
               .type = source.type,
               .is_values = source.is_values};
  const bool is_part = move.view.is_contiguous();
  if (is_part && source.layout == Layout::kRows) {
    result.part_of = source.part_of.value_or(from);
    result.part_begin = source.part_begin + move.view.offset * source.element_bytes();
    values_.at(name).places.push_back(add_place(std::move(result)));
    return;
  }
  const bool is_whole = is_part && element_count(source.shape) == element_count(result.shape);
  if (is_whole) result.layout = Layout::kRows;
  const bool has_values = source.is_values;
  read(from);
  const size_t to = add_place(std::move(result));
  values_.at(name).places.push_back(to);
  if (is_whole) {
    add(copy_step(from, to), move.node->name, "copy");
    return;
  }
  MovedInputs moved{.places = {from}, .copies = {{0, move.view, StridedView::of(move.view.shape)}}};
  add(movement_step(std::move(moved), to), move.node->name, has_values ? "moved values" : "moved bytes");
}

void PlanBuilder::set_place(const std::string& name, size_t place) {
  PlannedValue value = new_value(name);
  const Place& at = plan_.places[place];
  if (!at.is_values || is_wide(at.type)) value.type = at.type;
  value.places.push_back(place);
  values_.emplace(name, std::move(value));
}

size_t PlanBuilder::flow_of(const std::string& name) {
  const PlannedValue& value = values_.at(name);
  if (value.flow_is_ready) return value.flow;
  if (value.known) {
    PlannedValue& needed = values_.at(name);
    needed.flow = new_flow();
    needed.flow_is_ready = true;
    note_flow(needed.flow);
    add(known_flow(*needed.known, needed.flow), name, "known");
    return needed.flow;
  }
  if (value.places.empty() && value.move) {
    make_move(name);
  } else if (value.places.empty()) {
    place_of(name, *value.type, std::nullopt, *value.quantizer);
  }
  PlannedValue& ready = values_.at(name);
  const size_t place = ready.places.front();
  ready.flow = new_flow();
  ready.flow_is_ready = true;
  note_flow(ready.flow);
  add(flow_of_place(read(place), ready.flow), name, "row-major copy");
  return ready.flow;
}

void PlanBuilder::add_input(size_t flow) {
  plan_.inputs.push_back(flow);
  kept_flows_.insert(flow);
}

void PlanBuilder::add_output(size_t flow) {
  plan_.outputs.push_back(flow);
  kept_flows_.insert(flow);
}

/// Flows that nothing reads after a step are dropped with it.
void PlanBuilder::drop_flows() {
  for (const auto& [flow, step] : flow_uses_) {
    if (!kept_flows_.contains(flow) && step < plan_.steps.size())
      plan_.steps[step]->dropped_flows.push_back(flow);
  }
}

void PlanBuilder::note_bytes() {
  std::set<size_t> in_slices;  // what steps write as slices
  for (const Place& place : plan_.places) {
    if (place.is_slice()) in_slices.insert(*place.part_of);
  }
  for (size_t i = 0; i < plan_.places.size(); ++i) {
    const Place& place = plan_.places[i];
    if (place.is_within_step) continue;
    const int64_t elements = place.is_slice() ? element_count(place.shape) : place.elements();
    const int64_t bytes = elements * place.element_bytes();
    if (!in_slices.contains(i)) plan_.steps[place.first_step]->bytes += bytes;
    if (place.last_step != place.first_step && place.last_step < plan_.steps.size())
      plan_.steps[place.last_step]->bytes += bytes;
  }
  for (const auto& step : plan_.steps) step->bytes += std::ssize(step->weights());
}

void PlanBuilder::set_next_weights() {
  std::span<const int8_t> next;
  for (size_t i = plan_.steps.size(); i-- > 0;) {
    plan_.steps[i]->set_next_weights(next);
    if (!plan_.steps[i]->weights().empty()) next = plan_.steps[i]->weights();
  }
}

ProgramPlan PlanBuilder::finished() {
  drop_flows();
  chain_rows(plan_, users_, joins_);
  join_in_place(plan_, kernels_, std::move(users_), std::move(joins_));
  note_bytes();
  for (const auto& step : plan_.steps) step->prepare(plan_.places);
  set_next_weights();
  for (const size_t constant : constants_) {
    plan_.places[constant].first_step = 0;
    plan_.places[constant].last_step = plan_.steps.size();
  }
  plan_.arena_bytes = arrange(plan_.places);
  return std::move(plan_);
}

}  // namespace detent
