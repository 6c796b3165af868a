#include "detent/graph/quantizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/verbs.h"
#include "detent/graph/owned_parameters.h"

namespace detent {

const Parameter* Quantizer::find_parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &std::pair<std::string, ParameterRef>::first);
  return found == parameters.end() ? nullptr : &*found->second;
}

Parameter* Quantizer::find_parameter(std::string_view name) {
  return const_cast<Parameter*>(std::as_const(*this).find_parameter(name));
}

std::optional<QuantSpec> Quantizer::effective_spec() const {
  if (is_spec_alone()) return spec;
  if (norm_folding != NormFolding::kNo) return std::nullopt;
  if (spec.scale_rule != ScaleRule::kLearned) return with_owned_fields(*this);
  if (!is_nearest_after_training(rounding)) return std::nullopt;
  return with_learned_scale(with_owned_fields(*this), owned_scale(*this));
}

bool Quantizer::operator==(const Quantizer& other) const {
  const auto equal = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second->trainable == b.second->trainable &&
           a.second->tensor.equals(b.second->tensor);
  };
  return spec == other.spec && rounding == other.rounding && norm_folding == other.norm_folding &&
         observer == other.observer && std::ranges::equal(parameters, other.parameters, equal);
}

std::vector<std::string> owned_parameters(const QuantSpec& spec) {
  if (spec.scale_rule != ScaleRule::kLearned) return {};
  return {is_sum_of_signs(spec.format) ? "gamma" : "scale"};
}

std::string owned_parameter_name(std::string_view operand, std::string_view parameter) {
  return fmt::format("{}_{}", operand, parameter);
}

Tensor fake_quantize(const Quantizer& quantizer, const Tensor& input, uint64_t seed) {
  if (const std::optional<QuantSpec> spec = quantizer.effective_spec())
    return fake_quantize(*spec, input, seed);
  const Parameter* up = quantizer.find_parameter(kRoundUp);
  return fake_quantize_scaled(with_owned_fields(quantizer), owned_scale(quantizer), quantizer.rounding,
                              up == nullptr ? nullptr : &up->tensor, input, seed);
}

SettledOperand settle(const Quantizer& quantizer, const Tensor& values) {
  if (is_nearest_after_training(quantizer.rounding)) return {quantizer, values};
  const std::optional<QuantSpec> spec =
      with_learned_scale(with_owned_fields(quantizer), owned_scale(quantizer));
  DETENT_CHECK(spec.has_value(), "{} has no integers", quant_spec_text(quantizer.spec));
  return {Quantizer(*spec), fake_quantize(quantizer, values)};
}

}  // namespace detent
