#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/listed_names.h"
#include "detent/core/name_pattern.h"
#include "detent/core/progress.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/integer/block_sums.h"
#include "detent/integer/plan.h"
#include "detent/integer/sum_form.h"
#include "detent/io/file.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/activation_ranges.h"
#include "detent/passes/transform/code_groups.h"
#include "detent/passes/transform/float_weights.h"
#include "detent/passes/transform/static_quantize.h"
#include "detent/passes/transform/weight_ranges.h"

// Quantizes a network for execution in integers (Jacob et al. 2018, arXiv:1712.05877): weights become affine
// symmetric codes, activations affine codes with a zero point, biases 32-bit integers in units of input scale
// times weight scale, and every node that has an integer form computes on codes. Ranges of activations come
// from a run of the float network over calibration samples.
//
// What one node computes and all that only moves or compares it (relu, max pooling, views, padding) are one
// group of values with one scale, chosen for those of its values that a node computes with: a relu behind a
// convolution is so part of the convolution's rounding. Layers with weights take `activations` bits in; what
// adds, joins, averages or looks up takes `elementwise` bits, so that a sum of residuals need not be as
// coarse as the inputs of the layers. `bits` names nodes that take other widths; keep_float wins over it, it
// over the rest.

namespace detent {
namespace {

/// Those that keep_float names.
std::set<std::string, std::less<>> float_nodes(const Graph& graph, const StaticQuantizeOptions& options,
                                               const std::string& where) {
  std::set<std::string, std::less<>> in_float;
  for (const std::string& text : options.keep_float) {
    const NamePattern pattern(text, where + ": key \"keep_float\"");
    const size_t before = in_float.size();
    size_t matches = 0;
    for (const Node& node : graph.nodes()) {
      if (!pattern.matches(node.name)) continue;
      in_float.insert(node.name);
      ++matches;
    }
    if (matches == 0) {
      fail("{}: key \"keep_float\": {}", where, unmatched_pattern_message(text, graph.node_names()));
    }
    if (in_float.size() == before) {
      fail("{}: key \"keep_float\": \"{}\" matches no node that others do not (nodes: {})", where, text,
           listed_names(graph.node_names(), text));
    }
  }
  return in_float;
}

/// What there is instead of layers with weights, and why it is in float.
std::string nothing_to_quantize(const Graph& graph, const CodePlan& plan,
                                const std::set<std::string, std::less<>>& kept) {
  std::vector<std::string> in_float;
  for (const std::string& name : plan.in_float) {
    in_float.push_back(fmt::format("{} ({}: {})", name, graph.node(name).op,
                                   kept.contains(name) ? "keep_float" : "has no integer form"));
  }
  if (!in_float.empty()) return "in float are " + listed_names(in_float);
  std::vector<std::string> others;
  for (const Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kComputes)
      others.push_back(fmt::format("{} ({})", node.name, node.op));
  }
  if (others.empty()) return "the network computes nothing";
  return fmt::format("it has {}, of which none multiplies and sums with constant weights",
                     listed_names(others));
}

/// `masked`: what is to stay in float, unless `bits` names it.
CodePlan make_plan(const Graph& graph, const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                   const std::string& where, const std::set<std::string, std::less<>>& masked = {}) {
  std::set<std::string, std::less<>> in_float = float_nodes(graph, options, where);
  for (const std::string& name : masked)
    if (bits.find(name) == nullptr) in_float.insert(name);
  CodePlan plan = plan_codes(graph, in_float);
  if (plan.weighted.empty()) {
    fail("{}: no linear layer or convolution is left to quantize: {}", where,
         nothing_to_quantize(graph, plan, in_float));
  }
  if (options.first_last_layers != FirstLastLayers::kFloat) return plan;
  for (const size_t edge : {plan.weighted.front(), plan.weighted.back()}) {
    const std::string& name = graph.nodes()[edge].name;
    if (bits.find(name) == nullptr) in_float.insert(name);
  }
  return plan_codes(graph, in_float);
}

QuantSpec activation_spec(const StaticQuantizeOptions& options, IntegerType type) {
  QuantSpec spec;
  spec.format =
      Affine{.width = type.width, .is_signed = type.is_signed, .symmetric = options.symmetric_activations};
  return spec;
}

class NetworkQuantizer {
 public:
  NetworkQuantizer(Graph& graph, const CodePlan& plan, const StaticQuantizeOptions& options,
                   const NodeBitsMatcher& bits, const PassContext& context)
      : graph_(graph),
        plan_(plan),
        options_(options),
        bits_(bits),
        where_(context.where),
        shows_(context.group->is_first()) {}

