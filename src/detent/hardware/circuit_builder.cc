#include "detent/hardware/design.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "detent/core/error.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/hardware/circuit.h"
#include "detent/hardware/layer_circuits.h"
#include "detent/hardware/verilog.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"

namespace detent {
namespace {

/// A tensor of one sample as wires; a constant wire stands for the value 0 until a layer's codes are known.
struct WiredValue {
  Shape shape;  // with a batch of 1
  std::vector<Wire> wires;
};

WireRange range_of(const CodeMeaning& meaning) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning)) return range_of(affine->type);
  return {0, std::ssize(std::get<ListMeaning>(meaning).values) - 1};
}

/// The code that stands for `value`; nullopt where there is none.
std::optional<int64_t> code_of(const CodeMeaning& meaning, float value) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning)) return affine->type.code(value);
  const auto& values = std::get<ListMeaning>(meaning).values;
  const auto found = std::ranges::find(values, value);
  if (found == values.end()) return std::nullopt;
  return found - values.begin();
}

int64_t zero_code(const CodeMeaning& meaning) {
  if (const auto* affine = std::get_if<AffineMeaning>(&meaning)) return affine->type.zero_point;
  if (std::holds_alternative<ScaledMeaning>(meaning)) return 0;
  const std::optional<int64_t> code = code_of(meaning, 0);
  if (!code) fail("0, which padding consists of, is none of its values");
  return *code;
}

/// Bits that one table may read, and so 2^16 entries for each bit of its result.
constexpr int64_t kMostTableBits = 16;

class CircuitBuilder {
 public:
  CircuitBuilder(const Graph& graph, const CircuitOptions& options)
      : graph_(graph), types_(infer_shapes(graph)) {
    circuit_.name = modules_.unique(options.name.empty() ? graph.name() : options.name);
    // Names of wires of the module's and its testbench's own.
    for (const char* name : {"clk", "dut", "i", "k", "differs", "differing_bits", "differing_vectors"})
      ports_.unique(name);
  }

  Circuit build() {
    for (const Node& node : graph_.nodes()) {
      try {
        add(node);
      } catch (const Error& error) {
        reasons_.emplace_back(error.what());
      }
    }
    for (const int32_t signal : pending_) {
      const std::string& name = circuit_.signals[static_cast<size_t>(signal)].node;
      if (reasons_.empty())
        reasons_.push_back(fmt::format("input \"{}\": nothing that reads it says which codes it has", name));
    }
    if (!reasons_.empty()) {
      fail("graph \"{}\" cannot be made hardware:\n  {}", graph_.name(), fmt::join(reasons_, "\n  "));
    }
    return std::move(circuit_);
  }

 private:
  using Values = std::vector<WiredValue>;

