#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/core/progress.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/block_sums.h"
#include "detent/files/file.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"
#include "detent/passes/analysis/quantization_summary.h"
#include "detent/passes/passes.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/passes/post_training/loop_bodies.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/passes/transform/graph_edits.h"

// Quantizes a network for execution in integers (Jacob et al. 2018, arXiv:1712.05877): weights become affine
// symmetric codes, activations affine codes with a zero point, biases 32-bit integers in units of input scale
// times weight scale, and every node that has an integer form computes on codes. Ranges of activations come
// from a run of the float network over calibration samples.
//
// A node's result, with all that later nodes only move or compare of it (relu, max pooling, views, padding),
// is one group of values with one scale, chosen for those that a node computes with: a relu after a
// convolution is so part of the convolution's rounding. Layers with weights take `activations` bits in; nodes
// that add, join, average or look up take `elementwise` bits, so that a sum of residuals need not be as
// coarse as the inputs of the layers. `bits` names nodes that take other widths; keep_float wins over it, it
// over the rest.

namespace detent {
namespace {

/// Throws Error where keep_float names no node of `names`, or none that others do not.
void check_float_nodes(const std::vector<std::string>& names, const StaticQuantizeOptions& options,
                       const std::string& where) {
  std::set<std::string> in_float;
  for (const std::string& text : options.keep_float) {
    const NamePattern pattern(text, where + ": key \"keep_float\"");
    const size_t before = in_float.size();
    size_t matches = 0;
    for (const std::string& name : names) {
      if (!pattern.matches(name)) continue;
      in_float.insert(name);
      ++matches;
    }
    if (matches == 0) fail("{}: key \"keep_float\": {}", where, unmatched_pattern_message(text, names));
    if (in_float.size() == before) {
      fail("{}: key \"keep_float\": \"{}\" matches no node that others do not (nodes: {})", where, text,
           listed_names(names, text));
    }
  }
}

std::vector<std::string> names_with_bodies(const Graph& graph) {
  std::vector<std::string> names;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    for (const std::string& name : each.node_names()) names.push_back(prefix + name);
  });
  return names;
}

/// Whether the pattern names a loop whose body the nodes after `prefix`, "outer.inner.", are in.
bool names_loop_of(const NamePattern& pattern, const std::string& prefix) {
  for (size_t end = prefix.find('.'); end != std::string::npos; end = prefix.find('.', end + 1))
    if (pattern.matches(prefix.substr(0, end))) return true;
  return false;
}

/// Nodes that keep_float names, by themselves or with the loop that they are in.
std::set<std::string, std::less<>> float_nodes(const Graph& graph, const StaticQuantizeOptions& options,
                                               const std::string& prefix, const std::string& where) {
  std::set<std::string, std::less<>> in_float;
  for (const std::string& text : options.keep_float) {
    const NamePattern pattern(text, where + ": key \"keep_float\"");
    const bool all = names_loop_of(pattern, prefix);
    for (const Node& node : graph.nodes())
      if (all || pattern.matches(prefix + node.name)) in_float.insert(node.name);
  }
  return in_float;
}

/// Before calibration.
CodePlan plain_plan(const Graph& graph, const StaticQuantizeOptions& options, const std::string& prefix,
                    const std::string& where) {
  return plan_codes(graph, float_nodes(graph, options, prefix, where));
}

/// In the graph and the bodies of its loops; a body without layers stays in float.
NodesWithWidths nodes_with_widths(const Graph& graph, const CodePlan& plan,
                                  const StaticQuantizeOptions& options, const std::string& where) {
  NodesWithWidths nodes;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    const CodePlan own = prefix.empty() ? plan : plain_plan(each, options, prefix, where);
    prefix.empty() || own.has_weights() ? nodes.add(each, own, prefix) : nodes.add_in_float(each, prefix);
  });
  return nodes;
}

/// Whether a loop of the graph has layers in its body.
bool has_layers_in_bodies(const Graph& graph, const StaticQuantizeOptions& options,
                          const std::string& where) {
  bool has_layers = false;
  for_each_graph(graph, "", [&](const Graph& each, const std::string& prefix) {
    if (!prefix.empty() && plain_plan(each, options, prefix, where).has_weights()) has_layers = true;
  });
  return has_layers;
}

