#include "detent/graph/owned_parameters.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/formats/groups/learned_scale.h"

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
  if (kind != ScaleParameter::kGamma) names.emplace_back(kCollected);
  if (std::holds_alternative<Ternary>(spec.format)) names.emplace_back("threshold");
  const auto* affine = std::get_if<Affine>(&spec.format);
  if (affine == nullptr) return names;
  if (!affine->is_signed && affine->zero_point.empty()) names.emplace_back("zero_point");
  if (has_ranges(kind)) names.emplace_back("width");
  return names;
}

bool has_shape_of(const std::string& name, const Shape& shape) {
  if (name == kCollected) return shape == Shape{5};
  if (name == "width" || name == "threshold") return shape.empty();
  return shape.size() <= 1 && element_count(shape) > 0;
}

void verify_tensor(const Tensor& tensor, const std::string& name, const std::string& where) {
  if (!has_shape_of(name, tensor.shape())) {
    const bool is_number = name == "width" || name == "threshold";
    fail("{}: got {}, expected {}", where, shape_text(tensor.shape()),
         name == kCollected ? "[5]"
         : is_number        ? "[]"
                            : "the learned scale of shape [], [channels] or [groups]");
  }
  if (tensor.dtype() != DType::kFloat32)
    fail("{}: got {}, expected float32", where, dtype_name(tensor.dtype()));
}

bool fits_format(ScaleParameter kind, const Format& format) {
  if (std::holds_alternative<BinaryResidual>(format)) return kind == ScaleParameter::kGamma;
  return kind != ScaleParameter::kGamma;
}

}  // namespace

const char* scale_parameter_name(ScaleParameter parameter) {
  return enum_names(parameter)[static_cast<size_t>(parameter)];
}

std::optional<ScaleParameter> scale_parameter(const Quantizer& quantizer) {
  for (const ScaleParameter kind : kAllKinds) {
    if (quantizer.find_parameter(scale_parameter_name(kind)) != nullptr) return kind;
  }
  return std::nullopt;
}

QuantSpec with_owned_fields(const Quantizer& quantizer) {
  QuantSpec spec = quantizer.spec;
  if (const Parameter* threshold = quantizer.find_parameter("threshold"))
    std::get<Ternary>(spec.format).threshold = first_value(*threshold);
  auto* affine = std::get_if<Affine>(&spec.format);
  if (affine == nullptr) return spec;
  if (const Parameter* width = quantizer.find_parameter("width")) {
    const auto rounded = static_cast<int>(std::nearbyint(first_value(*width)));
    affine->width = std::clamp(rounded, kLeastWidth, kMostWidth);
  }
  if (const Parameter* zero_point = quantizer.find_parameter("zero_point")) {
    affine->zero_point.clear();
    for (const float zero : zero_point->tensor.values<float>()) {
      affine->zero_point.push_back(
          std::clamp(static_cast<int>(std::nearbyint(zero)), affine->low_code(), affine->high_code()));
    }
  }
  return spec;
}

double largest_code_of(const QuantSpec& spec) {
  QuantSpec without_zero_points = spec;
  if (auto* affine = std::get_if<Affine>(&without_zero_points.format)) affine->zero_point.clear();
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
  std::vector<std::string> known;
  if (is_learned && fits_format(*kind, quantizer.spec.format)) {
    known = further_names(quantizer.spec, *kind);
    known.emplace_back(scale_parameter_name(*kind));
  }
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
  }
}

CollectionState read_collection(const Tensor& collected) {
  const auto values = collected.values<float>();
  return {values[0], values[1], values[2], values[3], values[4]};
}

Tensor collection_tensor(const CollectionState& state) {
  return Tensor::from<float>(
      {5}, std::vector<float>{state.done, state.wanted, state.statistic, state.argument, state.momentum});
}

}  // namespace detent
