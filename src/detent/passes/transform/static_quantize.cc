#include <algorithm>
#include <charconv>
#include <map>
#include <regex>
#include <set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/formats/affine.h"
#include "detent/graph/operators.h"
#include "detent/integer/node_form.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/core/name_pattern.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/code_groups.h"
#include "detent/statistics/calibration.h"
#include "detent/statistics/distribution_results.h"

// Quantizes a network for execution in integers (Jacob et al. 2018, arXiv:1712.05877): weights become affine
// symmetric codes, activations affine codes with a zero point, biases 32-bit integers in units of input scale
// times weight scale, and every node that has an integer form computes on codes. Ranges of activations come
// from a run of the float network over calibration samples.
//
// What one node computes and all that only moves or compares it (relu, max pooling, views, padding) are one
// group of values with one scale, chosen for those of its values that a node computes with: a relu behind a
// convolution is so part of the convolution's rounding. Layers with weights take `activations` bits in; what
// adds, joins, averages or looks up takes `elementwise` bits, so that a sum of residuals need not be as
// coarse as the inputs of the layers.

namespace detent {
namespace {

/// "int8", "uint4": an integer type of 2 to 16 bits.
struct IntegerType {
  bool is_signed = true;
  int width = 8;

  static std::string field_type() { return "int2 to int16 or uint2 to uint16"; }
  Value to_value() const { return fmt::format("{}int{}", is_signed ? "" : "u", width); }
  static IntegerType from_value(const Value& value, const std::string& where) {
    const auto* text = value.get_if<std::string>();
    IntegerType type;
    std::string_view rest = text == nullptr ? std::string_view() : *text;
    if (rest.starts_with('u')) {
      type.is_signed = false;
      rest.remove_prefix(1);
    }
    if (rest.starts_with("int")) {
      rest.remove_prefix(3);
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), type.width);
      const bool complete = error == std::errc() && end == rest.data() + rest.size();
      if (complete && type.width >= 2 && type.width <= 16) return type;
    }
    fail("{}: got {}, expected {}", where, value_text(value), field_type());
  }
  bool operator==(const IntegerType&) const = default;
};

/// How the first and the last layer with weights are quantized.
enum class EdgeLayers { kAsOthers, kEightBits, kFloat };
constexpr std::array<const char*, 3> enum_names(EdgeLayers) { return {"as_others", "eight_bits", "float"}; }

struct StaticQuantizeOptions {
  IntegerType weights;
  IntegerType activations{false, 8};
  IntegerType elementwise{false, 8};
  bool symmetric_activations = false;
  Granularity weight_granularity = Granularity::kChannel;
  Calibrator weight_calibrator = Calibrator::kMinMax;
  CalibrationOptions activation_calibration;
  int64_t num_samples = 1024;
  EdgeLayers edge_layers = EdgeLayers::kAsOthers;
  std::vector<std::string> keep_float;
  Requantization requantization = Requantization::kFloat;
  bool report = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("weights", self.weights, "codes of weights; symmetric, so signed");
    visit("activations", self.activations, "codes that layers with weights take in");
    visit("elementwise", self.elementwise,
          "codes that additions, products, means, concatenations and functions take in, where wider");
    visit("symmetric_activations", self.symmetric_activations, "zero points of 0; for signed codes");
    visit("weight_granularity", self.weight_granularity, "weights that share a scale");
    visit("weight_calibrator", self.weight_calibrator, "how the range of weights is chosen");
    CalibrationOptions::fields(self.activation_calibration, visit);
    visit("num_samples", self.num_samples, "calibration samples", Between{1, 1e12});
    visit("edge_layers", self.edge_layers, "the first and the last layer with weights");
    visit("keep_float", self.keep_float, "regular expressions of names of nodes that stay in float");
    visit("requantization", self.requantization,
          "of 32-bit sums: by a float32 multiplier, or by an integer one and a shift");
    visit("report", self.report, "print the table of nodes and the histogram");
  }
};

CodePlan make_plan(const Graph& graph, const StaticQuantizeOptions& options, const std::string& where) {
  std::set<std::string, std::less<>> in_float;
  for (const std::string& text : options.keep_float) {
    const std::regex pattern = name_pattern(text, where + ": key \"keep_float\"");
    const size_t before = in_float.size();
    for (const Node& node : graph.nodes()) {
      if (std::regex_match(node.name, pattern)) in_float.insert(node.name);
    }
    if (in_float.size() == before) {
      fail("{}: key \"keep_float\": \"{}\" matches no node that others do not (nodes: {})", where, text,
           fmt::join(graph.node_names(), ", "));
    }
  }
  CodePlan plan = plan_codes(graph, in_float);
  if (plan.weighted.empty()) {
    fail("{}: no linear layer or convolution is left to quantize: in float are {}", where,
         fmt::join(plan.in_float, ", "));
  }
  if (options.edge_layers != EdgeLayers::kFloat) return plan;
  for (const size_t edge : {plan.weighted.front(), plan.weighted.back()}) {
    in_float.insert(graph.nodes()[edge].name);
  }
  return plan_codes(graph, in_float);
}