/// Nodes that there are instead of layers with weights, and why they are in float.
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

/// Bits that elementwise nodes take at most, where nothing names them.
int widest_activations(const StaticQuantizeOptions& options) {
  return std::max(options.elementwise.width, options.activations.integer.width);
}

/// `masked`: what is to stay in float, unless `bits` names it; `unrounded`: whose results are.
CodePlan make_plan(const Graph& graph, const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                   const std::string& where, const std::set<std::string, std::less<>>& masked = {},
                   const std::set<std::string, std::less<>>& unrounded = {}) {
  std::set<std::string, std::less<>> in_float = float_nodes(graph, options, bits.prefix(), where);
  for (const std::string& name : masked)
    if (bits.find(name) == nullptr) in_float.insert(name);
  CodePlan plan = plan_codes(graph, in_float, unrounded);
  if (!bits.prefix().empty()) return plan;
  if (!plan.has_weights() && !has_layers_in_bodies(graph, options, where)) {
    throw NothingToQuantize(fmt::format("{}: no linear layer or convolution is left to quantize: {}", where,
                                        nothing_to_quantize(graph, plan, in_float)));
  }
  if (options.first_last_layers != FirstLastLayers::kFloat || plan.weighted.empty()) return plan;
  for (const size_t edge : {plan.weighted.front(), plan.weighted.back()}) {
    const std::string& name = graph.nodes()[edge].name;
    if (bits.find(name) == nullptr) in_float.insert(name);
  }
  return plan_codes(graph, in_float, unrounded);
}

/// Before calibration. `operand` is what `node` takes in.
QuantSpec activation_spec(const StaticQuantizeOptions& options, const OperandFormat& format, const Node& node,
                          const std::string& operand) {
  QuantSpec spec;
  if (format.is_integer()) {
    spec.format = integer_format({.width = format.integer.width,
                                  .is_signed = format.integer.is_signed,
                                  .is_symmetric = options.symmetric_activations});
    return spec;
  }
  spec = *format.other;
  spec.format = with_scale(spec.format);
  const std::optional<BlockSize> blocks = block_size(spec.format);
  if (blocks && blocks->is_single()) spec.block_axis = find_operator(node.op).reduction_dim(operand);
  return spec;
}

/// Whether calibration gives what the format lacks: parameters of channels and groups follow from each input
/// anew, as there is no statistic of them.
bool is_calibrated(const QuantSpec& activations) {
  return is_calibratable(activations.format) && activations.granularity == Granularity::kTensor;
}

CalibrationOptions calibration_for(const Format& format, CalibrationOptions options) {
  if (is_fitted(format)) options.calibrator = Calibrator::kMse;  // there is no better one
  return options;
}

