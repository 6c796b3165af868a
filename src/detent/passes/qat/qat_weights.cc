#include "detent/passes/qat/qat_presets.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "detent/core/error.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

Tensor one_number(float value) { return Tensor::from<float>({}, std::vector<float>{value}); }

Tensor& scale_of(Quantizer& quantizer) { return quantizer.find_parameter("scale")->tensor; }

/// Scales from a statistic of each group's weights.
void begin_scales(Quantizer& quantizer, const Tensor& weight, Threshold statistic, double argument) {
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  if (!integers) return;
  const auto groups = values_by_group(weight.values<float>(), make_grouping(quantizer.spec, weight.shape()));
  const CodeRange codes{.low = static_cast<double>(integers->low()), .high = largest_code_of(quantizer.spec)};
  const auto scales = scale_of(quantizer).values<float>();
  for (size_t g = 0; g < groups.size(); ++g) {
    const double threshold = find_threshold(statistic, argument, groups[g], codes);
    if (threshold > 0) scales[g] = static_cast<float>(threshold / codes.high);
  }
}

/// Each weight begins as it is: h is what its code lacks.
void learn_rounding(Node& layer, Quantizer& quantizer) {
  Parameter& weight = *layer.find_parameter("weight");
  weight.trainable = false;
  quantizer.find_parameter("scale")->trainable = false;
  const Grouping grouping = make_grouping(quantizer.spec, weight.tensor.shape());
  const auto scales = scale_of(quantizer).values<float>();
  Tensor up(DType::kFloat32, weight.tensor.shape());
  for (size_t i = 0; i < up.values<float>().size(); ++i) {
    const auto group = static_cast<size_t>(grouping.group_of(static_cast<int64_t>(i)));
    const float scaled = weight.tensor.values<float>()[i] / scales[scales.size() == 1 ? 0 : group];
    up.values<float>()[i] = round_up_of(scaled - std::floor(scaled));
  }
  quantizer.rounding = Rounding::kLearned;
  quantizer.parameters.emplace_back(kRoundUp, Parameter{std::move(up), true});
}

/// 2^k odd codes with the largest 1: the scale does not follow from the weights, and stays.
void round_as_dorefa(Quantizer& quantizer) {
  IntegerCodes codes = *integer_codes(quantizer.spec.format);
  ++codes.width;
  codes.is_narrow = true;
  quantizer.spec.format = integer_format(codes, given_scales(quantizer.spec.format));
  Parameter& scale = *quantizer.find_parameter("scale");
  std::ranges::fill(scale.tensor.values<float>(), 1 / static_cast<float>(codes.high()));
  scale.trainable = false;
  quantizer.rounding = Rounding::kDorefa;
}

void set_rounding(Node& layer, Quantizer& quantizer, Rounding rounding, const std::string& where) {
  if (rounding == Rounding::kNearest) return;
  if (!integer_codes(quantizer.spec.format) || quantizer.find_parameter("scale") == nullptr) {
    fail("{}: node \"{}\": weights in {} cannot be rounded as \"{}\": expected integers with a learned scale",
         where, layer.name, quant_spec_text(quantizer.spec), enum_name(rounding));
  }
  if (rounding == Rounding::kLearned) return learn_rounding(layer, quantizer);
  if (rounding == Rounding::kDorefa) return round_as_dorefa(quantizer);
  quantizer.rounding = rounding;
}

void own_codebook(Quantizer& quantizer, const Tensor& weight) {
  const size_t most = listed_values(quantizer.spec.format).size();
  const std::vector<float> entries = fit_codebook(weight.values<float>(), most);
  quantizer.spec.format = format_of_values(entries);
  quantizer.parameters.emplace_back(kCodebook,
                                    Parameter{Tensor::from<float>({std::ssize(entries)}, entries), true});
}

void own_field(Quantizer& quantizer, const Tensor& weight, const std::string& where) {
  if (!listed_values(quantizer.spec.format).empty()) return own_codebook(quantizer, weight);
  const auto [low, high] = std::ranges::minmax(weight.values<float>());
  own_exponent_bias(quantizer, {low, high}, where);
}

}  // namespace

void represent_scale(Quantizer& quantizer, ScaleParameter kind) {
  const double largest = largest_code_of(quantizer.spec);
  for (float& value : scale_of(quantizer).values<float>()) value = parameter_of_scale(kind, value, largest);
  for (auto& [name, parameter] : quantizer.parameters) {
    if (name == "scale") name = scale_parameter_name(kind);
  }
}

void add_number(Quantizer& quantizer, const char* name, float value) {
  quantizer.parameters.emplace_back(name, Parameter{one_number(value), true});
}

void own_exponent_bias(Quantizer& quantizer, Interval range, const std::string& where) {
  quantizer.spec.format = qparams_from_range(quantizer.spec.format, {&range, 1}, ScaleForm::kFloat, where);
  add_number(quantizer, kExponentBias, static_cast<float>(exponent_bias(quantizer.spec.format).value()));
}

void complete_weights(Node& layer, const QatPreset& preset, const WeightBeginning& beginning,
                      const std::string& where) {
  constexpr float kHalf = 0.5F;
  Quantizer& quantizer = *layer.quantization.at("weight");
  const Tensor& weight = layer.find_parameter("weight")->tensor;
  const Rounding rounding = beginning.rounding.value_or(preset.weight_rounding);
  if (preset.learns_field) {
    set_rounding(layer, quantizer, rounding, where);
    return own_field(quantizer, weight, where);
  }
  const bool has_scale = quantizer.find_parameter("scale") != nullptr;
  const bool learns_rounding = rounding == Rounding::kLearned;
  if (has_scale && (beginning.statistic || learns_rounding)) {
    begin_scales(quantizer, weight, beginning.statistic.value_or(Threshold::kSquaredError),
                 beginning.argument);
  }
  set_rounding(layer, quantizer, rounding, where);
  if (!has_scale) return;
  represent_scale(quantizer, preset.weight_scale);
  const std::optional<IntegerCodes> integers = integer_codes(quantizer.spec.format);
  if (preset.learns_widths && integers) add_number(quantizer, "width", static_cast<float>(integers->width));
  if (preset.learns_threshold && has_threshold(quantizer.spec.format))
    add_number(quantizer, "threshold", kHalf);
}

std::vector<float> fit_codebook(std::span<const float> values, size_t count) {
  constexpr int kIterations = 50;
  std::vector<float> sorted;  // NaN has no place among them
  std::ranges::copy_if(values, std::back_inserter(sorted), [](float value) { return std::isfinite(value); });
  if (sorted.empty()) return {0};
  std::ranges::sort(sorted);
  std::vector<double> sums = {0};
  for (const float value : sorted) sums.push_back(sums.back() + static_cast<double>(value));
  std::vector<float> centers;
  for (size_t i = 0; i < count; ++i) centers.push_back(sorted[(2 * i + 1) * sorted.size() / (2 * count)]);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    auto begin = sorted.begin();
    for (size_t i = 0; i < count; ++i) {
      const auto end = i + 1 == count
                           ? sorted.end()
                           : std::upper_bound(begin, sorted.end(), (centers[i] + centers[i + 1]) / 2);
      if (begin != end) {
        const double sum = sums[static_cast<size_t>(end - sorted.begin())] -
                           sums[static_cast<size_t>(begin - sorted.begin())];
        centers[i] = static_cast<float>(sum / static_cast<double>(end - begin));
      }
      begin = end;
    }
  }
  centers.erase(std::unique(centers.begin(), centers.end()), centers.end());
  return centers;
}

}  // namespace detent
