#include "detent/search/candidate_networks.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/measure/distortion.h"
#include "detent/formats/verbs.h"
#include "detent/inference/node_form.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/staged_runs/staged_run.h"
#include "detent/reconstruction/gptq.h"
#include "detent/reconstruction/gram.h"
#include "detent/reconstruction/im2col.h"

namespace detent {
namespace {

constexpr const char* kDefaultResult =
    "uint8";  // of values that are to be codes though no node reads them so

std::string input_operand(const CodeRead& read) { return fmt::format("data_in_{}", read.input); }

/// Facts about a layer's inputs.
struct LayerInputs {
  LayerInputs(const Node& node, const std::string& where) : im2col(node, where), sums(im2col) {}

  void finish(const std::string& where) {
    for (int64_t group = 0; group < im2col.groups(); ++group) {
      grams.push_back(sums.mean(group, where));
      means.push_back(sums.mean_row(group, where));
      columns.emplace_back(grams.back(), GptqOptions(), where);
    }
  }
  /// How far the layer's outputs fall on average, by channel, where its weight becomes `values`.
  std::vector<double> shifts(const Tensor& weight, const Tensor& values) const {
    std::vector<double> all;
    for (int64_t group = 0; group < im2col.groups(); ++group) {
      const int64_t begin = group * im2col.rows_per_group();
      const std::vector<double> shifts = output_shifts(means[static_cast<size_t>(group)], weight, values,
                                                       begin, begin + im2col.rows_per_group());
      all.insert(all.end(), shifts.begin(), shifts.end());
    }
    return all;
  }
  /// Squared error of the layer's output, where its weight becomes `values`, and the bias takes `shifts`
  /// back.
  double error(const Tensor& weight, const Tensor& values, const std::vector<double>& shifts) const {
    double sum = 0;
    for (int64_t group = 0; group < im2col.groups(); ++group) {
      const int64_t begin = group * im2col.rows_per_group();
      for (const double row : output_errors(grams[static_cast<size_t>(group)], weight, values, begin,
                                            begin + im2col.rows_per_group()))
        sum += row;
    }
    for (const double shift : shifts) sum -= shift * shift;
    return sum;
  }