/// Calibrators of the formats of activations.
std::set<Calibrator> calibrators_of(const StaticQuantizeOptions& options) {
  std::set<Calibrator> calibrators = {options.activation_calibration.calibrator};
  const auto add = [&](const std::optional<QuantSpec>& spec) {
    if (spec) calibrators.insert(calibration_for(spec->format, options.activation_calibration).calibrator);
  };
  add(options.activations.other);
  for (const NodeWidths& named : options.named().entries)
    if (named.activations) add(named.activations->format);
  return calibrators;
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
      CalibrationOptions calibration = options_.activation_calibration;
      if (is_known) calibration.calibrator = Calibrator::kMinMax;
      quantize_group(group,
                     is_known ? Distribution::of(std::array{0.0F, 1.0F})
                              : measured_distribution(measured.graph, group, where_),
                     calibration);
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
      node.quantization["weight"] = weight_spec(node, weight_format(position));
      if (std::optional<RaisedScales> raised = raised_to_fit(node)) raise_scales(node, std::move(*raised));
    }
  }

  /// Rows that are looked up, with scales a row; blocks run along each.
  void quantize_rows() {
    for (const size_t position : plan_.rows) {
      Node& node = graph_.nodes()[position];
      const OperandFormat format = named_weight_format(position);
      QuantSpec spec;
      spec.format = integer_format({.width = format.integer.width, .is_symmetric = true});
      if (format.other) spec = *format.other;
      spec = with_scales(spec, Granularity::kChannel, node.find_parameter("weight")->tensor,
                         *find_operator(node.op).weight_channel_dim);
      node.quantization["weight"] = calibrated_weight(node, "weight", spec);
    }
  }

  /// Weights of nodes in float: they are stored as codes, with scales a row, and their values are read.
  void quantize_constants() {
    for (const ConstantWeight& weight : plan_.constants) {
      Node& constant = graph_.nodes()[weight.constant];
      if (constant.find_quantizer("value") == nullptr)
        constant.quantization["value"] = constant_spec(constant, named_weight_format(weight.node));
    }
  }

  /// Scales raised so that sums fit into 32 bits, a line a layer.
  const std::string& raised_scales() const { return raised_; }

 private:
  static OperandFormat wider(const OperandFormat& a, const OperandFormat& b) {
    return a.bits() >= b.bits() ? a : b;
  }

  bool is_first_or_last(size_t position) const {
    if (!bits_.prefix().empty() || plan_.weighted.empty()) return false;
    return position == plan_.weighted.front() || position == plan_.weighted.back();
  }

  /// Format of the layer when nothing names it.
  OperandFormat layer_format(size_t position, const OperandFormat& format) const {
    const bool eight =
        options_.first_last_layers == FirstLastLayers::kEightBits && is_first_or_last(position);
    return eight ? wider(format, {{format.integer.is_signed, 8}}) : format;
  }

  OperandFormat named_weight_format(size_t position) const {
    const NodeWidths* named = bits_.find(graph_.nodes()[position].name);
    if (named != nullptr && named->weights) return named->weights->like(options_.weights);
    return layer_format(position, options_.weights);
  }

  OperandFormat weight_format(size_t position) const {
    constexpr IntegerType kInsteadOfShortBlocks{true, 8};
    const Node& node = graph_.nodes()[position];
    const NodeWidths* named = bits_.find(node.name);
    const bool is_named = named != nullptr && named->weights;
    const OperandFormat format = named_weight_format(position);
    const bool in_blocks = format.other && block_size(format.other->format);
    return in_blocks && !is_named && has_short_blocks(node) ? OperandFormat{kInsteadOfShortBlocks} : format;
  }

  static bool has_short_blocks(const Node& node) {
    const auto* sum = trait<WeightedSum>(node);
    const Tensor& weight = node.find_parameter("weight")->tensor;
    return sum->transposed || weight.dim(sum->reduction_axis()) < kLeastConvolvedBlock;
  }

  void raise_scales(Node& node, RaisedScales scales) {
    raised_ += fmt::format(
        "static_quantize: {}: {} of {} weight scales raised, the most {:.3g} times, so that biases and sums "
        "fit into 32 bits\n",
        bits_.prefix() + node.name, scales.raised, executed_types(scales.rounding).size(), scales.factor);
    node.quantization["weight"] = std::move(scales.rounding);
  }

  /// Format of the node's inputs; nothing where it computes in float.
  std::optional<OperandFormat> activation_format(size_t position) const {
    const Node& node = graph_.nodes()[position];
    const NodeWidths* named = bits_.find(node.name);
    if (named != nullptr && named->activations) return named->activations->like(options_.activations);
    if (is_weighted_sum(node)) return layer_format(position, options_.activations);
    if (options_.activations.is_integer()) return wider(options_.activations, {options_.elementwise});
    if (trait<MatrixProduct>(node) != nullptr) return options_.activations;
    return std::nullopt;
  }

  QuantizerRef activation_quantizer(const CodeGroup& group, const QuantSpec& spec, const Distribution& values,
                                    const CalibrationOptions& calibration) const {
    if (!is_calibrated(spec)) return QuantizerRef(Quantizer(spec));
    return QuantizerRef(Quantizer(calibrate(spec, {&values, 1}, calibration_for(spec.format, calibration),
                                            fmt::format("{}: values of \"{}\"", where_, group.root))));
  }

  /// Where all that read the values take integers, the root's result has the widest of their types. Who reads
  /// floats gets them unrounded, and the others round for themselves.
  void quantize_group(const CodeGroup& group, const Distribution& values,
                      const CalibrationOptions& calibration) {
    std::map<std::string, QuantizerRef> quantizers;
    const auto quantizer_of = [&](const QuantSpec& spec) {
      const std::string text = quant_spec_text(spec);
      const auto found = quantizers.find(text);
      if (found != quantizers.end()) return found->second;
      return quantizers.emplace(text, activation_quantizer(group, spec, values, calibration)).first->second;
    };
    std::optional<QuantizerRef> widest;
    double most = 0;
    bool all_integers = true;
    const auto see = [&](const std::optional<OperandFormat>& format, const QuantizerRef& quantizer) {
      all_integers = all_integers && format && format->is_integer();
      if (!format || format->bits() < most) return;
      most = format->bits();
      widest = quantizer;
    };
    for (const CodeRead& read : group.reads) {
      Node& node = graph_.nodes()[read.node];
      const std::string operand = fmt::format("data_in_{}", read.input);
      const std::optional<OperandFormat> format = activation_format(read.node);
      if (format) {
        const QuantizerRef quantizer = quantizer_of(activation_spec(options_, *format, node, operand));
        node.quantization[operand] = quantizer;
        see(format, quantizer);
      } else {
        all_integers = false;
      }
    }
    if (group.reads.empty() && options_.activations.is_integer()) {
      const OperandFormat format = wider(options_.activations, {options_.elementwise});
      see(format, quantizer_of(activation_spec(options_, format, graph_.node(group.root), "data_out_0")));
    }
    if (!all_integers || !widest || !quantize_result(graph_, plan_, group, *widest)) return;
    Node& root = graph_.node(group.root);
    if (role_of(root) == OperatorRole::kConstant) root.quantization["value"] = *widest;  // and is stored so
  }

  /// The scale of a single channel is that of the tensor.
  QuantSpec with_scales(const QuantSpec& spec, Granularity granularity, const Tensor& weight,
                        int64_t channels) const {
    const bool one_channel = granularity == Granularity::kChannel && weight.dim(channels) == 1;
    const bool has_groups = granularity == Granularity::kGroup;
    return with_weight_scales(spec, one_channel ? Granularity::kTensor : granularity, channels,
                              has_groups ? options_.weight_group_size : std::nullopt);
  }

  QuantSpec weight_spec(const Node& node, const OperandFormat& format) const {
    const Tensor& weight = node.find_parameter("weight")->tensor;
    const int64_t channels = *find_operator(node.op).weight_channel_dim;
    QuantSpec spec;
    spec.format = integer_format({.width = format.integer.width, .is_symmetric = true});
    if (format.other) spec = *format.other;
    spec = with_scales(spec, options_.weight_granularity, weight, channels);
    const std::optional<BlockSize> blocks = block_size(spec.format);
    if (blocks && blocks->is_single()) spec.block_axis = trait<WeightedSum>(node)->reduction_axis();
    return calibrated_weight(node, "weight", spec);
  }

  /// A row is summed over its last dimension.
  QuantSpec constant_spec(const Node& constant, const OperandFormat& format) const {
    const Tensor& value = constant.find_parameter("value")->tensor;
    QuantSpec spec;
    spec.format = integer_format({.width = format.integer.width, .is_symmetric = true});
    if (format.other) spec = *format.other;
    spec = with_scales(spec, options_.weight_granularity, value, static_cast<int64_t>(value.rank()) - 2);
    const std::optional<BlockSize> blocks = block_size(spec.format);
    if (blocks && blocks->is_single()) spec.block_axis = -1;
    return calibrated_weight(constant, "value", spec);
  }

  QuantSpec calibrated_weight(const Node& node, std::string_view parameter, const QuantSpec& spec) const {
    CalibrationOptions calibration = options_.activation_calibration;
    calibration.calibrator = options_.weight_calibrator;
    calibration = calibration_for(spec.format, calibration);
    // These follow the weights of each channel better by rules of their own than by one range or fit for all.
    const bool has_better_rule =
        (is_scaled_by_data(spec.format) && options_.weight_calibrator == Calibrator::kMinMax) ||
        (!is_ranged(spec.format) && spec.granularity != Granularity::kTensor);
    if (has_better_rule || !is_calibratable(spec.format)) return spec;
    const std::string where = fmt::format("{}: {} of \"{}\"", where_, parameter, node.name);
    const Tensor& weight = node.find_parameter(parameter)->tensor;
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
  std::vector<std::string> masks;
  for (const std::string& name : measured.masked.in_float)
    if (!measured.infinite.contains(name) && !measured.vanishing.nodes.contains(name)) masks.push_back(name);
  if (!measured.infinite.empty()) {
    context.report(fmt::format("static_quantize: in float, as they read or give infinities: {}\n",
                               fmt::join(measured.infinite, ", ")));
  }
  if (!measured.vanishing.nodes.empty()) {
    context.report(fmt::format(
        "static_quantize: in float, as they compute divisors or take logarithms of what codes would round to "
        "0: {}\n",
        fmt::join(measured.vanishing.nodes, ", ")));
  }
  if (!quantized.exact.empty()) {
    context.report(fmt::format(
        "static_quantize: in float, as integers, comparisons, quotients or roots follow from their exact "
        "values: {}\n",
        fmt::join(quantized.exact, ", ")));
  }
  if (!masks.empty()) {
    context.report(
        fmt::format("static_quantize: in float, as they mask the scores of a softmax (bits = \"NODE=/16\" "
                    "quantizes one): "
                    "{}\n",
                    fmt::join(masks, ", ")));
  }
  const std::vector<PlannedNode> integers = integer_plan_with_bodies(graph);
  context.report(quantized.raised_scales + quantized.accumulators + quantized.bodies +
                 "static_quantize: integer plan\n" + plan_summary(integers) + float_weights_text(graph));
  const std::filesystem::path folder = context.output_dir / "static_quantize";
  if (context.group->is_first())
    write_file(context.to_write(folder / "integer_plan.csv"), plan_table(integers).to_csv());
  write_quantization_summary(graph, folder, options.report, context);
}

