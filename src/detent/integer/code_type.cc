#include "detent/integer/code_type.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/elements/affine.h"
#include "detent/formats/elements/binary.h"
#include "detent/integer/requantize.h"

namespace detent {
namespace {

using TypesOf = std::vector<CodeType> (*)(const QuantSpec&);

std::optional<CodeType> one_type(const Node& node, std::string_view operand, TypesOf types_of) {
  const std::optional<QuantSpec> rounding = node.rounding(operand);
  const std::vector<CodeType> types = rounding ? types_of(*rounding) : std::vector<CodeType>();
  return types.size() == 1 ? std::optional(types.front()) : std::nullopt;
}

}  // namespace

std::vector<CodeType> code_types(const QuantSpec& rounding) {
  constexpr int kMostBits = 16;
  const auto* affine = std::get_if<Affine>(&rounding.format);
  if (affine == nullptr || affine->width > kMostBits) return {};
  std::vector<CodeType> types;
  for (size_t i = 0; i < affine->scale.size(); ++i) {
    const CodeType type{.scale = affine->scale[i],
                        .zero_point = affine->zero_point.empty() ? 0 : affine->zero_point[i],
                        .low = affine->low_code(),
                        .high = affine->high_code()};
    if (!std::isfinite(type.value(type.low)) || !std::isfinite(type.value(type.high))) return {};
    types.push_back(type);
  }
  return types;
}

std::optional<CodeType> operand_code_type(const Node& node, std::string_view operand) {
  return one_type(node, operand, code_types);
}

std::vector<CodeType> executed_types(const QuantSpec& rounding) {
  const auto* binary = std::get_if<Binary>(&rounding.format);
  if (binary == nullptr) return code_types(rounding);
  if (!binary->bipolar || binary->stochastic || binary->scaling != BinaryScaling::kNone) return {};
  return {{.scale = 1, .zero_point = 0, .low = -1, .high = 1, .is_sign = true}};
}

std::optional<CodeType> executed_type(const Node& node, std::string_view operand) {
  return one_type(node, operand, executed_types);
}

FixedMultiplier FixedMultiplier::of(double real) {
  DETENT_CHECK(real >= 0, "multiplier {}", real);
  int exponent = 0;
  const double fraction = std::frexp(real, &exponent);
  auto fixed = static_cast<int64_t>(std::round(fraction * 0x1p31));
  if (fixed == int64_t{1} << 31) {
    fixed /= 2;
    ++exponent;
  }
  if (exponent < -31) return {0, 0};
  if (exponent > 30) fail("a multiplier of {} does not fit into 31 bits and a shift", real);
  return {static_cast<int32_t>(fixed), exponent};
}

}  // namespace detent
