#include "detent/graph/owned_parameters.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

constexpr std::array kAllKinds = {ScaleParameter::kScale, ScaleParameter::kLog2, ScaleParameter::kExponent,
                                  ScaleParameter::kRange, ScaleParameter::kClip, ScaleParameter::kGamma};

float first_value(const Parameter& parameter) { return parameter.tensor.values<float>()[0]; }

bool has_ranges(ScaleParameter kind) {
  return kind == ScaleParameter::kRange || kind == ScaleParameter::kClip;
}

/// Names that a quantizer with this spec may own besides the one that stands for its scale.
std::vector<std::string> further_names(const QuantSpec& spec, ScaleParameter kind) {
  std::vector<std::string> names;
  if (has_threshold(spec.format)) names.emplace_back("threshold");
  const std::optional<IntegerCodes> integers = integer_codes(spec.format);
  if (!integers) return names;
  const bool has_zero_points = !given_scales(spec.format).zero_points.empty();
  if (!integers->is_signed && !has_zero_points) names.emplace_back("zero_point");
  if (has_ranges(kind)) names.emplace_back("width");
  names.emplace_back(kRoundUp);
  return names;
}

/// Names that a quantizer without a learned scale may own.
std::vector<std::string> field_names_of(const Format& format) {
  if (!listed_values(format).empty()) return {kCodebook};
  if (exponent_bias(format)) return {kExponentBias};
  return {};
}

bool is_number(const std::string& name) {
  return name == "width" || name == "threshold" || name == kExponentBias;
}

bool has_shape_of(const std::string& name, const Shape& shape) {
  if (is_number(name)) return shape.empty();
  if (name == kRoundUp) return true;  // what it is compared with is known where it is used
  if (name == kCodebook) return shape.size() == 1 && element_count(shape) > 0;
  return shape.size() <= 1 && element_count(shape) > 0;
}

void verify_tensor(const Tensor& tensor, const std::string& name, const std::string& where) {
  if (!has_shape_of(name, tensor.shape())) {
    fail_value(where, shape_text(tensor.shape()),
               is_number(name)     ? "[]"
               : name == kCodebook ? "[values]"
                                   : "the learned scale of shape [], [channels] or [groups]");
  }
  if (tensor.dtype() != DType::kFloat32)
    fail_value(where, std::string(dtype_name(tensor.dtype())), "float32");
}

/// Values that are not finite are refused where they enter. NaN is a scale that is still to be calibrated,
/// and all that training has yet to observe.
void verify_values(const Tensor& tensor, const std::string& name, bool is_observed,
                   const std::string& where) {
  const bool is_scale =
      std::ranges::any_of(kAllKinds, [&](ScaleParameter kind) { return name == scale_parameter_name(kind); });
  for (const float value : tensor.values<float>()) {
    if (!std::isfinite(value) && !((is_scale || is_observed) && std::isnan(value)))
      fail_value(where, fmt::format("{}", value), "finite numbers");
  }
}

bool fits_format(ScaleParameter kind, const Format& format) {
  return is_sum_of_signs(format) == (kind == ScaleParameter::kGamma);
}

/// Ascending, each once.
std::vector<float> codebook_entries(const Tensor& codebook) {
  std::vector<float> entries(codebook.values<float>().begin(), codebook.values<float>().end());
  for (const float entry : entries) {
    if (!std::isfinite(entry)) fail("a value of the codebook is {}: try a smaller learning rate", entry);
  }
  std::ranges::sort(entries);
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

/// Names that a quantizer may own.
std::vector<std::string> known_names(const QuantSpec& spec, const std::optional<ScaleParameter>& kind) {
  if (spec.scale_rule != ScaleRule::kLearned) return field_names_of(spec.format);
  if (!fits_format(*kind, spec.format)) return {};
  std::vector<std::string> names = further_names(spec, *kind);
  names.emplace_back(scale_parameter_name(*kind));
  return names;
}

/// `kind`: what stands for its scale, where that is learned.
void verify_settings(const Quantizer& quantizer, const std::optional<ScaleParameter>& kind,
                     const std::string& operand, const std::string& where) {
  const bool has_scale = kind && *kind != ScaleParameter::kGamma;
  const bool is_integer = integer_codes(quantizer.spec.format).has_value();
  const auto text = [&] { return quant_spec_text(quantizer.spec); };
  const Rounding rounding = quantizer.rounding;
  const char* name = enum_name(rounding);
  if (rounding != Rounding::kNearest && !(has_scale && is_integer)) {
    fail("{}: operand \"{}\": got rounding \"{}\" of {}, expected integers with a learned scale", where,
         operand, name, text());
  }
  if ((rounding == Rounding::kLearned) != (quantizer.find_parameter(kRoundUp) != nullptr)) {
    fail("{}: operand \"{}\": got rounding \"{}\" {} a parameter \"{}\"", where, operand, name,
         rounding == Rounding::kLearned ? "without" : "with", kRoundUp);
  }
  if (quantizer.norm_folding != NormFolding::kNo && operand != "weight")
    fail("{}: operand \"{}\": got a folded batch norm, expected that of weights alone", where, operand);
  if (!quantizer.observer) return;
  if (!has_scale)
    fail("{}: operand \"{}\": got an observer of {}, which learns no scale", where, operand, text());
  const ScaleObserver& observer = *quantizer.observer;
  const bool is_finite = std::isfinite(observer.argument) && std::isfinite(observer.momentum);
  if (!is_finite || observer.steps < 0 || observer.done < 0) {
    fail("{}: operand \"{}\": got an observer with argument {}, momentum {}, {} of {} steps", where, operand,
         observer.argument, observer.momentum, observer.done, observer.steps);
  }
}

}  // namespace