/// By loop, where its body has layers or loops that have.
std::map<std::string, std::shared_ptr<const MeasuredNetwork>, std::less<>> measured_bodies(
    const Graph& network, std::span<const StaticQuantizeOptions> options, const PassContext& context) {
  std::map<std::string, std::shared_ptr<const MeasuredNetwork>, std::less<>> bodies;
  for (const Node& node : network.nodes()) {
    if (node.body == nullptr) continue;
    within_body(network, node.name, context, [&](PassContext& inside) {
      const StaticQuantizeOptions& first = options.front();
      const bool has_layers = plain_plan(*node.body, first, inside.prefix(), inside.where).has_weights();
      if (has_layers) {
        bodies[node.name] =
            std::make_shared<const MeasuredNetwork>(measured_for(*node.body, options, inside));
      } else if (has_layers_in_bodies(*node.body, first, inside.where)) {
        MeasuredNetwork measured{.graph = *node.body, .masked = {}};
        measured.bodies = measured_bodies(*node.body, options, inside);
        bodies[node.name] = std::make_shared<const MeasuredNetwork>(std::move(measured));
      }
    });
  }
  return bodies;
}

}  // namespace

bool MeasuredNetwork::is_reached() const {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.statistics.empty(); });
}

MeasuredNetwork measured_for(const Graph& network, const StaticQuantizeOptions& options,
                             PassContext& context) {
  return measured_for(network, std::span(&options, 1), context);
}

