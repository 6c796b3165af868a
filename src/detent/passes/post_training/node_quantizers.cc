// Formats of the operands and weights of nodes that take codes, and ranges for them.

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "detent/core/progress.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/block_sums.h"
#include "detent/inference/node_form.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/post_training/static_quantize.h"

namespace detent {
namespace {

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
      if (!is_quantized(group)) continue;
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
      const bool takes_codes = node.find_quantization("data_in_0") != nullptr;
      const OperandFormat format = weight_format(position);
      if (format.is_float || (!takes_codes && activation_format(position))) continue;
      node.quantization["weight"] = weight_spec(node, format);
      if (!takes_codes) continue;
      if (std::optional<RaisedScales> raised = raised_to_fit(node)) raise_scales(node, std::move(*raised));
    }
  }

  /// Rows that are looked up, with scales a row; blocks run along each.
  void quantize_rows() {
    for (const size_t position : plan_.rows) {
      Node& node = graph_.nodes()[position];
      const OperandFormat format = named_weight_format(position);
      if (format.is_float) continue;
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
      const OperandFormat format = named_weight_format(weight.node);
      if (constant.find_quantizer("value") == nullptr && !format.is_float)
        constant.quantization["value"] = constant_spec(constant, format);
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
    const std::optional<OperandFormat> format = chosen_activations(position);
    return format && !format->is_float ? format : std::nullopt;
  }

  bool is_quantized(const CodeGroup& group) const {
    if (group.reads.empty()) return options_.activations.is_integer();
    return std::ranges::any_of(
        group.reads, [&](const CodeRead& read) { return activation_format(read.node).has_value(); });
  }

  std::optional<OperandFormat> chosen_activations(size_t position) const {
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

}  // namespace

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

std::string quantize_nodes(Graph& graph, const CodePlan& plan, const MeasuredNetwork& measured,
                           const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                           const PassContext& context) {
  NetworkQuantizer quantizer(graph, plan, options, bits, context);
  quantizer.quantize_activations(measured);
  quantizer.quantize_weights();
  quantizer.quantize_rows();
  quantizer.quantize_constants();
  return quantizer.raised_scales();
}

}  // namespace detent
