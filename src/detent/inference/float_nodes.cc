#include "detent/inference/float_nodes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "detent/core/error.h"
#include "detent/graph/node_names.h"
#include "detent/graph/quantizer.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// As quantizers leave it.
Tensor quantized_parameter(const Node& node, const std::string& name, const Tensor& values) {
  const Quantizer* quantizer = node.find_quantizer(name);
  if (quantizer == nullptr) return values;
  const uint64_t seed = std::hash<std::string_view>{}(node.name) ^ std::hash<std::string_view>{}(name);
  if (const std::optional<QuantSpec> rounding = node.rounding(name))
    return fake_quantize(*rounding, values, seed);
  return fake_quantize(*quantizer, values, seed);
}

/// Twice its bits, less 1, is in [1, 2^24 - 3] of a subnormal number, UINT32_MAX of a zero, and more of
/// others.
bool is_subnormal(float x) {
  constexpr uint32_t kOfLeastNormal = 0x00FFFFFF;
  return 2 * std::bit_cast<uint32_t>(x) - 1 < kOfLeastNormal;
}

/// As the interpreter takes them in inference.
Tensor rounded_parameter(const Node& node, const std::string& name, const Tensor& values) {
  return without_subnormals(node, quantized_parameter(node, name, values));
}

}  // namespace

Tensor without_subnormals(const Node& node, Tensor parameter) {
  const bool is_multiplied = trait<WeightedSum>(node) != nullptr || trait<Normalization>(node) != nullptr;
  if (!is_multiplied || parameter.dtype() != DType::kFloat32) return parameter;
  const auto found = std::as_const(parameter).values<float>();
  uint32_t any = 0;
  for (const float x : found) any |= is_subnormal(x) ? 1U : 0U;
  if (any == 0) return parameter;
  Tensor normal(DType::kFloat32, parameter.shape());
  std::ranges::transform(found, normal.values<float>().begin(),
                         [](float x) { return is_subnormal(x) ? 0.0F : x; });
  return normal;
}

std::vector<FloatFlow> FloatNodes::results(const Node& node, std::span<const FloatFlow> inputs) const {
  const FloatOperator* const entry = find_float_operator(node.op);
  DETENT_CHECK(entry != nullptr, "node {}: nothing computes the operator {} in float", node.name, node.op);
  return results(*entry, node, constants_of(node), inputs);
}

std::vector<FloatFlow> FloatNodes::results(const FloatOperator& op, const Node& node,
                                           const Constants& constants, std::span<const FloatFlow> inputs) {
  std::vector<FloatFlow> results;
  try {
    std::vector<Tensor> tensors = op.results({node, inputs, constants.parameters, &constants.derived});
    results.reserve(tensors.size());
    for (Tensor& result : tensors) results.push_back({std::move(result)});
  } catch (const Error& error) {
    throw node_error(node, error);
  } catch (const std::bad_alloc&) {
    fail("node \"{}\" ({}): out of memory", node.name, node.op);
  }
  return results;
}

const FloatNodes::Constants& FloatNodes::constants_of(const Node& node) const {
  const std::lock_guard lock(mutex_);
  const auto known = constants_.find(node.name);
  if (known != constants_.end()) return known->second;
  NamedTensors rounded;
  for (const auto& [name, parameter] : node.parameters) {
    std::optional<Tensor> given = give_ ? give_(node, name) : std::nullopt;
    rounded.emplace_back(name, given ? *given : rounded_parameter(node, name, parameter->tensor));
  }
  DerivedConstants derived = derived_constants(node, rounded);
  return constants_.emplace(node.name, Constants{std::move(rounded), std::move(derived)}).first->second;
}

NamedTensors rounded_parameters(const Node& node) {
  NamedTensors rounded;
  for (const auto& [name, parameter] : node.parameters)
    rounded.emplace_back(name, rounded_parameter(node, name, parameter->tensor));
  return rounded;
}

}  // namespace detent