// ---- Ranges of activations.

Table statistics_for(Calibrator calibrator) {
  Table statistics{{"range_min_max", Table()}};
  switch (calibrator) {
    case Calibrator::kMinMax:
      break;
    case Calibrator::kAverageRange:
      statistics["average_range"] = Table();
      break;
    case Calibrator::kNSigma:
      statistics["variance_precise"] = Table();
      break;
    case Calibrator::kPercentile:
    case Calibrator::kMse:
    case Calibrator::kEntropy:
      statistics["histogram"] = Table{{"bins", 2048}};
      break;
  }
  return statistics;
}

/// Runs the float network over calibration samples; the results stand in the metadata of the graph returned.
Graph profiled(const Graph& graph, const CodePlan& plan, const StaticQuantizeOptions& options,
               PassContext& context) {
  std::set<std::string> targets;
  bool outputs = false;
  for (const CodeGroup& group : plan.groups) {
    for (const CodeRead& read : group.reads) targets.insert(graph.nodes()[read.node].name);
    if (!group.reads.empty()) continue;
    targets.insert(group.root);
    outputs = true;
  }
  List names;
  for (const std::string& name : targets) names.emplace_back(name);
  const Table profile = {
      {"by", "name"},
      {"target_activation_nodes", std::move(names)},
      {"profile_output_activation", outputs},
      {"num_samples", options.num_samples},
      {"exact_num_samples", true},
      {"activation_statistics", statistics_for(options.activation_calibration.calibrator)},
  };
  Graph copy = graph;
  for (Node& node : copy.nodes()) node.metadata.software.reset();
  find_pass("profile_statistics").run(copy, profile, context);
  return copy;
}

/// What was seen of one operand. Throws Error where that includes NaN or infinities.
Distribution seen(const Node& node, const std::string& operand, const std::string& where) {
  const SoftwareMetadata& software = *node.metadata.software;
  const Table* results = (operand.starts_with("data_out_") ? software.results : software.args).find(operand);
  DETENT_CHECK(results != nullptr, "no statistics of {} of {}", operand, node.name);
  const std::string place = fmt::format("{}: node \"{}\", operand \"{}\"", where, node.name, operand);
  const Table& range = *results->find("range_min_max")->get_if<Table>();
  for (const auto& [key, kind] : {std::pair("nan_count", "NaN"), std::pair("infinity_count", "infinite")}) {
    const Value* count = range.find(key);
    if (count != nullptr) fail("{}: {} of the calibration values are {}", place, value_text(*count), kind);
  }
  return distributions_of_results(*results, place).at(0);
}

/// Of the values of the group that nodes compute with, each counted once.
Distribution distribution_of(const Graph& measured, const CodeGroup& group, const std::string& where) {
  std::vector<Distribution> parts;
  std::set<std::string> values;
  for (const CodeRead& read : group.reads) {
    if (!values.insert(read.value).second) continue;
    parts.push_back(seen(measured.nodes()[read.node], fmt::format("data_in_{}", read.input), where));
  }
  if (parts.empty()) parts.push_back(seen(measured.node(group.root), "data_out_0", where));
  Distribution merged = Distribution::merged(parts);
  for (const Distribution& part : parts) {
    if (!part.average_range) continue;
    if (!merged.average_range) merged.average_range = part.average_range;
    merged.average_range->low = std::min(merged.average_range->low, part.average_range->low);
    merged.average_range->high = std::max(merged.average_range->high, part.average_range->high);
  }
  return merged;
}

// ---- Types of operands.

