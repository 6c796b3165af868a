#include <algorithm>
#include <map>
#include <optional>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/graph_edits.h"
#include "detent/passes/truth_tables/lutnet_layer.h"
#include "detent/passes/truth_tables/lutnet_tables.h"

// Trained tables become truth tables (graph/table_layer.h), which compute the same in integers:
//
//     lutnet_a -> batch_norm -> max_pool -> lutnet_b    ->    lut_a -> max_pool -> signs of b -> lut_b
//
// The sums of a pass thresholds, which are found by running what stands between the layers; so lut_a gives
// the code of the signs that b reads, and a table for each code the signs themselves. With one level the code
// is the sign. Where b does not read such sums, its signs are read from values of a format that the first
// step's input has, or else from b's input, which is rounded.

namespace detent {
namespace {

struct FinishLutnetOptions {
  int64_t amplitude_width = 6;
  int64_t check_samples = 1024;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("amplitude_width", self.amplitude_width,
          "bits of a table's contribution to a sum, where training has not rounded it", Between{1, 16});
    visit("check_samples", self.check_samples, "calibration samples compared bit for bit; 0: none",
          Between{0, 1e9});
  }
};

/// The most of a format whose values are listed.
constexpr double kMostInputBits = 12;

bool is_step(const Node& node) { return is_batch_norm(node) || clamp_of(node) != nullptr; }

/// Whether a node changes neither codes nor their order.
bool moves_largest(const Node& node) {
  return (is_view(node) && node.inputs.size() == 1) || is_pooling(node, Pooling::Of::kLargest);
}

/// A layer of trained tables and how its signs come about.
struct Place {
  std::string layer;
  std::vector<std::string> moves = {};  // between the steps and the layer, in the order of execution
  std::vector<std::string> steps = {};
  std::string source = {};
  enum class Kind { kSums, kValues, kRounded } kind = Kind::kRounded;
  std::vector<float> gamma = {};
  size_t spatial_dims = 0;
};

/// Builds the graph of truth tables next to that of trained ones.
class Finishing {
 public:
  Finishing(const Graph& graph, PassContext& context)
      : graph_(graph), context_(context), values_(infer_shapes(graph)), readers_(reader_counts(graph)) {}

  Graph run() {
    for (const Node& node : graph_.nodes())
      if (trained_tables(node)) places_.push_back(find_place(node));
    for (const Place& place : places_) convert(place);
    return assembled();
  }
  std::string report() const { return report_; }

 private:
  Place find_place(const Node& layer) const;
  void convert(const Place& place);
  void convert_source(const Place& place, const Node& layer);
  void read_values(const Place& place, const Node& layer);
  void read_rounded(const Place& place, const Node& layer);
  Graph assembled() const;

  const Node* chained(const std::string& name) const {
    const Node& node = graph_.node(name);
    return readers_.at(name) == 1 ? &node : nullptr;
  }
  ElementSteps steps_of(const Place& place, int64_t channels, size_t rank) const {
    std::vector<const Node*> steps;
    for (const std::string& step : place.steps) steps.push_back(&graph_.node(step));
    return {steps, channels, rank, context_.executor()};
  }
  Node& converted(const std::string& name) {
    return changed_.try_emplace(name, graph_.node(name)).first->second;
  }