MeasuredNetwork measured_for(const Graph& network, std::span<const StaticQuantizeOptions> options,
                             PassContext& context) {
  const StaticQuantizeOptions& first = options.front();
  const NodeBitsMatcher bits(first.formats, first.bits, context.where, context.prefix());
  MeasuredNetwork measured{.graph = network, .masked = masked_scores(network, context)};
  CodePlan plan = make_plan(network, first, bits, context.where, measured.masked.in_float);
  if (!context.body) {
    check_float_nodes(names_with_bodies(network), first, context.where);
    bits.check_all_used(nodes_with_widths(network, plan, first, context.where), context.warn);
  }
  std::set<Calibrator> calibrators;
  for (const StaticQuantizeOptions& one : options) calibrators.merge(calibrators_of(one));
  constexpr int kMostRounds = 4;
  for (int round = 0; round < kMostRounds; ++round) {
    measured.graph = measured_activations(network, plan, calibrators, first.num_samples, context);
    const size_t before = measured.masked.in_float.size();
    const auto keep = [&](const std::set<std::string, std::less<>>& found,
                          std::set<std::string, std::less<>>& kept) {
      for (const std::string& name : found)
        if (bits.find(name) == nullptr) kept.insert(name);
      measured.masked.in_float.insert(kept.begin(), kept.end());
    };
    keep(infinite_nodes(measured.graph, plan), measured.infinite);
    if (measured.masked.in_float.size() == before) {
      VanishingValues found =
          vanishing_values(measured.graph, plan, widest_activations(first), context.where);
      keep(found.nodes, measured.vanishing.nodes);
      measured.vanishing.unrounded.merge(found.unrounded);
    }
    if (measured.masked.in_float.size() == before) break;
    plan = make_plan(network, first, bits, context.where, measured.masked.in_float,
                     measured.vanishing.unrounded);
  }
  measured.bodies = measured_bodies(network, options, context);
  return measured;
}