const char* scale_parameter_name(ScaleParameter parameter) { return enum_name(parameter); }

std::optional<ScaleParameter> scale_parameter(const Quantizer& quantizer) {
  for (const ScaleParameter kind : kAllKinds) {
    if (quantizer.find_parameter(scale_parameter_name(kind)) != nullptr) return kind;
  }
  return std::nullopt;
}

int rounded_width(float width) { return nearest_whole("width", width, kLeastWidth, kMostWidth); }

QuantSpec with_owned_fields(const Quantizer& quantizer) {
  QuantSpec spec = quantizer.spec;
  if (const Parameter* threshold = quantizer.find_parameter("threshold"))
    spec.format = with_threshold(spec.format, first_value(*threshold));
  if (const Parameter* codebook = quantizer.find_parameter(kCodebook))
    spec.format = format_of_values(codebook_entries(codebook->tensor));
  if (const Parameter* bias = quantizer.find_parameter(kExponentBias))
    spec.format = with_exponent_bias(spec.format, first_value(*bias));
  if (!integer_codes(spec.format)) return spec;
  const auto is_to_be_observed = [&](float value) {
    return std::isnan(value) && quantizer.observer.has_value();
  };
  const Parameter* width = quantizer.find_parameter("width");
  if (width != nullptr && !is_to_be_observed(first_value(*width)))
    spec.format = with_width(spec.format, rounded_width(first_value(*width)));
  if (const Parameter* zero_point = quantizer.find_parameter("zero_point")) {
    const IntegerCodes codes = *integer_codes(spec.format);
    GivenScales given = given_scales(spec.format);
    given.zero_points.clear();
    for (const float zero : zero_point->tensor.values<float>()) {
      const bool is_known = !is_to_be_observed(zero);
      given.zero_points.push_back(is_known ? nearest_whole("zero point", zero, codes.low(), codes.high())
                                           : 0);
    }
    spec.format = with_scales(spec.format, std::move(given));
  }
  return spec;
}

double largest_code_of(const QuantSpec& spec) {
  QuantSpec without_zero_points = spec;
  if (integer_codes(spec.format))
    without_zero_points.format = with_scales(spec.format, {given_scales(spec.format).scales, {}});
  return largest_code(without_zero_points);
}

float scale_of_parameter(ScaleParameter kind, float parameter, double largest_code) {
  switch (kind) {
    case ScaleParameter::kLog2:
      return std::exp2(parameter);
    case ScaleParameter::kExponent:
      return std::exp2(std::ceil(parameter));
    case ScaleParameter::kRange:
    case ScaleParameter::kClip:
      return parameter / static_cast<float>(largest_code);
    case ScaleParameter::kScale:
    case ScaleParameter::kGamma:
      return parameter;
  }
  return parameter;
}

float parameter_of_scale(ScaleParameter kind, float scale, double largest_code) {
  switch (kind) {
    case ScaleParameter::kLog2:
    case ScaleParameter::kExponent:
      return std::log2(scale);
    case ScaleParameter::kRange:
    case ScaleParameter::kClip:
      return scale * static_cast<float>(largest_code);
    case ScaleParameter::kScale:
    case ScaleParameter::kGamma:
      return scale;
  }
  return scale;
}

Tensor owned_scale(const Quantizer& quantizer) {
  const std::optional<ScaleParameter> kind = scale_parameter(quantizer);
  DETENT_CHECK(kind.has_value(), "nothing stands for the scale of {}", quant_spec_text(quantizer.spec));
  Tensor scale = quantizer.find_parameter(scale_parameter_name(*kind))->tensor.clone();
  const double largest = largest_code_of(with_owned_fields(quantizer));
  for (float& value : scale.values<float>()) {
    if (std::isnan(value)) {
      fail("the {} was never calibrated: train the network, or begin with a calibration",
           scale_parameter_name(*kind));
    }
    value = scale_of_parameter(*kind, value, largest);
  }
  check_learned_scale(scale.values<float>());
  return scale;
}

void verify_owned_parameters(const Quantizer& quantizer, const std::string& operand,
                             const std::string& where) {
  const bool is_learned = quantizer.spec.scale_rule == ScaleRule::kLearned;
  const std::optional<ScaleParameter> kind = scale_parameter(quantizer);
  const auto called = [&](std::string_view name) {
    return fmt::format("{}: parameter \"{}\"", where, owned_parameter_name(operand, name));
  };
  if (is_learned && !kind) {
    fail("{}: got nothing, expected the learned scale of shape [], [channels] or [groups]",
         called(owned_parameters(quantizer.spec).front()));
  }
  const std::vector<std::string> known = known_names(quantizer.spec, kind);
  std::vector<std::string> seen;
  for (const auto& [name, parameter] : quantizer.parameters) {
    if (std::ranges::find(known, name) == known.end()) {
      fail("{}: operand \"{}\": its quantizer has a parameter \"{}\", which {} does not read", where, operand,
           name, quant_spec_text(quantizer.spec));
    }
    if (std::ranges::find(seen, name) != seen.end())
      fail("{}: operand \"{}\": a parameter of its quantizer occurs twice", where, operand);
    seen.push_back(name);
    verify_tensor(parameter->tensor, name, called(name));
    verify_values(parameter->tensor, name, quantizer.observer.has_value(), called(name));
  }
  verify_settings(quantizer, is_learned ? kind : std::nullopt, operand, where);
}

}  // namespace detent