  const Graph& graph_;
  PassContext& context_;
  ValueTypes values_;
  std::map<std::string, size_t> readers_;
  std::vector<Place> places_;
  std::map<std::string, Node> changed_;
  std::map<std::string, IntegerTables> tables_;
  std::map<std::string, std::vector<Node>> in_front_;  // of the node of that name
  std::map<std::string, std::string> replaced_;
  std::string report_;
};

Parameter fixed(Tensor tensor) { return {std::move(tensor), false}; }

std::vector<float> gamma_of(const Node& layer) {
  const auto gamma = layer.find_parameter("gamma")->tensor.values<float>();
  return {gamma.begin(), gamma.end()};
}

Place Finishing::find_place(const Node& layer) const {
  Place place{.layer = layer.name, .gamma = gamma_of(layer)};
  place.spatial_dims = trained_tables(layer)->spatial_dims;
  std::string at = layer.inputs[0].node;
  for (const Node* node = chained(at); node != nullptr && moves_largest(*node); node = chained(at)) {
    place.moves.insert(place.moves.begin(), at);
    at = node->inputs[0].node;
  }
  for (const Node* node = chained(at); node != nullptr && is_step(*node); node = chained(at)) {
    place.steps.insert(place.steps.begin(), at);
    at = node->inputs[0].node;
  }
  place.source = at;
  // Norms have their channels in dimension 1, which are the outputs of a layer of rows if it has no others.
  const auto sums = trained_tables(graph_.node(at));
  const bool has_outputs_as_channels =
      sums && (sums->spatial_dims > 0 || values_.at(at).shape.size() == 2 || place.steps.empty());
  if (chained(at) != nullptr && has_outputs_as_channels) {
    place.kind = Place::Kind::kSums;
    return place;
  }
  if (place.steps.empty()) return place;
  const std::optional<QuantSpec> rounding = graph_.node(place.steps.front()).rounding("data_in_0");
  if (rounding && rounding->granularity == Granularity::kTensor &&
      bits_per_value(rounding->format) <= kMostInputBits)
    place.kind = Place::Kind::kValues;
  return place;
}

Table window_of_one(size_t spatial_dims) {
  if (spatial_dims == 0) return {};
  return {{"kernel_size", 1}};
}

/// A layer whose outputs are functions of one input each, `outputs_of_input` of them side by side:
/// `entry(output, input code)`.
template <class Entry>
Node functions_of_one(std::string name, const std::string& input, size_t spatial_dims, int64_t outputs,
                      int64_t outputs_of_input, const std::vector<float>& input_values, const Entry& entry) {
  Tensor inputs(DType::kInt64, {outputs, 1, 1});
  Tensor tables(DType::kInt32, {outputs, 1, static_cast<int64_t>(input_values.size())});
  for (int64_t output = 0; output < outputs; ++output) {
    inputs.values<int64_t>()[static_cast<size_t>(output)] = output / outputs_of_input;
    for (size_t code = 0; code < input_values.size(); ++code)
      tables.values<int32_t>()[static_cast<size_t>(output) * input_values.size() + code] =
          entry(output, code);
  }
  Node node{.name = std::move(name), .op = truth_tables_operator(spatial_dims)};
  node.mase_type = MaseType::kModuleRelatedFunc;
  node.inputs = {NodeInput::of(input)};
  node.attributes = window_of_one(spatial_dims);
  node.parameters = {{"inputs", fixed(std::move(inputs))},
                     {"tables", fixed(std::move(tables))},
                     {"input_values",
                      fixed(Tensor::from<float>({static_cast<int64_t>(input_values.size())}, input_values))}};
  return node;
}

void give_signs(Node& node) {
  node.parameters.emplace_back("output_values", fixed(Tensor::from<float>({2}, std::vector<float>{-1, 1})));
}

/// Bit of the code that has the sign of a level.
int32_t sign_bit(int code, size_t level, size_t levels) {
  return static_cast<int32_t>(code >> (levels - 1 - level) & 1);
}

int64_t channels_of(const Shape& shape, size_t spatial_dims) {
  return spatial_dims == 0 ? shape.back() : shape[1];
}

/// Positions of a window in each channel.
int64_t window_positions(const Node& layer, size_t spatial_dims) {
  if (spatial_dims == 0) return 1;
  return element_count(integers_attribute(layer, "kernel_size", spatial_dims));
}

std::string unused_name(const Graph& graph, std::string name) {
  while (graph.find(name) != nullptr) name += "_";
  return name;
}

/// Codes 0, 1, ... that a layer gives become signs side by side.
Node signs_of_codes(const Graph& graph, const Place& place, const std::string& input, int64_t channels) {
  const size_t levels = place.gamma.size();
  std::vector<float> codes;
  for (int code = 0; code < 1 << levels; ++code) codes.push_back(static_cast<float>(code));
  Node node = functions_of_one(unused_name(graph, place.layer + "_signs"), input, place.spatial_dims,
                               channels * static_cast<int64_t>(levels), static_cast<int64_t>(levels), codes,
                               [&](int64_t output, size_t code) {
                                 return sign_bit(static_cast<int>(code), static_cast<size_t>(output) % levels,
                                                 levels);
                               });
  give_signs(node);
  return node;
}

/// The layer's truth tables, of inputs -magnitude and magnitude, and of 0 where it is padded.
void set_tables(Node& node, const Node& layer, const IntegerTables& tables, float magnitude) {
  const TrainedTables shape = *trained_tables(layer);
  const std::vector<float> values = has_padding(layer) ? std::vector<float>{-magnitude, 0, magnitude}
                                                       : std::vector<float>{-magnitude, magnitude};
  node.op = truth_tables_operator(shape.spatial_dims);
  for (const char* name : {"unit", "binarize"}) node.attributes.erase(name);
  node.attributes["scale"] = tables.scale;
  node.statistics = {};
  node.parameters = {
      {"inputs", fixed(Tensor::from<int64_t>({tables.outputs, tables.terms, tables.fan_in}, tables.inputs))},
      {"tables", fixed(Tensor::from<int32_t>({tables.outputs, tables.terms, tables.entries}, tables.tables))},
      {"input_values", fixed(Tensor::from<float>({static_cast<int64_t>(values.size())}, values))}};
}

/// The layer in front, whose sums become codes of the signs that this one reads.
void Finishing::convert_source(const Place& place, const Node& layer) {
  const Node& source = graph_.node(place.source);
  IntegerTables& tables = tables_.at(place.source);
  const size_t rank = std::max<size_t>(values_.at(place.source).shape.size(), 2);
  const std::vector<int32_t> thresholds =
      find_thresholds(tables, steps_of(place, tables.outputs, rank), place.gamma);
  Node& node = converted(place.source);
  const float magnitude = node.parameters.back().second->tensor.values<float>().back();
  set_tables(node, source, tables, magnitude);
  node.attributes["scale"] = 1.0;
  node.parameters.emplace_back(
      "thresholds",
      fixed(Tensor::from<int32_t>({tables.outputs, static_cast<int64_t>(thresholds.size()) / tables.outputs},
                                  thresholds)));
  for (const std::string& step : place.steps) replaced_[step] = graph_.node(step).inputs[0].node;
  if (place.gamma.size() == 1) return give_signs(node);
  const std::string& input = layer.inputs[0].node;
  const int64_t channels = channels_of(values_.at(input).shape, place.spatial_dims);
  Node signs = signs_of_codes(graph_, place, input, channels);
  converted(place.layer).inputs[0] = NodeInput::of(signs.name);
  in_front_[place.layer].push_back(std::move(signs));
}

/// The values of a format pass the steps one by one.
void Finishing::read_values(const Place& place, const Node& layer) {
  const Node& first = graph_.node(place.steps.front());
  const QuantSpec spec = *first.rounding("data_in_0");
  const std::vector<float> values = representable_values(spec.format);
  const std::string& input = first.inputs[0].node;
  const Shape& shape = values_.at(place.steps.back()).shape;
  const int64_t channels = shape.at(1);
  const ElementSteps steps = steps_of(place, channels, shape.size());
  std::vector<float> rows;
  for (const float value : values) rows.insert(rows.end(), static_cast<size_t>(channels), value);
  const std::vector<float> results = steps.run(rows);
  const auto code_of = [&](int64_t channel, size_t value) {
    return residual_code(results[value * static_cast<size_t>(channels) + static_cast<size_t>(channel)],
                         place.gamma);
  };
  const size_t levels = place.gamma.size();
  const auto dims = shape.size() - 2;
  const bool at_once = place.moves.empty() && dims == place.spatial_dims;
  const auto each = static_cast<int64_t>(at_once ? levels : 1);
  Node node =
      functions_of_one(unused_name(graph_, place.layer + (at_once ? "_signs" : "_codes")), input, dims,
                       channels * each, each, values, [&](int64_t output, size_t value) -> int32_t {
                         const int code = code_of(output / each, value);
                         return at_once ? sign_bit(code, static_cast<size_t>(output % each), levels) : code;
                       });
  if (at_once) give_signs(node);
  node.quantization["data_in_0"] = Quantizer(spec);
  const std::string name = node.name;
  in_front_[place.steps.front()].push_back(std::move(node));
  replaced_[place.steps.front()] = name;
  for (size_t i = 1; i < place.steps.size(); ++i) replaced_[place.steps[i]] = name;
  if (at_once) {
    converted(place.layer).inputs[0] = NodeInput::of(name);
    return;
  }
  const int64_t elements = channels_of(values_.at(layer.inputs[0].node).shape, place.spatial_dims);
  Node signs = signs_of_codes(graph_, place, layer.inputs[0].node, elements);
  converted(place.layer).inputs[0] = NodeInput::of(signs.name);
  in_front_[place.layer].push_back(std::move(signs));
}

/// Any other input is rounded to what its signs count together.
void Finishing::read_rounded(const Place& place, const Node& layer) {
  const auto values = residual_values(place.gamma);
  if (!values)
    fail("node \"{}\" ({}): two choices of signs add up to one value of its input", layer.name, layer.op);
  QuantSpec spec;
  spec.format = sum_of_signs(place.gamma);
  if (place.gamma.size() == 1) {
    converted(place.layer).quantization["data_in_0"] = Quantizer(spec);
    return;
  }
  std::vector<float> listed;
  for (const auto& [value, code] : *values) listed.push_back(value);
  const std::string& input = layer.inputs[0].node;
  const auto levels = static_cast<int64_t>(place.gamma.size());
  Node node = functions_of_one(unused_name(graph_, place.layer + "_signs"), input, place.spatial_dims,
                               channels_of(values_.at(input).shape, place.spatial_dims) * levels, levels,
                               listed, [&](int64_t output, size_t index) {
                                 return sign_bit((*values)[index].second,
                                                 static_cast<size_t>(output % levels), place.gamma.size());
                               });
  give_signs(node);
  node.quantization["data_in_0"] = Quantizer(spec);
  converted(place.layer).inputs[0] = NodeInput::of(node.name);
  in_front_[place.layer].push_back(std::move(node));
}

void Finishing::convert(const Place& place) {
  const Node& layer = graph_.node(place.layer);
  IntegerTables tables = integer_tables(layer, window_positions(layer, place.spatial_dims));
  const bool is_rounded_sign = place.kind == Place::Kind::kRounded && place.gamma.size() == 1;
  set_tables(converted(place.layer), layer, tables, is_rounded_sign ? place.gamma.front() : 1);
  report_ += fmt::format("finish_lutnet: {}: {} sums of {} tables of {} inputs\n", layer.name, tables.outputs,
                         tables.terms, tables.fan_in);
  tables_.emplace(place.layer, std::move(tables));
  switch (place.kind) {
    case Place::Kind::kSums:
      return convert_source(place, layer);
    case Place::Kind::kValues:
      return read_values(place, layer);
    case Place::Kind::kRounded:
      return read_rounded(place, layer);
  }
}

/// In the order of the original, with what was added in front of its readers.
Graph Finishing::assembled() const {
  Graph result(graph_.name());
  const auto add = [&](Node node) {
    for (NodeInput& input : node.inputs) {
      for (auto other = replaced_.find(input.node); other != replaced_.end();
           other = replaced_.find(input.node))
        input.node = other->second;
    }
    result.add(std::move(node));
  };
  for (const Node& node : graph_.nodes()) {
    if (const auto added = in_front_.find(node.name); added != in_front_.end())
      for (const Node& each : added->second) add(each);
    if (replaced_.contains(node.name)) continue;
    const auto change = changed_.find(node.name);
    const Node& now = change == changed_.end() ? node : change->second;
    if (const auto type = graph_.input_types().find(node.name); type != graph_.input_types().end()) {
      result.add_input(node.name, type->second);
      result.node(node.name) = now;
    } else {
      add(now);
    }
  }
  result.set_requantization(Requantization::kFloat);
  return result;
}

/// Layers whose amplitudes are multiples of nothing get a unit.
void round_amplitudes(Graph& graph, int64_t width) {
  for (Node& node : graph.nodes()) {
    const auto tables = trained_tables(node);
    if (!tables || tables->unit != 0) continue;
    node.attributes["unit"] = amplitude_unit(node.find_parameter("amplitude")->tensor, width);
  }
}

void run_finish_lutnet(Graph& graph, const FinishLutnetOptions& options, PassContext& context) {
  const auto is_trained = [](const Node& node) { return trained_tables(node).has_value(); };
  if (std::ranges::none_of(graph.nodes(), is_trained))
    fail("{}: no layer of trained tables: the pass lutnet makes them", context.where);
  Graph rounded = graph;
  round_amplitudes(rounded, options.amplitude_width);
  Finishing finishing(rounded, context);
  Graph finished = finishing.run();
  verify(finished);
  std::string checked;
  if (options.check_samples > 0) {
    const auto [compared, differing] = compare_output_bits(rounded, finished, options.check_samples, context);
    checked = fmt::format("finish_lutnet: {} of {} outputs differ from the network's\n", differing, compared);
    if (differing > 0) fail("{}: {}", context.where, checked);
  }
  graph = std::move(finished);
  context.report(finishing.report() + checked);
}

}  // namespace

PassInfo finish_lutnet_pass() {
  return make_pass("finish_lutnet", PassKind::kTransform,
                   "turns trained tables into truth tables, which compute the same in integers",
                   run_finish_lutnet, PassStage::kAfterRounding);
}

}  // namespace detent