namespace {

constexpr const char* kNoLayers = "no layers to quantize";

/// "outer.inner"
std::string loop_of(const BodyPlace& body) { return body.prefix.substr(0, body.prefix.size() - 1); }

std::string body_in_float_text(const std::string& loop, const std::string& reason) {
  return fmt::format("static_quantize: {}: its body stays in float: {}\n", loop, reason);
}

/// Quantizes the bodies of the loops of `quantized.graph`.
void quantize_bodies(const MeasuredNetwork& measured, const StaticQuantizeOptions& options,
                     const PassContext& context, IntegerNetwork& quantized) {
  for (Node& node : quantized.graph.nodes()) {
    if (node.body == nullptr) continue;
    const auto found = measured.bodies.find(node.name);
    if (found == measured.bodies.end()) {
      quantized.bodies += body_in_float_text(context.prefix() + node.name, kNoLayers);
      continue;
    }
    PassContext inside = context;
    inside.body = {&context.sampled(quantized.graph), context.prefix() + node.name + "."};
    IntegerNetwork body = quantized_for_integers(*node.body, *found->second, options, inside);
    node.body = std::make_shared<const Graph>(std::move(body.graph));
    quantized.raised_scales += body.raised_scales;
    quantized.accumulators += body.accumulators;
    quantized.bodies += body.bodies;
    for (const std::string& name : body.exact) quantized.exact.push_back(node.name + "." + name);
  }
}

/// Why the graph, a body, is not quantized; "" where it is.
std::string why_body_in_float(const MeasuredNetwork& measured, const CodePlan& plan) {
  if (!plan.has_weights()) return kNoLayers;
  return measured.is_reached() ? "" : "no sample makes the loop run";
}

}  // namespace

IntegerNetwork quantized_for_integers(const Graph& network, const MeasuredNetwork& measured,
                                      const StaticQuantizeOptions& options, const PassContext& context) {
  const NodeBitsMatcher bits(options.formats, options.bits, context.where, context.prefix());
  const CodePlan plan = make_plan(network, options, bits, context.where, measured.masked.in_float,
                                  measured.vanishing.unrounded);
  IntegerNetwork result{.graph = network, .raised_scales = {}, .accumulators = {}};
  const std::string reason = context.body ? why_body_in_float(measured, plan) : "";
  if (reason.empty()) {
    NetworkQuantizer quantizer(result.graph, plan, options, bits, context);
    quantizer.quantize_activations(measured);
    quantizer.quantize_weights();
    quantizer.quantize_rows();
    quantizer.quantize_constants();
    result.graph.set_requantization(options.requantization);
    result.raised_scales = quantizer.raised_scales();
    result.exact = plan.exact;
    if (!context.body) {
      result.accumulators = set_accumulators(result.graph, options.accumulator, context.where);
    } else if (!options.accumulator.empty()) {
      result.accumulators =
          fmt::format("accumulators: not of the layers in the body of {}\n", loop_of(*context.body));
    }
  } else {
    result.bodies = body_in_float_text(loop_of(*context.body), reason);
  }
  quantize_bodies(measured, options, context, result);
  verify(result.graph);
  integer_plan(result.graph);  // refuses overflows
  return result;
}