  void quantize_activations(const MeasuredNetwork& measured) {
    Progress progress("choosing ranges, values", std::ssize(plan_.groups), {.shown = shows_});
    int64_t done = 0;
    for (const CodeGroup& group : plan_.groups) {
      const bool is_known = measured.masked.up_to_one.contains(group.root);
      const Distribution distribution = is_known ? Distribution::of(std::array{0.0F, 1.0F})
                                                 : measured_distribution(measured.graph, group, where_);
      CalibrationOptions calibration = options_.activation_calibration;
      if (is_known) calibration.calibrator = Calibrator::kMinMax;
      std::map<std::pair<int, bool>, QuantizerRef> by_width;
      const auto quantizer_of = [&](IntegerType type) {
        const auto [entry, is_new] = by_width.try_emplace({type.width, type.is_signed});
        if (is_new) {
          *entry->second = calibrate(activation_spec(options_, type), {&distribution, 1}, calibration,
                                     fmt::format("{}: values of \"{}\"", where_, group.root));
        }
        return entry->second;
      };
      for (const CodeRead& read : group.reads) {
        Node& node = graph_.nodes()[read.node];
        node.quantization[fmt::format("data_in_{}", read.input)] = quantizer_of(activation_type(read.node));
      }
      if (group.reads.empty()) quantizer_of(wider(options_.activations, options_.elementwise));
      quantize_group(group, by_width.rbegin()->second);
      progress.update(++done, group.root);
    }
  }

  void quantize_weights() {
    Progress progress("choosing ranges, weights", std::ssize(plan_.weighted), {.shown = shows_});
    int64_t done = 0;
    for (const size_t position : plan_.weighted) {
      progress.update(done++, graph_.nodes()[position].name);
      Node& node = graph_.nodes()[position];
      if (!node.find_quantization("data_in_0")) continue;
      node.quantization["weight"] =
          takes_format(node) ? format_spec(node) : weight_spec(node, weight_type(position).width);
      if (std::optional<RaisedScales> raised = raised_to_fit(node)) raise_scales(node, std::move(*raised));
    }
  }

  /// Rows that are looked up are integers with a scale a row.
  void quantize_rows() {
    for (const size_t position : plan_.rows) {
      Node& node = graph_.nodes()[position];
      QuantSpec spec;
      spec.format = Affine{.width = weight_type(position).width, .symmetric = true};
      spec.granularity = Granularity::kChannel;
      spec.axis = *find_operator(node.op).weight_channel_dim;
      node.quantization["weight"] = calibrated_weight(node, spec);
    }
  }

  /// What was changed so that sums fit into 32 bits, a line a layer.
  const std::string& raised_scales() const { return raised_; }

 private:
  static IntegerType wider(IntegerType a, IntegerType b) { return a.width >= b.width ? a : b; }

  bool is_first_or_last(size_t position) const {
    return position == plan_.weighted.front() || position == plan_.weighted.back();
  }

  /// What the layer takes when nothing names it.
  IntegerType layer_type(size_t position, IntegerType type) const {
    const bool eight =
        options_.first_last_layers == FirstLastLayers::kEightBits && is_first_or_last(position);
    return eight ? wider(type, {type.is_signed, 8}) : type;
  }

  IntegerType weight_type(size_t position) const {
    const NodeWidths* named = bits_.find(graph_.nodes()[position].name);
    if (named != nullptr && named->weights) return named->weights->like(options_.weights);
    return layer_type(position, options_.weights);
  }

  bool takes_format(const Node& node) const {
    if (!options_.weight_format) return false;
    const NodeWidths* named = bits_.find(node.name);
    const auto* sum = trait<WeightedSum>(node);
    const Tensor& weight = node.find_parameter("weight")->tensor;
    return !(named != nullptr && named->weights) && !sum->transposed &&
           weight.dim(sum->reduction_axis()) >= kLeastConvolvedBlock;
  }

  void raise_scales(Node& node, RaisedScales scales) {
    raised_ += fmt::format(
        "static_quantize: {}: {} of {} weight scales raised, the most {:.3g} times, so that biases and sums "
        "fit into 32 bits\n",
        node.name, scales.raised, executed_types(scales.rounding).size(), scales.factor);
    node.quantization["weight"] = std::move(scales.rounding);
  }

  QuantSpec format_spec(const Node& node) const {
    QuantSpec spec = parse_quant_spec_text(*options_.weight_format);
    spec.block_axis = trait<WeightedSum>(node)->reduction_axis();
    return spec;
  }

