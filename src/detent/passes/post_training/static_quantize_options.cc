#include "detent/passes/post_training/static_quantize_options.h"

#include <algorithm>
#include <array>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/passes/post_training/quantized_nodes.h"

namespace detent {
namespace {

void check_formats(const StaticQuantizeOptions& options, const std::string& where) {
  const auto check_weights = [&](const char* key, const OperandFormat& format) {
    if (format.is_integer() && !format.integer.is_signed) {
      fail("{}: key \"{}\": got {}, expected a signed type: weights are symmetric", where, key,
           value_text(format.to_value()));
    }
    if (format.other && options.requantization == Requantization::kFixedPoint) {
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

bool StaticQuantizeOptions::quantizes_activations() const {
  const auto names_some = [](const NodeWidths& entry) {
    return entry.activations && !entry.activations->is_float;
  };
  return !activations.is_float || std::ranges::any_of(named().entries, names_some);
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
  check_keep_float(graph, *this, where);
  if (earlier.change_network) return;
  const NodeBitsMatcher widths(formats, bits, where);
  const CodePlan plan = plan_nodes(graph, *this, widths, where);
  const NodesWithWidths nodes = nodes_with_widths(graph, plan, *this, where);
  widths.check_all_used(nodes, [](const std::string&) {});  // warned of when it runs
}

}  // namespace detent
