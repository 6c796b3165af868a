#include "detent/inference/flow.h"

#include <cmath>

#include "detent/core/error.h"

namespace detent {
namespace {

Tensor codes_of(const Node& node, const Tensor& values, const CodeType& type) {
  const auto nan = std::ranges::find_if(values.values<float>(), [](float x) { return std::isnan(x); });
  if (nan != values.values<float>().end()) {
    fail(
        "node \"{0}\" ({1}): element {2} of its input is NaN, which has no quantized integer (`detent "
        "quantize "
        "--keep-float` leaves nodes in float: what gives NaN, and what comes before it)",
        node.name, node.op, nan - values.values<float>().begin());
  }
  return mapped<float, int32_t>(values, [&](float x) { return type.code(x); });
}

}  // namespace

Flow constant_flow(const NodeInput& input) {
  if (input.is_absent()) return {.tensor = {}, .is_absent = true};
  return {.tensor = {}, .number = input.constant};
}

Tensor as_values(const Flow& flow) {
  if (!flow.type) return flow.tensor;
  const CodeType type = *flow.type;
  return mapped<int32_t, float>(flow.tensor, [&](int32_t code) { return type.value(code); });
}

Flow converted(const Node& node, Flow flow, const std::optional<CodeType>& type) {
  if (!flow.is_float() || !type || flow.type == type) return flow;
  return {.tensor = codes_of(node, as_values(flow), *type), .type = type};
}

Operand operand_of(const Flow& flow) {
  if (flow.is_absent) return {.shape = {}, .value = {}, .is_absent = true};
  if (!flow.is_tensor()) return constant_operand(flow.number);
  Operand operand{.shape = flow.tensor.shape(), .value = {}};
  if (flow.type) return operand;
  operand.dtype = flow.tensor.dtype();
  constexpr int64_t kMostElements = 4096;
  if (!is_floating_point(operand.dtype) && flow.tensor.numel() <= kMostElements)
    operand.elements = flow.tensor;
  return operand;
}

FloatFlow float_flow(const Flow& flow) {
  if (!flow.is_tensor()) return {{}, flow.number, flow.is_absent};
  return {as_values(flow)};
}

Flow flow_of(FloatFlow flow) {
  return {.tensor = std::move(flow.tensor), .number = std::move(flow.number), .is_absent = flow.is_absent};
}

}  // namespace detent
