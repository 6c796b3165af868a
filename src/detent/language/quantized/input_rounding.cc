#include <algorithm>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

constexpr const char* kFloat8 = "fp8_e4m3fn";

/// Scale of a file: one finite number above 0.
float one_scale(FolderParts& parts, const std::string& name) {
  const Tensor scale = float32_scales(parts.take(name), parts.where() + ": " + name);
  if (scale.numel() != 1)
    fail("{}: {} has shape {}, expected one number", parts.where(), name, shape_text(scale.shape()));
  const float value = scale.values<float>()[0];
  if (!(value > 0) || !std::isfinite(value))
    fail("{}: {} is {}, expected a number above 0", parts.where(), name, value);
  return value;
}

}  // namespace

QuantSpec float8_by_scale(FolderParts& parts, const std::string& scale) {
  const auto value = static_cast<double>(one_scale(parts, scale));
  return parse_quant_spec("scaled", {{"element", kFloat8}, {"scale", value}}, parts.where());
}

QuantSpec float8_of_tokens(const FolderParts& parts, const std::string& matrix, int64_t inputs,
                           int64_t group) {
  constexpr int64_t kTokenAxis = 1;
  if (inputs > group && inputs % group != 0)
    fail("{}: {} has {} inputs, no multiple of the {} that are rounded by one scale", parts.where(), matrix,
         inputs, group);
  QuantSpec spec = parse_quant_spec("scaled", {{"element", kFloat8}}, parts.where());
  spec.granularity = Granularity::kGroup;
  spec.axis = kTokenAxis;
  spec.group_size = std::min(inputs, group);
  return spec;
}

QuantSpec nvfp4_by_scale(FolderParts& parts, const std::string& scale, TensorScale kind) {
  const float value = one_scale(parts, scale);
  const float factor = kind == TensorScale::kFactor ? value : 1 / value;
  return parse_quant_spec("nvfp4", {{"tensor_scale", static_cast<double>(factor)}},
                          parts.where() + ": " + scale);
}

QuantSpec integers_by_scale(FolderParts& parts, int64_t bits, const std::string& scale,
                            const std::string& zero) {
  Table keys = {{"width", bits}, {"scale", static_cast<double>(one_scale(parts, scale))}};
  if (const auto found = parts.take_if(zero)) {
    const Tensor point = to_dtype(*found, DType::kInt32);
    const int64_t half = int64_t{1} << (bits - 1);
    const int64_t value = point.numel() == 1 ? point.values<int32_t>()[0] : half;
    if (value < -half || value >= half) fail("{}: {} is no integer of {} bits", parts.where(), zero, bits);
    keys["zero_point"] = value;
  }
  return parse_quant_spec("affine", keys, parts.where());
}

void round_inputs(Graph& graph,
                  const std::function<std::optional<QuantSpec>(const std::string& weight)>& rounding) {
  for (Node& node : graph.nodes()) {
    const Parameter* const weight = node.find_parameter("weight");
    if (trait<WeightedSum>(node) == nullptr || weight == nullptr || weight->tensor.rank() != 2) continue;
    if (const auto spec = rounding(node.target + ".weight"))
      node.quantization["data_in_0"] = QuantizerRef(Quantizer(*spec));
  }
}

}  // namespace detent