namespace {

void check_formats(const StaticQuantizeOptions& options, const std::string& where) {
  const auto check_weights = [&](const char* key, const OperandFormat& format) {
    if (format.is_integer() && !format.integer.is_signed) {
      fail("{}: key \"{}\": got {}, expected a signed type: weights are symmetric", where, key,
           value_text(format.to_value()));
    }
    if (!format.is_integer() && options.requantization == Requantization::kFixedPoint) {
      fail(
          "{}: key \"{}\": got {} with requantization = \"fixed_point\": only sums of integers are scaled so",
          where, key, value_text(format.to_value()));
    }
  };
  check_weights("weights", options.weights);
  for (const NodeWidths& entry : options.named().entries) {
    if (entry.weights && entry.weights->format) check_weights("formats", entry.weights->like({}));
  }
}

}  // namespace

NodeBits StaticQuantizeOptions::named() const {
  NodeBits all = formats;
  all.entries.insert(all.entries.end(), bits.entries.begin(), bits.entries.end());
  return all;
}

bool StaticQuantizeOptions::is_below_eight_bits() const {
  constexpr double kEight = 8;
  const auto is_below = [](const auto& codes) { return codes.bits() < kEight; };
  const auto names_fewer = [&](const NodeWidths& entry) {
    return (entry.weights && is_below(*entry.weights)) || (entry.activations && is_below(*entry.activations));
  };
  return is_below(activations) || is_below(weights) || std::ranges::any_of(named().entries, names_fewer);
}

void StaticQuantizeOptions::check(const std::string& where) const {
  check_formats(*this, where);
  check_calibration(activation_calibration, std::array{weight_calibrator}, where);
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
  for (const IntegerType type : {activations.integer, elementwise}) {
    if (symmetric_activations && activations.is_integer() && !type.is_signed) {
      fail("{}: symmetric_activations = true with {}, expected signed types for activations and elementwise",
           where, value_text(type.to_value()));
    }
  }
  for (const NodeWidths& entry : bits.entries) {
    if (!symmetric_activations || !entry.activations || entry.activations->format) continue;
    if (entry.activations->like(activations).integer.is_signed) continue;
    fail("{}: key \"bits\": symmetric_activations = true with unsigned activations for \"{}\"", where,
         entry.pattern);
  }
  const NodeBitsMatcher checked(formats, bits, where);
  for (const std::string& text : keep_float) NamePattern(text, where + ": key \"keep_float\"");
  check_accumulators(accumulator, where);
}

void StaticQuantizeOptions::check_graph(const Graph& graph, const EarlierPasses& earlier,
                                        const std::string& where) const {
  if (earlier.quantize) fail("{}: a pass before it quantizes: ranges are those of the float network", where);
  check_unquantized(graph, where);
  if (!earlier.change_network) check_accumulators(accumulator, graph, where);
  check_float_nodes(names_with_bodies(graph), *this, where);
  if (earlier.change_network) return;
  const NodeBitsMatcher widths(formats, bits, where);
  const CodePlan plan = make_plan(graph, *this, widths, where);
  const NodesWithWidths nodes = nodes_with_widths(graph, plan, *this, where);
  widths.check_all_used(nodes, [](const std::string&) {});  // warned of when it runs
}

PassInfo static_quantize_pass() {
  PassInfo pass = make_pass("static_quantize", PassKind::kTransform,
                            "quantizes weights and activations for execution in integers",
                            run_static_quantize, PassStage::kQuantizing);
  pass.reaches_bodies = true;
  return pass;
}

}  // namespace detent