QuantSpec activation_spec(const StaticQuantizeOptions& options, IntegerType type) {
  QuantSpec spec;
  spec.format =
      Affine{.width = type.width, .is_signed = type.is_signed, .symmetric = options.symmetric_activations};
  return spec;
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const CodePlan& plan, const StaticQuantizeOptions& options, std::string where)
      : graph_(graph), plan_(plan), options_(options), where_(std::move(where)) {}

  void quantize_activations(const Graph& measured) {
    for (const CodeGroup& group : plan_.groups) {
      const Distribution distribution = distribution_of(measured, group, where_);
      std::map<int, QuantSpec> by_width;
      const auto spec_of = [&](IntegerType type) {
        const auto [entry, is_new] = by_width.try_emplace(type.width);
        if (is_new) {
          entry->second =
              calibrate(activation_spec(options_, type), {&distribution, 1}, options_.activation_calibration,
                        fmt::format("{}: values of \"{}\"", where_, group.root));
        }
        return entry->second;
      };
      for (const CodeRead& read : group.reads) {
        Node& node = graph_.nodes()[read.node];
        node.quantization[fmt::format("data_in_{}", read.input)] = spec_of(type_of(read.node));
      }
      if (group.reads.empty()) spec_of(wider(options_.activations, options_.elementwise));
      quantize_group(group, by_width.rbegin()->second);
    }
  }

  void quantize_weights() {
    for (const size_t position : plan_.weighted) {
      Node& node = graph_.nodes()[position];
      if (!node.find_quantization("data_in_0")) continue;
      node.quantization["weight"] = weight_spec(node, is_edge(position));
    }
  }

 private:
  static IntegerType wider(IntegerType a, IntegerType b) { return a.width >= b.width ? a : b; }

  bool is_edge(size_t position) const {
    return position == plan_.weighted.front() || position == plan_.weighted.back();
  }

  IntegerType type_of(size_t position) const {
    const bool weighted = has_sum_form(graph_.nodes()[position].op);
    if (!weighted) return wider(options_.activations, options_.elementwise);
    const bool eight = options_.edge_layers == EdgeLayers::kEightBits && is_edge(position);
    return eight ? wider(options_.activations, {options_.activations.is_signed, 8}) : options_.activations;
  }

  /// The root's result has the widest type that a node takes in.
  void quantize_group(const CodeGroup& group, const QuantSpec& spec) {
    Node& root = graph_.node(group.root);
    const bool in_float = std::ranges::find(plan_.in_float, group.root) != plan_.in_float.end();
    if (in_float) return;
    root.quantization["data_out_0"] = spec;
    for (const size_t position : group.clamps) {
      graph_.nodes()[position].quantization["data_in_0"] = spec;
      graph_.nodes()[position].quantization["data_out_0"] = spec;
    }
  }

  QuantSpec weight_spec(const Node& node, bool edge) const {
    const Tensor& weight = node.find_parameter("weight")->tensor;
    const bool eight = options_.edge_layers == EdgeLayers::kEightBits && edge;
    QuantSpec spec;
    spec.format = Affine{.width = eight ? std::max(8, options_.weights.width) : options_.weights.width,
                         .symmetric = true};
    std::vector<Distribution> parts;
    if (options_.weight_granularity == Granularity::kChannel) {
      spec.granularity = Granularity::kChannel;
      spec.axis = *find_operator(node.op).weight_channel_dim;
      parts = channel_distributions(weight, spec.axis);
    } else {
      parts.push_back(Distribution::of(weight.values<float>()));
    }
    CalibrationOptions calibration = options_.activation_calibration;
    calibration.calibrator = options_.weight_calibrator;
    return calibrate(spec, parts, calibration, fmt::format("{}: weight of \"{}\"", where_, node.name));
  }

  static std::vector<Distribution> channel_distributions(const Tensor& weight, int64_t axis) {
    const int64_t channels = weight.dim(axis);
    const int64_t inner = element_count({weight.shape().begin() + axis + 1, weight.shape().end()});
    std::vector<std::vector<float>> values(static_cast<size_t>(channels));
    for (int64_t i = 0; i < weight.numel(); ++i) {
      values[static_cast<size_t>(i / inner % channels)].push_back(
          weight.values<float>()[static_cast<size_t>(i)]);
    }
    std::vector<Distribution> parts;
    for (const std::vector<float>& channel : values) parts.push_back(Distribution::of(channel));
    return parts;
  }

  Graph& graph_;
  const CodePlan& plan_;
  const StaticQuantizeOptions& options_;
  std::string where_;
};

void check_options(const StaticQuantizeOptions& options, const std::string& where) {
  if (!options.weights.is_signed) {
    fail("{}: key \"weights\": got {}, expected a signed type: weights are symmetric", where,
         value_text(options.weights.to_value()));
  }
  for (const IntegerType type : {options.activations, options.elementwise}) {
    if (options.symmetric_activations && !type.is_signed) {
      fail("{}: symmetric_activations = true with {}, expected signed types for activations and elementwise",
           where, value_text(type.to_value()));
    }
  }
}

void check_unquantized(const Graph& graph, const std::string& where) {
  for (const Node& node : graph.nodes()) {
    if (node.quantization.empty()) continue;
    fail("{}: node \"{}\" is quantized already: its operand {} has the format {}", where, node.name,
         node.quantization.begin()->first, quant_spec_text(node.quantization.begin()->second));
  }
}

void run_static_quantize(Graph& graph, const StaticQuantizeOptions& options, PassContext& context) {
  check_options(options, context.where);
  check_unquantized(graph, context.where);
  const CodePlan plan = make_plan(graph, options, context.where);
  const Graph measured = profiled(graph, plan, options, context);
  Graph quantized = graph;
  Quantizer quantizer(quantized, plan, options, context.where);
  quantizer.quantize_activations(measured);
  quantizer.quantize_weights();
  quantized.set_requantization(options.requantization);
  verify(quantized);
  for (const Node& node : quantized.nodes()) node_form(node, options.requantization);  // refuses overflows
  graph = std::move(quantized);
  add_common_metadata_pass().run(graph, {}, context);
  if (!plan.in_float.empty()) {
    context.report(fmt::format("static_quantize: in float stay {}\n", fmt::join(plan.in_float, ", ")));
  }
  write_quantization_summary(graph, context.output_dir / "static_quantize", options.report, context);
}

}  // namespace

PassInfo static_quantize_pass() {
  return make_pass("static_quantize", PassKind::kTransform,
                   "quantizes weights and activations for execution in integers", run_static_quantize);
}

}  // namespace detent
