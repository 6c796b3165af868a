#include "detent/engine/packed_code_sums.h"

#include <algorithm>
#include <cstdlib>

#include "detent/core/convert.h"
#include "detent/graph/operator_arguments.h"
#include "detent/inference/float_node.h"

namespace detent {
namespace {

/// A weight as [output, inputs of a window] or [output, input, positions...], less its zero points.
Tensor centred(const Tensor& codes, const Tensor& zeros, bool is_linear) {
  const int64_t outputs = is_linear ? codes.dim(1) : codes.dim(0);
  const int64_t depth = codes.numel() / outputs;
  Tensor result(DType::kInt32, is_linear ? Shape{outputs, depth} : codes.shape());
  const auto from = codes.values<int32_t>();
  const auto zero = zeros.values<int32_t>();
  const auto to = result.values<int32_t>();
  for (int64_t c = 0; c < outputs; ++c) {
    const int32_t own = zero[zero.size() == 1 ? 0 : static_cast<size_t>(c)];
    for (int64_t i = 0; i < depth; ++i)
      to[static_cast<size_t>(c * depth + i)] =
          from[static_cast<size_t>(is_linear ? i * outputs + c : c * depth + i)] - own;
  }
  return result;
}

/// `weight` [output, ...] less zero points.
PackedCodeSums packed_code_sums(Tensor weight, const WindowLayer& window, const KernelSet& kernels) {
  PackedCodeSums packed{.channels = weight.dim(0), .is_linear = window.is_linear};
  packed.depth = weight.numel() / packed.channels;
  const auto depth = static_cast<size_t>(packed.depth);
  std::vector<int32_t> sums;  // of each output
  for (size_t c = 0; c < static_cast<size_t>(packed.channels); ++c) {
    constexpr int64_t kLargest = 255;
    int64_t largest = 0;
    int64_t sum = 0;
    for (const int32_t w : weight.values<int32_t>().subspan(c * depth, depth)) {
      largest += std::abs(w) * kLargest;
      sum += w;
    }
    packed.bound = std::max(packed.bound, largest);
    sums.push_back(static_cast<int32_t>(sum));
  }
  SumForm form;
  form.input = kIntegerBytes;
  form.bias.assign(static_cast<size_t>(packed.channels), 0);
  for (int64_t c = 0; c < packed.channels; ++c) form.scale.push_back(static_cast<float>(c));
  form.bound = packed.bound;
  WindowLayer layer = window;
  layer.is_linear = false;  // whose weights would be narrowed
  form.weight = std::move(weight);
  packed.sums = packed_windows(form, layer, kernels);
  for (const float output : packed.sums.multiplier) {
    packed.outputs.push_back(static_cast<int32_t>(output));
    packed.weight_sums.push_back(sums[static_cast<size_t>(output)]);
  }
  return packed;
}

class CodeLayerPacker {
 public:
  CodeLayerPacker(const ReferencePlan& plan, const KernelSet& kernels) : plan_(plan), kernels_(kernels) {
    for (const ReferenceStep& step : plan.steps) steps_.emplace(step.node->name, &step);
  }

  /// nullptr where weights are none, or not of bytes.
  std::shared_ptr<const PackedCodeSums> packed(const Node& node, CodeOperator kind) const {
    constexpr int64_t kMostDims = 5;
    const bool is_linear = kind == CodeOperator::kProduct;
    const std::optional<Tensor> codes = constant(node, 1);
    const std::optional<Tensor> zeros = is_given(node, 3) ? constant(node, 3) : zero();
    if (!codes || !zeros || codes->numel() == 0) return nullptr;
    const bool has_bytes = codes->dtype() == DType::kInt8 || codes->dtype() == DType::kUInt8;
    const bool has_rank = is_linear ? codes->rank() == 2 : codes->rank() > 2 && codes->rank() <= kMostDims;
    if (!has_bytes || !has_rank || (!is_linear && boolean_attribute(node, "transposed"))) return nullptr;
    const int64_t outputs = codes->dim(is_linear ? 1 : 0);
    constexpr int64_t kMostOutputs = int64_t{1} << 24;  // a float counts them
    if ((zeros->numel() != 1 && zeros->numel() != outputs) || outputs > kMostOutputs) return nullptr;
    const WindowLayer layer = {.window = is_linear ? WindowShape() : window_shape(node, codes->shape()),
                               .groups = is_linear ? 1 : integer_attribute(node, "groups"),
                               .is_linear = is_linear};
    return std::make_shared<const PackedCodeSums>(
        packed_code_sums(centred(to_dtype(*codes, DType::kInt32), to_dtype(*zeros, DType::kInt32), is_linear),
                         layer, kernels_));
  }

 private:
  static Tensor zero() { return Tensor::from<int32_t>({}, std::vector<int32_t>{0}); }

  /// A number, or a tensor that the network owns.
  std::optional<Tensor> constant(const Node& node, size_t index) const {
    const NodeInput& input = node.inputs[index];
    if (const auto* number = input.is_constant() ? input.constant.get_if<int64_t>() : nullptr)
      return Tensor::from<int32_t>({}, std::vector<int32_t>{static_cast<int32_t>(*number)});
    if (input.is_constant()) return std::nullopt;
    const ReferenceStep& step = *steps_.find(input.node)->second;
    if (step.role != OperatorRole::kConstant) return std::nullopt;
    return reference_results(step, {}, plan_.in_float.get()).front().tensor;
  }

  const ReferencePlan& plan_;
  const KernelSet& kernels_;
  std::map<std::string, const ReferenceStep*, std::less<>> steps_;
};

}  // namespace

PackedCodeLayers packed_code_layers(const ReferencePlan& plan, const KernelSet& kernels) {
  PackedCodeLayers layers;
  std::optional<CodeLayerPacker> packer;
  for (const ReferenceStep& step : plan.steps) {
    if (step.role != OperatorRole::kComputes || step.rounds != nullptr) continue;
    const FloatOperator* const found = find_float_operator(step.node->op);
    if (found == nullptr || !found->codes) continue;
    if (*found->codes != CodeOperator::kProduct && *found->codes != CodeOperator::kConvolution) continue;
    if (!packer) packer.emplace(plan, kernels);
    auto layer = packer->packed(*step.node, *found->codes);
    if (layer != nullptr) layers.emplace(step.node->name, std::move(layer));
  }
  return layers;
}

}  // namespace detent