  Im2Col im2col;
  GramMatrices sums;
  std::vector<Matrix<double>> grams;
  std::vector<std::vector<double>> means;
  std::vector<GptqColumns> columns;
};

/// A weight rounded by GPTQ, with the spec that holds the values; nothing where the format does not let
/// elements be chosen one by one.
std::optional<std::pair<QuantSpec, Tensor>> chosen_by_gptq(const QuantSpec& spec, const Tensor& weight,
                                                           const LayerInputs& inputs,
                                                           const std::string& where) {
  Tensor chosen = weight.clone();
  QuantSpec fixed = spec;
  try {
    for (int64_t group = 0; group < inputs.im2col.groups(); ++group) {
      const int64_t begin = group * inputs.im2col.rows_per_group();
      const int64_t end = begin + inputs.im2col.rows_per_group();
      const auto place = static_cast<size_t>(group);
      if (block_size(spec.format)) {
        const BlockRounding rounding(spec, weight, where);
        gptq_round(inputs.grams[place], rounding, {}, where, chosen, begin, end);
        fixed = rounding.spec();
        continue;
      }
      const ValueGrid grid(spec, weight, where);
      gptq_round(inputs.columns[place], grid, where, chosen, begin, end);
      fixed = grid.spec();
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!fake_quantize(fixed, chosen).equals(chosen)) return std::nullopt;
  return std::pair(std::move(fixed), std::move(chosen));
}

Tensor sum_of(const Tensor& bias, const std::vector<double>& shifts) {
  Tensor sum = bias.clone();
  const auto values = sum.values<float>();
  DETENT_CHECK(values.size() == shifts.size(), "{} and {}", values.size(), shifts.size());
  for (size_t c = 0; c < shifts.size(); ++c)
    values[c] = static_cast<float>(static_cast<double>(values[c]) + shifts[c]);
  return sum;
}

}  // namespace

CandidateNetworks::CandidateNetworks(const Graph& network, const CodePlan& plan, const SearchSpace& space,
                                     const SearchOptions& options, PassContext& context)
    : network_(network), plan_(plan), space_(space) {
  for (size_t i = 0; i < space.choices.size(); ++i) {
    const Choice& choice = space.choices[i];
    weights_.emplace_back(choice.formats.size());
    if (choice.operand == kInputOperand) input_choices_[choice.node] = i;
  }
  measure_activations(plan, options, context);
  calibrate_weights(options, context.where);
}

void CandidateNetworks::measure_activations(const CodePlan& plan, const SearchOptions& options,
                                            PassContext& context) {
  const Graph measured = measured_activations(network_, plan, {options.activation_calibration.calibrator},
                                              options.num_samples, context);
  Progress progress("choosing ranges, values", std::ssize(plan.groups), {.shown = context.group->is_first()});
  for (const CodeGroup& group : plan.groups) {
    const Distribution distribution = measured_distribution(measured, group, context.where);
    std::map<std::string, QuantSpec>& specs = activations_.emplace_back();
    const std::string where = fmt::format("{}: values of \"{}\"", context.where, group.root);
    const auto add = [&](const std::string& text, const QuantSpec& spec) {
      if (specs.contains(text)) return;
      const bool fits = is_calibratable(spec.format);
      specs.emplace(text,
                    fits ? calibrate(spec, {&distribution, 1}, options.activation_calibration, where) : spec);
    };
    for (const CodeRead& read : group.reads) {
      for (const ChoiceFormat& format : space_.choices[input_choices_.at(read.node)].formats)
        if (format.spec) add(format.text, *format.spec);
    }
    if (group.reads.empty()) add(kDefaultResult, parse_quant_spec_text(kDefaultResult));
    progress.update(std::ssize(activations_), group.root);
  }
}

std::vector<QuantSpec> CandidateNetworks::calibrated_specs(const QuantSpec& spec, const Tensor& weight,
                                                           const SearchOptions& options,
                                                           const std::string& where) const {
  if (!is_calibratable(spec.format)) return {spec};
  std::vector<QuantSpec> specs;
  CalibrationOptions calibration = options.activation_calibration;
  for (const Calibrator calibrator : options.weight_calibrators) {
    calibration.calibrator = calibrator;
    QuantSpec calibrated =
        calibrate(spec, weight_distributions(weight, spec, calibrator, where), calibration, where);
    if (std::ranges::find(specs, calibrated) == specs.end()) specs.push_back(std::move(calibrated));
  }
  return specs;
}

/// Takes, of several calibrators, the one that changes the weights least.
void CandidateNetworks::calibrate_weights(const SearchOptions& options, const std::string& where) {
  for (size_t c = 0; c < space_.choices.size(); ++c) {
    const Choice& choice = space_.choices[c];
    if (choice.operand != kWeightOperand) continue;
    const Node& node = network_.nodes()[choice.node];
    const Tensor& weight = node.find_parameter(weight_parameter(node))->tensor;
    for (size_t f = 0; f < choice.formats.size(); ++f) {
      if (!choice.formats[f].spec) continue;
      double least = std::numeric_limits<double>::infinity();
      for (const QuantSpec& spec : calibrated_specs(*choice.formats[f].spec, weight, options,
                                                    fmt::format("{}: weight of \"{}\"", where, node.name))) {
        Distortion distortion(Distortion::Values::kIgnored);
        distortion.update(weight, fake_quantize(spec, weight));
        const double error = distortion.mean_squared_error();
        if (weights_[c][f] && !(error < least)) continue;
        least = error;
        weights_[c][f] = {.spec = spec, .rounding = spec, .values = weight, .shifts = {}};
      }
    }
  }
}

void CandidateNetworks::choose_weights(const SearchOptions& options, PassContext& context,
                                       const std::function<bool()>& stop) {
  // Enough for the second moments of a layer's inputs; the winners' weights are chosen with all samples.
  constexpr int64_t kMostSamples = 256;
  StagedRun run(network_, {.num_samples = std::min(options.num_samples, kMostSamples)}, context);
  Progress progress("rounding weights, layers", std::ssize(plan_.weighted) + std::ssize(plan_.constants),
                    {.shown = context.group->is_first()});
  int64_t done = 0;
  for (size_t c = 0; c < space_.choices.size(); ++c) {
    const Choice& choice = space_.choices[c];
    if (choice.operand != kWeightOperand) continue;
    if (stop()) return;
    const Node& node = network_.nodes()[choice.node];
    progress.update(done++, node.name);
    const std::string where = fmt::format("{}: weight of \"{}\"", context.where, node.name);
    std::optional<LayerInputs> inputs;
    if (Im2Col::exist_for(node)) {
      inputs.emplace(node, where);
      run.inputs_of(choice.node, [&](const Tensor& input) { inputs->sums.add(input); });
      inputs->finish(where);
    }
    const Tensor& weight = node.find_parameter(weight_parameter(node))->tensor;
    for (size_t f = 0; f < choice.formats.size(); ++f) {
      if (!choice.formats[f].spec) continue;
      std::optional<double> least;
      for (const QuantSpec& spec : calibrated_specs(*choice.formats[f].spec, weight, options, where)) {
        auto [rounding, values] = std::pair(spec, fake_quantize(spec, weight));
        if (inputs && options.weight_rule == WeightRule::kGptq) {
          if (auto chosen = chosen_by_gptq(spec, weight, *inputs, where))
            std::tie(rounding, values) = std::move(*chosen);
        }
        // A bias that is not there would take bytes.
        const bool has_bias = inputs && node.find_parameter("bias") != nullptr;
        std::vector<double> shifts = has_bias ? inputs->shifts(weight, values) : std::vector<double>();
        const double error = inputs ? inputs->error(weight, values, shifts) : 0;
        if (least && !(error < *least)) continue;
        least = error;
        ChosenWeight& best = *weights_[c][f];
        best.rounding = std::move(rounding);
        best.values = std::move(values);
        best.shifts = std::move(shifts);
      }
    }
  }
}

void CandidateNetworks::set_weight(Graph& graph, size_t choice, int format, bool rounded) const {
  const std::optional<ChosenWeight>& chosen = weights_[choice][static_cast<size_t>(format)];
  Node& node = graph.nodes()[space_.choices[choice].node];
  const Node& in_float = network_.nodes()[space_.choices[choice].node];
  const std::string parameter(weight_parameter(node));
  node.find_parameter(parameter)->tensor =
      chosen && rounded ? chosen->values : in_float.find_parameter(parameter)->tensor;
  if (Parameter* bias = node.find_parameter("bias")) {
    const Tensor& given = in_float.find_parameter("bias")->tensor;
    bias->tensor = chosen && rounded && !chosen->shifts.empty() ? sum_of(given, chosen->shifts) : given;
  }
  if (chosen) {
    node.quantization[parameter] = rounded ? chosen->rounding : chosen->spec;
    fit_weight_scales(node);
  } else {
    node.quantization.erase(parameter);
  }
}

void CandidateNetworks::set_group(Graph& graph, size_t index, const Assignment& assignment) const {
  const CodeGroup& group = plan_.groups[index];
  std::map<std::string, QuantizerRef> quantizers;
  const auto quantizer_of = [&](const std::string& text) {
    const auto [entry, is_new] = quantizers.try_emplace(text);
    if (is_new) *entry->second = activations_[index].at(text);
    return entry->second;
  };
  std::optional<QuantizerRef> widest;
  int most = 0;
  bool all_codes = true;
  const auto see = [&](const QuantizerRef& quantizer) {
    const std::optional<IntegerCodes> integers = integer_codes(quantizer->spec.format);
    all_codes = all_codes && integers;
    if (!integers || integers->width <= most) return;
    most = integers->width;
    widest = quantizer;
  };
  for (const CodeRead& read : group.reads) {
    const size_t choice = input_choices_.at(read.node);
    const ChoiceFormat& format = space_.choices[choice].formats[static_cast<size_t>(assignment[choice])];
    all_codes = all_codes && format.spec.has_value();
    if (!format.spec) continue;
    const QuantizerRef quantizer = quantizer_of(format.text);
    graph.nodes()[read.node].quantization[input_operand(read)] = quantizer;
    see(quantizer);
  }
  if (group.reads.empty()) see(quantizer_of(kDefaultResult));
  // Who reads values gets them unrounded; the others round for themselves.
  if (all_codes && widest) quantize_result(graph, plan_, group, *widest);
}

Graph CandidateNetworks::make(const Assignment& assignment, bool rounded) const {
  DETENT_CHECK(assignment.size() == space_.choices.size(), "{} of {} choices", assignment.size(),
               space_.choices.size());
  Graph graph = network_;
  for (size_t group = 0; group < plan_.groups.size(); ++group) set_group(graph, group, assignment);
  for (size_t c = 0; c < space_.choices.size(); ++c) {
    if (space_.choices[c].operand == kWeightOperand) set_weight(graph, c, assignment[c], rounded);
  }
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

Variant CandidateNetworks::only(const std::vector<std::pair<size_t, int>>& quantized) const {
  Variant variant{network_, network_.nodes().size()};
  for (const auto& [c, format] : quantized) {
    const Choice& choice = space_.choices[c];
    variant.first = std::min(variant.first, choice.node);
    if (choice.operand == kWeightOperand) {
      set_weight(variant.graph, c, format, true);
      continue;
    }
    const ChoiceFormat& taken = choice.formats[static_cast<size_t>(format)];
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      for (const CodeRead& read : plan_.groups[g].reads) {
        if (read.node != choice.node || !taken.spec) continue;
        variant.graph.nodes()[read.node].quantization[input_operand(read)] =
            QuantizerRef(Quantizer(activations_[g].at(taken.text)));
      }
    }
  }
  return variant;
}

Variant CandidateNetworks::changed(const Graph& made, const Assignment& assignment, size_t choice,
                                   int format) const {
  Assignment other = assignment;
  other[choice] = format;
  if (space_.choices[choice].operand == kWeightOperand) {
    Variant variant{made, space_.choices[choice].node};
    set_weight(variant.graph, choice, format, true);
    return variant;
  }
  Variant variant{make(other), space_.choices[choice].node};
  for (const CodeGroup& group : plan_.groups) {
    const bool reads = std::ranges::any_of(
        group.reads, [&](const CodeRead& read) { return read.node == space_.choices[choice].node; });
    if (reads) variant.first = std::min(variant.first, variant.graph.position(group.root));
  }
  return variant;
}

}  // namespace detent