  void add(const Node& node) {
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kNumber) return;
    if (role == OperatorRole::kInput) return add_input(node);
    if (role == OperatorRole::kConstant)
      fail("node \"{}\" ({}): no hardware is made of tensors that layers read as inputs", node.name, node.op);
    const std::optional<NodeForm> form = form_of(node);
    if (role == OperatorRole::kComputes && node_engine(node, form, types_) == NodeEngine::kFloat)
      fail("node \"{}\" ({}): computes in float: {}", node.name, node.op, why_in_float(node));
    if (const std::string accumulator = inexact_accumulator_text(graph_, node); !accumulator.empty())
      fail("node \"{}\" ({}): {}, which circuits here have not: they hold every sum", node.name, node.op,
           accumulator);
    std::optional<Values> inputs = inputs_of(node);
    if (!inputs) return;  // what gives them has said why
    if (role == OperatorRole::kOutput) return add_outputs(node, *inputs);
    Values results;
    if (const auto* tables = trait<TableLayer>(node)) {
      results.push_back(looked_up(*tables, node, std::move(inputs->front())));
    } else if (form) {
      results.push_back(std::visit([&](const auto& kind) { return computed(kind, node, *inputs); }, *form));
    } else if (is_rectifier(node)) {
      results.push_back(rectified(node, inputs->front()));
    } else if (is_pooling(node, Pooling::Of::kLargest)) {
      results.push_back(largest(node, inputs->front()));
    } else {
      results = moved(node, *inputs);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::optional<CodeType> type = operand_code_type(node, fmt::format("data_out_{}", i));
      if (type) convert(node, results[i], AffineMeaning{*type});
      values_[value_name(node.name, i)] = std::move(results[i]);
    }
  }

  /// The form of a node of affine codes, in integers alone: no circuit here computes on signs or adds in
  /// floating point.
  std::optional<NodeForm> form_of(const Node& node) const {
    for (const auto& [operand, quantizer] : node.quantization) {
      const auto type = operand.starts_with("data_") ? executed_type(node, operand) : std::nullopt;
      if (type && type->is_sign) return std::nullopt;
    }
    std::optional<NodeForm> form = node_form(node, *graph_.requantization());
    return form && std::holds_alternative<BlockSumForm>(*form) ? std::nullopt : std::move(form);
  }

  std::string why_in_float(const Node& node) {
    if (is_batch_norm(node)) return "fold it into its layer, by the pass fuse_batch_norm";
    if (const std::string why = why_no_product_tables(node); !why.empty()) return why;
    if (plan_.empty()) plan_ = integer_plan(graph_);
    const std::string& why = plan_[graph_.position(node.name)].why;
    return why.empty() ? "its codes are no affine ones" : why;
  }

  /// With the codes that the node asks for; nullopt where one could not be made.
  std::optional<Values> inputs_of(const Node& node) {
    Values inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant()) continue;
      const std::string name = value_name(node.inputs[i]);
      if (!types_.at(name).is_tensor()) continue;
      const auto found = values_.find(name);
      if (found == values_.end()) return std::nullopt;
      inputs.push_back(found->second);
      const std::optional<CodeType> type = operand_code_type(node, fmt::format("data_in_{}", i));
      if (type) convert(node, inputs.back(), AffineMeaning{*type});
    }
    return inputs;
  }

  void add_input(const Node& node) {
    const Shape& shape = types_.at(node.name).shape;
    const auto signal = static_cast<int32_t>(circuit_.signals.size());
    circuit_.signals.push_back({.name = ports_.unique(node.name),
                                .node = node.name,
                                .codes = {},
                                .elements = element_count(shape),
                                .meaning = {}});
    pending_.insert(signal);
    WiredValue value{shape, wires_of(signal)};
    const std::optional<CodeType> type = operand_code_type(node, "data_out_0");
    if (type) convert(node, value, AffineMeaning{*type});
    circuit_.inputs.push_back(
        {circuit_.signals.back().name, node.name, {shape.begin() + 1, shape.end()}, value.wires});
    values_[node.name] = std::move(value);
  }

  void add_outputs(const Node& node, const Values& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = inputs.size() == 1 ? "y" : fmt::format("y{}", i);
      WiredValue value = inputs[i];
      const CodeMeaning meaning = common_meaning(node, value);
      for (Wire& wire : value.wires) {
        if (wire.is_constant()) wire.element = zero_code(meaning);
      }
      circuit_.outputs.push_back({ports_.unique(name),
                                  value_name(node.inputs[i]),
                                  {value.shape.begin() + 1, value.shape.end()},
                                  std::move(value.wires)});
    }
  }

  std::vector<Wire> wires_of(int32_t signal) const {
    std::vector<Wire> wires;
    for (int64_t i = 0; i < circuit_.signals[static_cast<size_t>(signal)].elements; ++i)
      wires.push_back({signal, i});
    return wires;
  }

  /// Meaning of the codes of all wires; the signals' scales, where these differ, stay with the signals.
  CodeMeaning common_meaning(const Node& node, const WiredValue& value) const {
    const CodeMeaning* meaning = nullptr;
    for (const Wire& wire : value.wires) {
      if (wire.is_constant()) continue;
      if (pending_.contains(wire.signal))
        fail("node \"{}\" ({}): reads an input that has no codes: quantize its data_in_0", node.name,
             node.op);
      const CodeMeaning& of_wire = circuit_.signals[static_cast<size_t>(wire.signal)].meaning;
      const bool alike =
          meaning == nullptr || *meaning == of_wire ||
          (std::holds_alternative<ScaledMeaning>(*meaning) && std::holds_alternative<ScaledMeaning>(of_wire));
      if (!alike) fail("node \"{}\" ({}): reads codes of different formats", node.name, node.op);
      meaning = &of_wire;
    }
    if (meaning == nullptr) fail("node \"{}\" ({}): reads nothing but zeros", node.name, node.op);
    return *meaning;
  }

  WireRange common_codes(const WiredValue& value) const {
    std::optional<WireRange> codes;
    for (const Wire& wire : value.wires) {
      if (wire.is_constant()) continue;
      const WireRange& range = circuit_.signals[static_cast<size_t>(wire.signal)].codes;
      codes = codes ? hull(*codes, range) : range;
    }
    return codes.value_or(WireRange{});
  }

  WiredValue add_layer(const Node& node, Shape shape, std::vector<Wire> inputs, const WireRange& input_codes,
                       LayerBody body, const WireRange& codes, CodeMeaning meaning) {
    const auto signal = static_cast<int32_t>(circuit_.signals.size());
    const std::string module = modules_.unique(circuit_.name + "_" + node.name);
    circuit_.signals.push_back({.name = ports_.unique(node.name),
                                .node = node.name,
                                .codes = codes,
                                .elements = element_count(shape),
                                .meaning = std::move(meaning)});
    circuit_.layers.push_back({.module = module,
                               .node = node.name,
                               .op = node.op,
                               .inputs = std::move(inputs),
                               .input_codes = input_codes,
                               .output = signal,
                               .body = std::move(body)});
    return {std::move(shape), wires_of(signal)};
  }

  std::vector<Wire> resolved(const WiredValue& value, const CodeMeaning& meaning) const {
    std::vector<Wire> wires = value.wires;
    for (Wire& wire : wires) {
      if (wire.is_constant()) wire.element = zero_code(meaning);
    }
    return wires;
  }

  /// The value in codes that stand for something else: what decides the codes of an input, does nothing, or
  /// is a layer of its own.
  void convert(const Node& node, WiredValue& value, const CodeMeaning& target,
               const std::optional<QuantSpec>& rounding = {}) {
    std::map<int32_t, std::vector<Wire*>> by_signal;
    for (Wire& wire : value.wires) {
      if (!wire.is_constant()) by_signal[wire.signal].push_back(&wire);
    }
    for (auto& [number, wires] : by_signal) {
      Signal& signal = circuit_.signals[static_cast<size_t>(number)];
      if (pending_.erase(number) > 0) {
        signal.meaning = target;
        signal.codes = range_of(target);
        signal.rounding = rounding;
      }
      if (signal.meaning == target) continue;
      std::vector<Wire> read;
      for (const Wire* wire : wires) read.push_back(*wire);
      const WiredValue converted = converted_signal(node, number, std::move(read), target, rounding);
      for (size_t i = 0; i < wires.size(); ++i) *wires[i] = converted.wires[i];
    }
  }

  WiredValue converted_signal(const Node& node, int32_t number, std::vector<Wire> read,
                              const CodeMeaning& target, const std::optional<QuantSpec>& rounding) {
    const Signal signal = circuit_.signals[static_cast<size_t>(number)];
    RequantizeBody body;
    std::map<float, int32_t> of_scale;  // elements that share a scale share a function
    for (const Wire& wire : read) {
      const auto element = static_cast<size_t>(wire.element);
      const float step = code_value(signal.meaning, element, 1) - code_value(signal.meaning, element, 0);
      const auto [found, is_new] = of_scale.try_emplace(step, static_cast<int32_t>(body.functions.size()));
      body.of_element.push_back(found->second);
      if (!is_new) continue;
      const auto function = [&](int64_t code) {
        float value = code_value(signal.meaning, element, code);
        if (rounding)
          value = fake_quantize(*rounding, Tensor::from<float>({1}, {&value, 1})).values<float>()[0];
        const std::optional<int64_t> result = code_of(target, value);
        if (!result) fail("node \"{}\" ({}): reads {}, none of its values", node.name, node.op, value);
        return *result;
      };
      const CodeType* type = nullptr;
      if (const auto* affine = std::get_if<AffineMeaning>(&target)) type = &affine->type;
      const double slope =
          type == nullptr ? 1.0 : static_cast<double>(step) / static_cast<double>(type->scale);
      body.functions.push_back(find_requantizer(function, signal.codes, slope));
    }
    const Shape shape = {1, std::ssize(read)};
    LayerBody made = std::move(body);
    if (std::optional<LookupBody> tables = tables_of(std::get<RequantizeBody>(made), signal.codes))
      made = std::move(*tables);
    return add_layer(node, shape, std::move(read), signal.codes, std::move(made), range_of(target), target);
  }

  static WiredValue computed(const BlockSumForm& /*form*/, const Node& node, const Values& /*inputs*/) {
    DETENT_CHECK(false, "a circuit of {}", node.name);
    return {};
  }

  WiredValue computed(const SumForm& form, const Node& node, const Values& inputs) {
    const Shape& shape = types_.at(node.name).shape;
    SumBody body = sum_body(form, node, inputs[0].shape, shape);
    const size_t positions = body.windows.size();
    WireRange codes = body.channels.front().sums;
    std::vector<float> scale(positions * body.channels.size());
    for (size_t c = 0; c < body.channels.size(); ++c) {
      SumBody::Channel& channel = body.channels[c];
      codes = hull(codes, channel.sums);
      for (size_t p = 0; p < positions; ++p)
        scale[body.channels_last ? p * body.channels.size() + c : c * positions + p] = form.scale[c];
      if (!form.output) continue;
      const auto function = [&](int64_t sum) {
        return int64_t{form.requantized(static_cast<int32_t>(sum), c)};
      };
      channel.requantizer =
          find_requantizer(function, channel.sums,
                           static_cast<double>(form.scale[c]) / static_cast<double>(form.output->scale));
    }
    if (std::ranges::adjacent_find(scale, std::not_equal_to<>()) == scale.end()) scale.resize(1);
    CodeMeaning meaning = ScaledMeaning{std::move(scale)};
    if (form.output) meaning = AffineMeaning{*form.output};
    return add_layer(node, shape, resolved(inputs[0], AffineMeaning{form.input}), range_of(form.input),
                     std::move(body), form.output ? range_of(*form.output) : codes, std::move(meaning));
  }

  /// The codes of a list that are those of an affine type, from some code on, need no conversion.
  static std::optional<int64_t> first_code(const CodeMeaning& meaning, std::span<const float> values) {
    const auto* affine = std::get_if<AffineMeaning>(&meaning);
    if (affine == nullptr) return std::nullopt;
    const CodeType& type = affine->type;
    if (type.size() != std::ssize(values)) return std::nullopt;
    for (int32_t i = 0; i < type.size(); ++i) {
      if (type.value(type.low + i) != values[static_cast<size_t>(i)]) return std::nullopt;
    }
    return type.low;
  }

  /// Whether all that comes in are codes of that meaning.
  bool has_meaning(const WiredValue& value, const CodeMeaning& meaning) const {
    return std::ranges::all_of(value.wires, [&](const Wire& wire) {
      return wire.is_constant() || (!pending_.contains(wire.signal) &&
                                    circuit_.signals[static_cast<size_t>(wire.signal)].meaning == meaning);
    });
  }

  WiredValue looked_up(const TableLayer& kind, const Node& node, WiredValue input) {
    const TableLayerView view = table_layer_view(node);
    LookupBody body{.levels = view.levels(), .neurons = {}};
    CodeMeaning meaning = ListMeaning{{view.input_values.begin(), view.input_values.end()}};
    const std::optional<CodeType> type = operand_code_type(node, "data_in_0");
    const std::optional<int64_t> first =
        type ? first_code(AffineMeaning{*type}, view.input_values) : std::nullopt;
    if (first && has_meaning(input, AffineMeaning{*type})) {
      meaning = AffineMeaning{*type};
      body.first_code = *first;
    } else {
      convert(node, input, meaning, type ? std::nullopt : node.rounding("data_in_0"));
    }
    const WireRange input_codes = range_of(meaning);
    check_table_size(node, view, input_codes);
    std::vector<Wire> wires = resolved(input, meaning);
    std::vector<std::vector<int32_t>> windows = table_windows(kind, node, input.shape);
    pad(node, windows, wires, meaning);
    const bool channels_last = kind.spatial_dims == 0;
    add_neurons(view, windows, channels_last, body);
    WireRange codes{0, 0};
    CodeMeaning result = ScaledMeaning{{static_cast<float>(view.scale)}};
    if (!view.output_values.empty()) {
      std::vector<float> values(view.output_values.begin(), view.output_values.end());
      std::ranges::sort(values);
      values.erase(std::unique(values.begin(), values.end()), values.end());
      if (!std::ranges::equal(values, view.output_values)) {
        for (const float value : view.output_values)
          body.results.push_back(
              static_cast<int32_t>(std::ranges::lower_bound(values, value) - values.begin()));
      }
      result = ListMeaning{std::move(values)};
      codes = range_of(result);
    } else {
      for (int64_t o = 0; o < view.outputs; ++o) {
        const SumRange sums = table_sum_range(view, o);
        codes = hull(codes, {view.output_code(o, static_cast<int32_t>(sums.least)),
                             view.output_code(o, static_cast<int32_t>(sums.most))});
      }
    }
    return add_layer(node, types_.at(node.name).shape, std::move(wires), input_codes, std::move(body), codes,
                     std::move(result));
  }

  void check_table_size(const Node& node, const TableLayerView& view, const WireRange& codes) const {
    const int64_t bits = view.fan_in * codes.width();
    if (bits > kMostTableBits) {
      fail("node \"{}\" ({}): {} inputs of {} bits make tables of 2^{} entries, expected at most {} bits",
           node.name, node.op, view.fan_in, codes.width(), bits, kMostTableBits);
    }
  }

  std::vector<std::vector<int32_t>> table_windows(const TableLayer& kind, const Node& node,
                                                  const Shape& input) const {
    if (kind.spatial_dims == 0) return consecutive_windows(element_count(input) / input.back(), input.back());
    const auto kernel = integers_attribute(node, "kernel_size", kind.spatial_dims);
    return windows_of_all_channels(plane_windows(node, input, kernel, types_.at(node.name).shape), input);
  }

  /// In the padding windows read a wire that is 0.
  void pad(const Node& node, std::vector<std::vector<int32_t>>& windows, std::vector<Wire>& wires,
           const CodeMeaning& meaning) const {
    const auto zero = static_cast<int32_t>(wires.size());
    bool pads = false;
    for (std::vector<int32_t>& window : windows) {
      for (int32_t& element : window) {
        pads = pads || element == SumBody::kPadding;
        if (element == SumBody::kPadding) element = zero;
      }
    }
    if (!pads) return;
    try {
      wires.push_back({Wire::kConstant, zero_code(meaning)});
    } catch (const Error& error) {
      throw node_error(node, error);
    }
  }

  WiredValue computed(const TableForm& form, const Node& node, const Values& inputs) {
    LookupBody body{.levels = form.input.size(), .first_code = form.input.low, .neurons = {}};
    const auto table = std::make_shared<const std::vector<int32_t>>(form.codes);
    for (size_t i = 0; i < inputs[0].wires.size(); ++i)
      body.neurons.push_back({.terms = {{{static_cast<int32_t>(i)}, table}}});
    return add_layer(node, types_.at(node.name).shape, resolved(inputs[0], AffineMeaning{form.input}),
                     range_of(form.input), std::move(body), range_of(form.output),
                     AffineMeaning{form.output});
  }

  WiredValue computed(const ProductForm& /*form*/, const Node& node, const Values& /*inputs*/) {
    fail("node \"{}\" ({}): no hardware is made of products of two values", node.name, node.op);
  }

  /// Sums and differences, in multiples of the smaller scale.
  WiredValue computed(const PairForm& form, const Node& node, const Values& inputs) {
    if (inputs[0].shape != inputs[1].shape)
      fail("node \"{}\" ({}): its inputs have the shapes {} and {}, expected equal ones", node.name, node.op,
           shape_text(inputs[0].shape), shape_text(inputs[1].shape));
    SumBody body = pair_body(form, node, std::ssize(inputs[0].wires));
    const WireRange codes = hull(range_of(form.a), range_of(form.b));
    std::vector<Wire> wires = resolved(inputs[0], AffineMeaning{form.a});
    for (const Wire& wire : resolved(inputs[1], AffineMeaning{form.b})) wires.push_back(wire);
    return add_layer(node, types_.at(node.name).shape, std::move(wires), codes, std::move(body),
                     range_of(form.output), AffineMeaning{form.output});
  }

  WiredValue computed(const AverageForm& form, const Node& node, const Values& inputs) {
    return add_layer(node, types_.at(node.name).shape, resolved(inputs[0], AffineMeaning{form.input}),
                     range_of(form.input), average_body(form, node, inputs[0].shape), range_of(form.output),
                     AffineMeaning{form.output});
  }

  WiredValue rectified(const Node& node, const WiredValue& input) {
    const CodeMeaning meaning = common_meaning(node, input);
    const WireRange codes = common_codes(input);
    const int64_t zero = zero_code(meaning);
    if (codes.low >= zero) return input;
    std::vector<Wire> wires = resolved(input, meaning);
    const auto last = static_cast<int32_t>(wires.size());
    wires.push_back({Wire::kConstant, zero});
    LargestBody body;
    for (int32_t i = 0; i < last; ++i) body.windows.push_back({i, last});
    return largest_layer(node, input, std::move(wires), codes, std::move(body),
                         {zero, std::max(zero, codes.high)});
  }

  WiredValue largest(const Node& node, const WiredValue& input) {
    const WireRange codes = common_codes(input);
    return largest_layer(node, input, resolved(input, common_meaning(node, input)), codes,
                         {pooling_elements(node, input.shape)}, codes);
  }

  /// Codes of sums keep the scales of their elements: windows are within a channel, whose scale is one.
  WiredValue largest_layer(const Node& node, const WiredValue& input, std::vector<Wire> wires,
                           const WireRange& codes, LargestBody body, const WireRange& result_codes) {
    CodeMeaning meaning = common_meaning(node, input);
    WireRange range = result_codes;
    if (std::holds_alternative<ScaledMeaning>(meaning)) {
      std::vector<float> scale;
      for (const auto& window : body.windows)
        scale.push_back(scale_of(input.wires[static_cast<size_t>(window.front())]));
      meaning = ScaledMeaning{std::move(scale)};
    } else {
      range = range_of(meaning);
    }
    return add_layer(node, types_.at(node.name).shape, std::move(wires), codes, std::move(body), range,
                     std::move(meaning));
  }

  float scale_of(const Wire& wire) const {
    if (wire.is_constant()) return 1;
    return code_value(circuit_.signals[static_cast<size_t>(wire.signal)].meaning,
                      static_cast<size_t>(wire.element), 1);
  }

  Values moved(const Node& node, const Values& inputs) {
    std::vector<Tensor> places;
    std::vector<Wire> all;
    for (const WiredValue& input : inputs) {
      Tensor& tensor = places.emplace_back(DType::kInt32, input.shape);
      std::iota(tensor.values<int32_t>().begin(), tensor.values<int32_t>().end(),
                static_cast<int32_t>(all.size()));
      all.insert(all.end(), input.wires.begin(), input.wires.end());
    }
    Values results;
    for (size_t i = 0; i < result_count(node); ++i) {
      const Shape& shape = types_.at(value_name(node.name, i)).shape;
      const Tensor from = moved_elements(node, places, shape, -1, i);
      WiredValue& result = results.emplace_back(WiredValue{shape, {}});
      for (const int32_t place : from.values<int32_t>())
        result.wires.push_back(place < 0 ? Wire{} : all[static_cast<size_t>(place)]);
    }
    return results;
  }

  const Graph& graph_;
  ValueTypes types_;
  std::vector<PlannedNode> plan_;
  Circuit circuit_ = {};
  VerilogNames modules_;
  VerilogNames ports_;
  std::map<std::string, WiredValue> values_;
  std::set<int32_t> pending_;  // inputs whose codes nobody has said yet
  std::vector<std::string> reasons_;
};

}  // namespace

Circuit make_circuit(const Graph& graph, const CircuitOptions& options) {
  std::vector<std::string> notes;
  const Graph integers = integer_graph(graph, notes);
  Circuit circuit = CircuitBuilder(integers, options).build();
  circuit.notes = std::move(notes);
  schedule(circuit, options.latency);
  return circuit;
}

}  // namespace detent
