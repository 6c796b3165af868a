#include "detent/inference/code_type.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/inference/requantize.h"

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
  const std::optional<IntegerCodes> integers = integer_codes(rounding.format);
  if (!integers || integers->width > kMostBits) return {};
  const auto [scales, zero_points] = given_scales(rounding.format);
  const int low = integers->low();
  const int high = integers->high();
  std::vector<CodeType> types;
  for (size_t i = 0; i < scales.size(); ++i) {
    const CodeType type{
        .scale = scales[i], .zero_point = zero_points.empty() ? 0 : zero_points[i], .low = low, .high = high};
    if (!std::isfinite(type.value(type.low)) || !std::isfinite(type.value(type.high))) return {};
    types.push_back(type);
  }
  return types;
}

std::optional<CodeType> operand_code_type(const Node& node, std::string_view operand) {
  return one_type(node, operand, code_types);
}

std::vector<CodeType> executed_types(const QuantSpec& rounding) {
  const std::optional<SignCodes> signs = sign_codes(rounding.format);
  if (!signs) return code_types(rounding);
  if (!signs->is_bipolar || signs->is_stochastic || signs->scaling != BinaryScaling::kNone) return {};
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