  /// Type of the quantized integers that the node takes in.
  IntegerType activation_type(size_t position) const {
    const Node& node = graph_.nodes()[position];
    const NodeWidths* named = bits_.find(node.name);
    if (named != nullptr && named->activations) return named->activations->like(options_.activations);
    return is_weighted_sum(node) ? layer_type(position, options_.activations)
                                 : wider(options_.activations, options_.elementwise);
  }

  /// The root's result has the widest type that a node takes in.
  void quantize_group(const CodeGroup& group, const QuantizerRef& quantizer) {
    Node& root = graph_.node(group.root);
    const bool in_float = std::ranges::find(plan_.in_float, group.root) != plan_.in_float.end();
    if (in_float) return;
    root.quantization["data_out_0"] = quantizer;
    if (role_of(root) == OperatorRole::kConstant) root.quantization["value"] = quantizer;  // and is stored so
    for (const size_t position : group.clamps) {
      graph_.nodes()[position].quantization["data_in_0"] = quantizer;
      graph_.nodes()[position].quantization["data_out_0"] = quantizer;
    }
  }

  QuantSpec weight_spec(const Node& node, int width) const {
    const Tensor& weight = node.find_parameter("weight")->tensor;
    QuantSpec spec;
    spec.format = Affine{.width = width, .symmetric = true};
    // With a single channel, its scale is that of the tensor.
    const bool one_channel = options_.weight_granularity == Granularity::kChannel &&
                             weight.dim(*find_operator(node.op).weight_channel_dim) == 1;
    if (options_.weight_granularity != Granularity::kTensor && !one_channel) {
      spec.granularity = options_.weight_granularity;
      spec.group_size = options_.weight_group_size;
      spec.axis = *find_operator(node.op).weight_channel_dim;
    }
    return calibrated_weight(node, spec);
  }

  QuantSpec calibrated_weight(const Node& node, const QuantSpec& spec) const {
    CalibrationOptions calibration = options_.activation_calibration;
    calibration.calibrator = options_.weight_calibrator;
    const std::string where = fmt::format("{}: weight of \"{}\"", where_, node.name);
    const Tensor& weight = node.find_parameter("weight")->tensor;
    return calibrate(spec, weight_distributions(weight, spec, calibration.calibrator, where), calibration,
                     where);
  }

  Graph& graph_;
  const CodePlan& plan_;
  const StaticQuantizeOptions& options_;
  const NodeBitsMatcher& bits_;
  std::string where_;
  bool shows_;  // its progress
  std::string raised_;
};

void check_unquantized(const Graph& graph, const std::string& where) {
  std::vector<std::string> quantized;
  for (const Node& node : graph.nodes()) {
    if (!node.quantization.empty()) quantized.push_back(fmt::format("\"{}\"", node.name));
  }
  if (quantized.empty()) return;
  const char* const advice = "ranges are those of the float network, so begin with that";
  if (quantized.size() == 1) fail("{}: node {} is quantized already: {}", where, quantized[0], advice);
  fail("{}: the network is quantized already (nodes {}): {}", where, listed_names(quantized), advice);
}

void run_static_quantize(Graph& graph, const StaticQuantizeOptions& options, PassContext& context) {
  check_unquantized(graph, context.where);
  const MeasuredNetwork measured = measured_for(graph, options, context);
  IntegerNetwork quantized = quantized_for_integers(graph, measured, options, context);
  graph = std::move(quantized.graph);
  if (!measured.masked.in_float.empty()) {
    context.report(
        fmt::format("static_quantize: in float, as they mask the scores of a softmax (bits = \"NODE=/16\" "
                    "quantizes one): "
                    "{}\n",
                    fmt::join(measured.masked.in_float, ", ")));
  }
  const std::vector<PlannedNode> integers = integer_plan(graph);
  context.report(quantized.raised_scales + "static_quantize: integer plan\n" + plan_summary(integers) +
                 float_weights_text(graph));
  const std::filesystem::path folder = context.output_dir / "static_quantize";
  if (context.group->is_first())
    write_file(context.to_write(folder / "integer_plan.csv"), plan_table(integers).to_csv());
  write_quantization_summary(graph, folder, options.report, context);
}

}  // namespace

MeasuredNetwork measured_for(const Graph& network, const StaticQuantizeOptions& options,
                             PassContext& context) {
  const NodeBitsMatcher bits(options.bits, context.where + ": key \"bits\"");
  MaskedScores masked = masked_scores(network, context);
  const CodePlan plan = make_plan(network, options, bits, context.where, masked.in_float);
  bits.check_all_used(network, plan, context.warn);
  return {measured_activations(network, plan, options.activation_calibration.calibrator, options.num_samples,
                               context),
          std::move(masked)};
}

