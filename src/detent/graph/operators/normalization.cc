#include "detent/graph/operators/families.h"

namespace detent {
namespace {

Operand infer_batch_norm(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  if (dims == 2) expect_rank(input, 4);
  if (input.size() < 2) fail("got an input of shape {}, expected [N, C, ...]", shape_text(input));
  for (const char* parameter : {"weight", "bias", "running_mean", "running_var"}) {
    expect_parameter_shape(node, parameter, {input[1]});
  }
  return same_shape(node, inputs);
}

/// (x - mean) / sqrt(var + eps) * weight + bias per channel (Ioffe and Szegedy 2015, arXiv:1502.03167): batch
/// statistics in training, running ones otherwise.
OperatorSchema batch_norm(size_t dims) {
  return {.name = fmt::format("batch_norm{}d", dims),
          .help = "normalises each channel, then scales and shifts it",
          .mase_type = MaseType::kModule,
          .parameters = {{.name = "weight", .required = false},
                         {.name = "bias", .required = false},
                         {.name = "running_mean", .trainable = false},
                         {.name = "running_var", .trainable = false}},
          .attributes = {{"eps", AttributeKind::kNumber, 1e-5, "added to the variance"},
                         {"momentum", AttributeKind::kNumber, 0.1, "weight of a batch in the running statistics"}},
          .infer = [dims](const Node& node, std::span<const Operand> inputs) {
            return infer_batch_norm(node, inputs, dims);
          },
          .weight_channel_dim = 0,
          .onnx_name = "BatchNormalization",
          .quantizable = true};
}

}  // namespace

std::vector<OperatorSchema> normalization_operators() { return {batch_norm(1), batch_norm(2)}; }

}  // namespace detent
