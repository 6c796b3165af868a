#include "detent/engine/program_plan.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "detent/core/error.h"
#include "detent/engine/fusion.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Where a value of the graph can be read, as far as the steps so far have brought it.
struct Value {
  Shape shape;
  std::optional<CodeType> type;  // none: values, or no float at all
  size_t flow = kNoFlow;
  bool flow_is_ready = false;
  const Node* quantizer = nullptr;  // the flow has values that this node's type rounds
  std::vector<size_t> places;
};

class Planner {
 public:
  Planner(std::span<const ReferenceStep> steps, const ValueTypes& values, const ProgramWeights& weights,
          const KernelSet& kernels, const FloatNodes* in_float)
      : steps_(steps), types_(values), weights_(weights), kernels_(kernels), in_float_(in_float) {
    std::vector<size_t> fast;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (takes_layer(steps[i])) fast.push_back(i);
    }
    fused_ = fused_layers(steps, fast, values);
    for (const auto& [last, layer] : fused_) inner_.insert(layer.steps.begin(), layer.steps.end() - 1);
  }

  ProgramPlan planned() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const ReferenceStep& step = steps_[i];
      if (inner_.contains(i)) continue;
      const auto layer = fused_.find(i);
      if (layer != fused_.end()) {
        plan_layer(layer->second);
      } else if (step.role == OperatorRole::kInput) {
        plan_input(step);
      } else if (step.role == OperatorRole::kOutput) {
        for (const NodeInput& input : step.node->inputs) plan_.outputs.push_back(output_flow(step, input));
      } else if (!plan_bytes(step)) {
        plan_reference(step);
      }
    }
    drop_flows();
    note_bytes();
    for (const auto& step : plan_.steps) step->prepare(plan_.places);
    set_next_weights();
    plan_.arena_bytes = arrange(plan_.places);
    return std::move(plan_);
  }

 private:
  // ---- What can be fast.

  /// A shape that is known, of a rank that places have.
  bool is_placeable(const std::string& value) const {
    const Operand& operand = types_.at(value);
    return operand.is_tensor() && operand.dtype == DType::kFloat32 && !operand.is_open() &&
           !operand.shape.empty() && element_count(operand.shape) > 0;
  }
  bool has_positions(const std::string& value) const {
    const size_t rank = types_.at(value).shape.size();
    return rank == 3 || rank == 4;
  }

  bool takes_layer(const ReferenceStep& step) const {
    if (!weights_.layers.contains(step.node->name)) return false;
    const std::string input = value_name(step.node->inputs[0]);
    if (!is_placeable(input) || !is_placeable(value_name(step.node->name))) return false;
    const size_t dims = trait<WeightedSum>(*step.node)->spatial_dims;
    return dims == 0 || types_.at(input).shape.size() == dims + 2;
  }

  // ---- Places.

  size_t add_place(Place place) {
    place.measure();
    place.first_step = place.last_step = plan_.steps.size();
    plan_.places.push_back(std::move(place));
    return plan_.places.size() - 1;
  }

  /// Notes that the step which is added next reads it.
  size_t read(size_t place) {
    plan_.places[place].last_step = plan_.steps.size();
    return place;
  }

  EngineStep& add(std::unique_ptr<EngineStep> step, std::string nodes, std::string kernel,
                  std::string why = "") {
    step->nodes = std::move(nodes);
    step->kernel = std::move(kernel);
    step->why = std::move(why);
    plan_.steps.push_back(std::move(step));
    return *plan_.steps.back();
  }

  size_t new_place(const Value& value, const CodeType& type, Layout layout) {
    return add_place({.shape = value.shape, .layout = layout, .type = type});
  }

  std::optional<size_t> existing_place(const Value& value, const CodeType& type,
                                       std::optional<Layout> layout) const {
    for (const size_t place : value.places) {
      const Place& at = plan_.places[place];
      if (!at.is_values && at.type == type && (!layout || at.layout == *layout)) return place;
    }
    return std::nullopt;
  }

  /// A place of the value's codes of `type`; in any layout where none is asked for.
  size_t place_of(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                  const Node& reader) {
    Value& value = values_.at(name);
    if (const auto found = existing_place(value, type, layout)) return *found;
    const Layout wanted = layout ? *layout : Layout::kRows;
    if (value.type && *value.type != type) return converted_place(name, type, layout, reader);
    if (value.places.empty() || !value.type) {
      const Node& node = value.quantizer != nullptr ? *value.quantizer : reader;
      const bool reads_values = value.quantizer != nullptr;
      const size_t flow = reads_values ? value.flow : flow_of(name);
      const size_t to = new_place(values_.at(name), type, wanted);
      note_flow(flow);
      add(bytes_of_flow(kernels_, node, flow, to), node.name, fmt::format("quantize {}", kernels_.name));
      values_.at(name).places.push_back(to);
      return to;
    }
    const size_t from = *existing_place(value, type, std::nullopt);
    const size_t to = new_place(value, type, wanted);
    add(copy_step(read(from), to), reader.name, "copy", "another layout");
    value.places.push_back(to);
    return to;
  }

  /// From codes of the value's own type.
  size_t converted_place(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                         const Node& reader) {
    const CodeType own = *values_.at(name).type;
    if (!fits_bytes(own)) {
      const size_t flow = flow_of(name);
      const size_t to = new_place(values_.at(name), type, layout.value_or(Layout::kRows));
      note_flow(flow);
      add(bytes_of_flow(kernels_, reader, flow, to), reader.name, "quantize", "codes of more than 8 bits");
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

  // ---- Flows.

  size_t new_flow() { return plan_.flow_count++; }

  /// The step that is added next needs it.
  void note_flow(size_t flow) { flow_uses_[flow] = plan_.steps.size(); }

  size_t flow_of(const std::string& name) {
    Value& value = values_.at(name);
    if (value.flow_is_ready) return value.flow;
    if (value.places.empty()) place_of(name, *value.type, std::nullopt, *value.quantizer);
    Value& ready = values_.at(name);
    const size_t place = ready.places.front();
    ready.flow = new_flow();
    ready.flow_is_ready = true;
    note_flow(ready.flow);
    add(flow_of_place(read(place), ready.flow), name, "bytes to reference");
    return ready.flow;
  }

  size_t output_flow(const ReferenceStep& /*step*/, const NodeInput& input) {
    const size_t flow = flow_of(value_name(input));
    kept_flows_.insert(flow);
    return flow;
  }

  /// What nobody needs after a step goes with it.
  void drop_flows() {
    for (const auto& [flow, step] : flow_uses_) {
      if (!kept_flows_.contains(flow) && step < plan_.steps.size())
        plan_.steps[step]->dropped_flows.push_back(flow);
    }
  }

  void note_bytes() {
    for (const Place& place : plan_.places) {
      const int64_t bytes = place.bytes() - Place::kSlack;
      plan_.steps[place.first_step]->bytes += bytes;
      if (place.last_step != place.first_step && place.last_step < plan_.steps.size())
        plan_.steps[place.last_step]->bytes += bytes;
    }
    for (const auto& step : plan_.steps) step->bytes += std::ssize(step->weights());
  }

  void set_next_weights() {
    std::span<const int8_t> next;
    for (size_t i = plan_.steps.size(); i-- > 0;) {
      plan_.steps[i]->set_next_weights(next);
      if (!plan_.steps[i]->weights().empty()) next = plan_.steps[i]->weights();
    }
  }

  // ---- Nodes.

  Value new_value(const std::string& name) const {
    Value value;
    value.shape = types_.at(name).shape;
    return value;
  }

  void plan_input(const ReferenceStep& step) {
    const std::string name = value_name(step.node->name);
    Value value = new_value(name);
    value.flow = new_flow();
    plan_.inputs.push_back(value.flow);
    kept_flows_.insert(value.flow);
    const std::optional<CodeType>& type = step.outputs[0];
    value.type = type;
    value.flow_is_ready = !type || !fits_bytes(*type);
    if (!value.flow_is_ready) value.quantizer = step.node;
    if (type && value.flow_is_ready) {
      const size_t codes = new_flow();
      note_flow(codes);
      add(convert_flow(*step.node, *type, value.flow, codes), name, "reference", "codes of more than 8 bits");
      value.flow = codes;
    }
    values_.emplace(name, std::move(value));
  }

  void set_place(const std::string& name, size_t place) {
    Value value = new_value(name);
    if (!plan_.places[place].is_values) value.type = plan_.places[place].type;
    value.places.push_back(place);
    values_.emplace(name, std::move(value));
  }

  void plan_layer(const FusedLayer& fused) {
    const ReferenceStep& first = steps_[fused.steps.front()];
    const Node& node = *first.node;
    const auto& form = std::get<SumForm>(*first.form);
    const auto packed = weights_.layers.find(node.name)->second;
    const std::string result = value_name(steps_[fused.steps.back()].node->name);
    const bool is_linear = trait<WeightedSum>(node)->spatial_dims == 0;
    const Layout layout = is_linear ? Layout::kRows : Layout::kChannelsLast;
    SumsLayer layer{.packed = packed, .finish = packed->finish, .input = 0, .output = 0, .follow_ups = {}};
    layer.input = place_of(value_name(node.inputs[0]), form.input, layout, node);
    std::string names = node.name;
    CodeType type = form.output.value_or(CodeType());
    std::string value = value_name(node.name);
    for (const size_t index : std::span(fused.steps).subspan(1)) {
      const ReferenceStep& step = steps_[index];
      names += ", " + step.node->name;
      add_follow_up(step, value, layout, type, layer);
      value = value_name(step.node->name);
    }
    layer.output = add_place({.shape = types_.at(result).shape,
                              .layout = layout,
                              .type = fused.type,
                              .is_values = !form.output.has_value()});
    const Place& out = plan_.places[layer.output];
    Place& in = plan_.places[read(layer.input)];
    if (!is_linear) in.halo.cover(packed->window.halo(in.height(), in.width(), out.height(), out.width()));
    for (const FollowUp& step : layer.follow_ups) {
      if (step.table.empty()) read(step.other);
    }
    const size_t output = layer.output;
    const double outputs = static_cast<double>(element_count(types_.at(value_name(node.name)).shape));
    const int64_t products = form.weight.numel() / std::max<int64_t>(form.weight.dim(0), 1);
    const std::string bits = packed->packing == WeightPacking::kBytes       ? ""
                             : packed->packing == WeightPacking::kBitPlanes ? ", bits"
                             : packed->packing == WeightPacking::kSigns
                                 ? ", signs"
                                 : fmt::format(", weights of {} bits", packing_shape(packed->packing).text);
    const char* kind = packed->depthwise ? "depthwise" : is_linear ? "linear" : "convolution";
    add(sums_step(std::move(layer)), names, fmt::format("{} {}{}", kind, kernels_.name, bits)).products =
        outputs * static_cast<double>(products);
    set_place(result, output);
  }

  /// A rectifier cuts the sums themselves, or, behind something else, is a table.
  void add_follow_up(const ReferenceStep& step, const std::string& value, Layout layout, CodeType& type,
                     SumsLayer& layer) {
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
    follow.other = place_of(other, is_first ? form.b : form.a, layout, *step.node);
    type = form.output;
    layer.follow_ups.push_back(std::move(follow));
  }

  /// A node other than a layer, on bytes; false where there is no kernel for it.
  bool plan_bytes(const ReferenceStep& step) {
    if (step.role != OperatorRole::kComputes || result_count(*step.node) != 1) return false;
    const std::string result = value_name(step.node->name);
    if (!is_placeable(result)) return false;
    for (const NodeInput& input : step.node->inputs) {
      if (!input.is_constant() && !is_placeable(value_name(input))) return false;
    }
    return plan_blocks(step, result) || plan_table(step, result) || plan_addition(step, result) ||
           plan_mean(step, result) || plan_moved(step, result);
  }

  /// A layer whose weights share scales in blocks.
  bool plan_blocks(const ReferenceStep& step, const std::string& result) {
    const auto packed = weights_.block_layers.find(step.node->name);
    if (packed == weights_.block_layers.end()) return false;
    const auto& form = std::get<BlockSumForm>(*step.form);
    const std::string input = value_name(step.node->inputs[0]);
    const size_t from = place_of(input, form.input, Layout::kRows, *step.node);
    const size_t to = add_place({.shape = types_.at(result).shape,
                                 .layout = Layout::kRows,
                                 .type = form.output.value_or(CodeType()),
                                 .is_values = !form.output.has_value()});
    const std::string kernel = fmt::format("blocks of {} {}, weights of {} bits", packed->second->block,
                                           kernels_.name, packed->second->nibbles ? 4 : 8);
    add(block_sums_step(packed->second, read(from), to), step.node->name, kernel).products =
        static_cast<double>(element_count(types_.at(result).shape)) * static_cast<double>(form.inputs());
    set_place(result, to);
    return true;
  }

  bool plan_table(const ReferenceStep& step, const std::string& result) {
    auto table = byte_table(step);
    if (!table) return false;
    const auto& form = std::get<TableForm>(*step.form);
    const NodeInput& input = step.node->inputs[step.node->inputs[0].is_constant() ? 1 : 0];
    const size_t from = place_of(value_name(input), form.input, std::nullopt, *step.node);
    const size_t to = add_place(
        {.shape = types_.at(result).shape, .layout = plan_.places[from].layout, .type = form.output});
    add(table_step(kernels_, std::move(*table), read(from), to), step.node->name,
        fmt::format("table {}", kernels_.name));
    set_place(result, to);
    return true;
  }

  bool plan_addition(const ReferenceStep& step, const std::string& result) {
    if (!adds_bytes(step)) return false;
    const std::string a = value_name(step.node->inputs[0]);
    const std::string b = value_name(step.node->inputs[1]);
    if (types_.at(a).shape != types_.at(b).shape) return false;
    const auto& form = std::get<PairForm>(*step.form);
    const size_t left = place_of(a, form.a, std::nullopt, *step.node);
    const Layout layout = plan_.places[left].layout;
    const size_t right = place_of(b, form.b, layout, *step.node);
    const size_t to = add_place({.shape = types_.at(result).shape, .layout = layout, .type = form.output});
    add(addition_step(kernels_, byte_addition(form), read(left), read(right), to), step.node->name,
        fmt::format("addition {}", kernels_.name));
    set_place(result, to);
    return true;
  }

  bool plan_mean(const ReferenceStep& step, const std::string& result) {
    const auto* form = step.form ? std::get_if<AverageForm>(&*step.form) : nullptr;
    if (form == nullptr || !fits_bytes(form->input) || !fits_bytes(form->output) || form->output.is_sign)
      return false;
    const std::string input = value_name(step.node->inputs[0]);
    if (!has_positions(input)) return false;
    PoolingWindows windows = pooling_windows(*step.node, types_.at(input).shape);
    int64_t elements = 1;
    for (const auto& dimension : windows) {
      int64_t most = 0;
      for (const PoolingWindow& window : dimension) {
        most = std::max(most, window.end - window.begin);
        if (window.end <= window.begin || window.counted <= 0) return false;
      }
      elements *= most;
    }
    if (elements * 255 > std::numeric_limits<int32_t>::max()) return false;
    if (form->fixed_point && !multipliers_fit(*form, windows)) return false;
    const size_t from = place_of(input, form->input, Layout::kChannelsLast, *step.node);
    const size_t to =
        add_place({.shape = types_.at(result).shape, .layout = Layout::kChannelsLast, .type = form->output});
    add(mean_step(kernels_, *form, std::move(windows), read(from), to), step.node->name,
        fmt::format("mean {}", kernels_.name));
    set_place(result, to);
    return true;
  }

  static bool multipliers_fit(const AverageForm& form, const PoolingWindows& windows) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const PoolingWindow& across : windows.back()) {
      for (const PoolingWindow& down : windows.front())
        least = std::min(least, windows.size() == 1 ? across.counted : across.counted * down.counted);
    }
    try {
      static_cast<void>(form.multiplier(least));
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  /// Rectifiers, the largest of windows, views: what leaves codes in their type.
  bool plan_moved(const ReferenceStep& step, const std::string& result) {
    if (step.form || step.engine != NodeEngine::kMoves || step.node->inputs.empty() ||
        step.node->inputs[0].is_constant())
      return false;
    const std::string input = value_name(step.node->inputs[0]);
    std::optional<CodeType> type = step.inputs[0];
    if (!type) type = values_.at(input).type;
    if (!type || !fits_bytes(*type) || (step.outputs[0] && step.outputs[0] != type)) return false;
    if (moved_type(*step.node, *type) != *type) return false;
    const auto to_place = [&](Layout layout) {
      return add_place({.shape = types_.at(result).shape, .layout = layout, .type = *type});
    };
    if (is_rectifier(*step.node)) {
      const size_t from = place_of(input, *type, std::nullopt, *step.node);
      std::vector<uint8_t> table(256);
      for (size_t i = 0; i < table.size(); ++i)
        table[i] = std::max(static_cast<uint8_t>(i), static_cast<uint8_t>(type->zero_point - type->low));
      const size_t to = to_place(plan_.places[from].layout);
      add(table_step(kernels_, std::move(table), read(from), to), step.node->name,
          fmt::format("table {}", kernels_.name));
      set_place(result, to);
      return true;
    }
    if (is_pooling(*step.node, Pooling::Of::kLargest) && has_positions(input)) {
      PoolingWindows windows = pooling_windows(*step.node, types_.at(input).shape);
      for (const auto& dimension : windows) {
        for (const PoolingWindow& window : dimension)
          if (window.end <= window.begin) return false;
      }
      const size_t from = place_of(input, *type, Layout::kChannelsLast, *step.node);
      const size_t to = to_place(Layout::kChannelsLast);
      add(largest_step(kernels_, std::move(windows), read(from), to), step.node->name,
          fmt::format("largest {}", kernels_.name));
      set_place(result, to);
      return true;
    }
    if (!is_view(*step.node)) return plan_movement(step, result, *type);
    const size_t from = place_of(input, *type, std::nullopt, *step.node);
    const size_t to = to_place(Layout::kRows);
    add(copy_step(read(from), to), step.node->name, "copy");
    set_place(result, to);
    return true;
  }

  /// Slices, permutations, concatenations: of inputs of one type.
  bool plan_movement(const ReferenceStep& step, const std::string& result, const CodeType& type) {
    const Node& node = *step.node;
    const auto* movement = trait<Movement>(node);
    if (movement == nullptr || !movement->copies) return false;
    constexpr int64_t kMostElements = int64_t{1} << 22;  // whose places are noted one by one
    if (element_count(types_.at(result).shape) > kMostElements) return false;
    std::vector<std::string> inputs;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      inputs.push_back(value_name(node.inputs[i]));
      shapes.push_back(types_.at(inputs.back()).shape);
      const std::optional<CodeType> own = step.inputs[i] ? step.inputs[i] : values_.at(inputs.back()).type;
      if (own != type) return false;
    }
    MovedInputs moved{.places = {}, .copies = movement->copies(node, shapes, types_.at(result).shape)};
    // As its inputs lie, where the result can.
    std::optional<Layout> layout;
    for (const std::string& input : inputs) {
      moved.places.push_back(place_of(input, type, std::nullopt, node));
      if (!layout) layout = plan_.places[moved.places.back()].layout;
    }
    if (!has_positions(result)) layout = Layout::kRows;
    for (const size_t place : moved.places) read(place);
    const size_t to = add_place({.shape = types_.at(result).shape, .layout = *layout, .type = type});
    add(movement_step(std::move(moved), to), node.name, "moved bytes");
    set_place(result, to);
    return true;
  }

  void plan_reference(const ReferenceStep& step) {
    const Node& node = *step.node;
    std::vector<size_t> inputs;
    for (const NodeInput& input : node.inputs)
      inputs.push_back(input.is_constant() ? kNoFlow : flow_of(value_name(input)));
    for (const size_t flow : inputs) {
      if (flow != kNoFlow) note_flow(flow);
    }
    std::vector<size_t> results;
    for (size_t i = 0; i < result_count(node); ++i) {
      const std::string name = value_name(node.name, i);
      Value value = new_value(name);
      value.flow = new_flow();
      value.flow_is_ready = true;
      note_flow(value.flow);
      results.push_back(value.flow);
      value.type = result_type(step, i);
      values_.emplace(name, std::move(value));
    }
    auto computed = weights_.contain(node.name)
                        ? std::make_shared<const ReferenceStep>(with_weights(step, weights_))
                        : std::shared_ptr<const ReferenceStep>(std::shared_ptr<void>(), &step);
    const char* kernel = step.engine == NodeEngine::kFloat ? "float" : "reference";
    add(reference_step(std::move(computed), in_float_, std::move(inputs), std::move(results)), node.name,
        kernel, why_reference(step));
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
      std::optional<CodeType> type = step.inputs[i] ? step.inputs[i] : values_.at(name).type;
      if (!is_first && common != type) return std::nullopt;
      is_first = false;
      common = type;
    }
    return common ? std::optional(moved_type(*step.node, *common)) : std::nullopt;
  }

  std::string why_reference(const ReferenceStep& step) const {
    if (step.role != OperatorRole::kComputes) return "";
    if (step.engine == NodeEngine::kFloat) return "computes in float";
    if (weights_.contain(step.node->name)) return "its rank";
    if (trait<TableLayer>(*step.node) != nullptr) return "truth tables";
    if (!step.form) return "no kernel moves elements so";
    if (const auto* sums = std::get_if<SumForm>(&*step.form)) return why_not_packed(*sums, *step.node);
    if (const auto* blocks = std::get_if<BlockSumForm>(&*step.form)) return why_not_packed(*blocks);
    if (std::holds_alternative<ProductForm>(*step.form)) return "product of two inputs";
    if (const auto* pair = std::get_if<PairForm>(&*step.form)) {
      if (pair->operation != PairOperation::kAdd) return "a pair other than a sum";
      if (pair->fixed_point) return "a sum in fixed point";
      return adds_bytes(step) ? "a sum of different shapes" : "codes of more than 8 bits";
    }
    return std::holds_alternative<AverageForm>(*step.form) ? "a mean of these codes or windows"
                                                           : "codes of more than 8 bits";
  }

  std::span<const ReferenceStep> steps_;
  const ValueTypes& types_;
  const ProgramWeights& weights_;
  const KernelSet& kernels_;
  const FloatNodes* in_float_;
  std::map<size_t, FusedLayer> fused_;
  std::set<size_t> inner_;  // steps that a later one computes
  std::map<std::string, Value, std::less<>> values_;
  std::map<size_t, size_t> flow_uses_;  // the last step
  std::set<size_t> kept_flows_;
  ProgramPlan plan_;
};

}  // namespace

ReferenceStep with_weights(const ReferenceStep& step, const ProgramWeights& weights) {
  ReferenceStep result = step;
  const auto layer = weights.layers.find(step.node->name);
  const auto blocks = weights.block_layers.find(step.node->name);
  if (layer != weights.layers.end()) {
    auto& form = std::get<SumForm>(*result.form);
    form.weight = unpacked_weights(*layer->second, form.weight.shape());
  } else if (blocks != weights.block_layers.end()) {
    std::get<BlockSumForm>(*result.form).weight = blocks->second->unpacked();
  }
  return result;
}

ProgramPlan plan_program(std::span<const ReferenceStep> steps, const ValueTypes& values,
                         const ProgramWeights& weights, const KernelSet& kernels,
                         const FloatNodes* in_float) {
  return Planner(steps, values, weights, kernels, in_float).planned();
}

}  // namespace detent