IntegerNetwork quantized_for_integers(const Graph& network, const MeasuredNetwork& measured,
                                      const StaticQuantizeOptions& options, const PassContext& context) {
  const NodeBitsMatcher bits(options.bits, context.where + ": key \"bits\"");
  const CodePlan plan = make_plan(network, options, bits, context.where, measured.masked.in_float);
  Graph quantized = network;
  NetworkQuantizer quantizer(quantized, plan, options, bits, context);
  quantizer.quantize_activations(measured);
  quantizer.quantize_weights();
  quantizer.quantize_rows();
  quantized.set_requantization(options.requantization);
  verify(quantized);
  integer_plan(quantized);  // refuses overflows
  return {std::move(quantized), quantizer.raised_scales()};
}

namespace {

void check_weight_format(const StaticQuantizeOptions& options, const std::string& where) {
  QuantSpec spec;
  try {
    spec = parse_quant_spec_text(*options.weight_format);
  } catch (const Error& error) {
    fail("{}: key \"weight_format\": {}", where, error.what());
  }
  const std::optional<BlockSize> blocks = block_size(spec.format);
  if (!blocks || !blocks->is_single() || spec.block_axis) {
    fail(
        "{}: key \"weight_format\": got {}, expected a format in blocks along the inputs of a layer (mx, "
        "nvfp4, "
        "block_fp), without block_axis",
        where, *options.weight_format);
  }
  if (options.requantization == Requantization::kFixedPoint) {
    fail(
        "{}: key \"weight_format\": got {} with requantization = \"fixed_point\": sums of blocks are scaled "
        "in float",
        where, *options.weight_format);
  }
}

}  // namespace

bool StaticQuantizeOptions::is_below_eight_bits() const {
  constexpr int kEight = 8;
  const auto is_below = [](const auto& codes) { return codes.width < kEight; };
  const auto names_fewer = [&](const NodeWidths& entry) {
    return (entry.weights && is_below(*entry.weights)) || (entry.activations && is_below(*entry.activations));
  };
  if (is_below(activations) || std::ranges::any_of(bits.entries, names_fewer)) return true;
  if (!weight_format) return is_below(weights);
  return bits_per_value(parse_quant_spec_text(*weight_format).format) < kEight;
}

void StaticQuantizeOptions::check(const std::string& where) const {
  if (!weights.is_signed) {
    fail("{}: key \"weights\": got {}, expected a signed type: weights are symmetric", where,
         value_text(weights.to_value()));
  }
  if (weight_format) check_weight_format(*this, where);
  const bool in_groups = weight_granularity == Granularity::kGroup;
  if (in_groups && !weight_group_size) {
    fail(
        "{}: key \"weight_group_size\" is missing: weight_granularity = \"group\" needs the weights of a "
        "group",
        where);
  }
  if (!in_groups && weight_group_size) {
    fail("{}: key \"weight_group_size\": got {}, which only weight_granularity = \"group\" reads", where,
         *weight_group_size);
  }
  for (const IntegerType type : {activations, elementwise}) {
    if (symmetric_activations && !type.is_signed) {
      fail("{}: symmetric_activations = true with {}, expected signed types for activations and elementwise",
           where, value_text(type.to_value()));
    }
  }
  for (const NodeWidths& entry : bits.entries) {
    if (!symmetric_activations || !entry.activations) continue;
    if (entry.activations->like(activations).is_signed) continue;
    fail("{}: key \"bits\": symmetric_activations = true with unsigned activations for \"{}\"", where,
         entry.pattern);
  }
  const NodeBitsMatcher patterns(bits, where + ": key \"bits\"");
  for (const std::string& text : keep_float) NamePattern(text, where + ": key \"keep_float\"");
}

void StaticQuantizeOptions::check_graph(const Graph& graph, const EarlierPasses& earlier,
                                        const std::string& where) const {
  if (earlier.quantize) fail("{}: a pass before it quantizes: ranges are those of the float network", where);
  check_unquantized(graph, where);
  if (earlier.change_network) {
    float_nodes(graph, *this, where);
    return;
  }
  const NodeBitsMatcher widths(bits, where + ": key \"bits\"");
  const CodePlan plan = make_plan(graph, *this, widths, where);
  widths.check_all_used(graph, plan, [](const std::string&) {});  // warned of when it runs
}

PassInfo static_quantize_pass() {
  return make_pass("static_quantize", PassKind::kTransform,
                   "quantizes weights and activations for execution in integers", run_static_quantize,
                   PassStage::kQuantizing);
}

}  // namespace detent
