#include "detent/operators/schema.h"

namespace detent {
namespace {

ParameterSchema weight() { return {.name = "weight", .required = false, .initial = ConstantInitial{1}}; }
ParameterSchema bias() { return {.name = "bias", .required = false, .initial = ConstantInitial{0}}; }

std::vector<ParameterSchema> with_running_statistics(bool required) {
  return {weight(),
          bias(),
          {.name = "running_mean", .required = required, .trainable = false, .initial = ConstantInitial{0}},
          {.name = "running_var", .required = required, .trainable = false, .initial = ConstantInitial{1}}};
}

AttributeSchema eps() { return {"eps", AttributeKind::kNumber, 1e-5, "added to the variance"}; }
AttributeSchema momentum() {
  return {"momentum", AttributeKind::kNumber, 0.1, "weight of a batch in the running statistics"};
}
AttributeSchema normalized_shape() {
  return {"normalized_shape", AttributeKind::kIntegers, Value(), "the last dimensions, normalised together"};
}

Operand infer_per_channel(const Node& node, std::span<const Operand> inputs) {
  const Shape& input = tensor_shape(inputs, 0);
  if (input.size() < 2) fail("got an input of shape {}, expected [N, C, ...]", shape_text(input));
  for (const auto& [name, parameter] : node.parameters) expect_parameter_shape(node, name, {input[1]});
  return same_shape(node, inputs);
}

Operand infer_image(const Node& node, std::span<const Operand> inputs, size_t dims) {
  expect_rank(tensor_shape(inputs, 0), dims + 2);
  return infer_per_channel(node, inputs);
}

Operand infer_instance_norm(const Node& node, std::span<const Operand> inputs) {
  if ((node.find_parameter("running_mean") == nullptr) != (node.find_parameter("running_var") == nullptr)) {
    fail("only one of the parameters \"running_mean\" and \"running_var\" is there");
  }
  return infer_image(node, inputs, 2);
}

Operand infer_group_norm(const Node& node, std::span<const Operand> inputs) {
  const Operand result = infer_per_channel(node, inputs);
  const int64_t groups = integer_attribute(node, "num_groups");
  if (groups < 1 || result.shape[1] % groups != 0) {
    fail("attribute \"num_groups\": got {}, expected a divisor of the {} channels", groups, result.shape[1]);
  }
  return result;
}

Operand infer_last_dims(const Node& node, std::span<const Operand> inputs) {
  const Shape& input = tensor_shape(inputs, 0);
  const Shape dims = integers_attribute(node, "normalized_shape");
  const bool fits = !dims.empty() && dims.size() <= input.size() &&
                    Shape(input.end() - static_cast<int64_t>(dims.size()), input.end()) == dims;
  if (!fits) {
    fail("attribute \"normalized_shape\": got {}, expected the last dimensions of the input's shape {}",
         shape_text(dims), shape_text(input));
  }
  for (const auto& [name, parameter] : node.parameters) expect_parameter_shape(node, name, dims);
  return same_shape(node, inputs);
}

/// (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance of what `help` says.
OperatorSchema normalization(std::string name, const char* help, std::vector<AttributeSchema> attributes,
                             ShapeInference infer, Normalization::Over over) {
  return {.name = std::move(name),
          .help = help,
          .mase_type = MaseType::kModule,
          .parameters = {weight(), bias()},
          .attributes = std::move(attributes),
          .infer = std::move(infer),
          .weight_channel_dim = 0,
          .trait = Normalization{over},
          .quantizable = true};
}

/// Batch statistics in training, running ones otherwise (Ioffe and Szegedy 2015, arXiv:1502.03167).
OperatorSchema batch_norm(size_t dims) {
  OperatorSchema schema =
      normalization(fmt::format("batch_norm{}d", dims), "normalises each channel, then scales and shifts it",
                    {eps(), momentum()}, infer_per_channel, Normalization::Over::kBatch);
  if (dims > 1) {
    schema.infer = [dims](const Node& node, std::span<const Operand> inputs) {
      return infer_image(node, inputs, dims);
    };
  }
  schema.parameters = with_running_statistics(true);
  return schema;
}

/// Statistics of the sample itself, but in inference the running ones where there are some (Ulyanov et al.
/// 2016, arXiv:1607.08022).
OperatorSchema instance_norm() {
  OperatorSchema schema =
      normalization("instance_norm2d", "normalises each channel of each sample, then scales and shifts it",
                    {eps(), momentum()}, infer_instance_norm, Normalization::Over::kChannel);
  schema.parameters = with_running_statistics(false);
  return schema;
}

/// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, arXiv:1910.07467).
OperatorSchema rms_norm() {
  OperatorSchema schema =
      normalization("rms_norm", "divides the last dimensions by their root mean square, then scales them",
                    {normalized_shape(),
                     {"eps", AttributeKind::kNumber, Value(),
                      "added to the mean square; NA: float32's epsilon, 2^-23", true}},
                    infer_last_dims, Normalization::Over::kLastDims);
  schema.parameters = {weight()};
  return schema;
}

}  // namespace

std::vector<OperatorSchema> normalization_operators() {
  // Ba et al. 2016, arXiv:1607.06450; Wu and He 2018, arXiv:1803.08494.
  return {
      batch_norm(1),
      batch_norm(2),
      batch_norm(3),
      instance_norm(),
      normalization("layer_norm",
                    "normalises the last dimensions together, then scales and shifts each element",
                    {normalized_shape(), eps()}, infer_last_dims, Normalization::Over::kLastDims),
      normalization(
          "group_norm", "normalises groups of channels of each sample, then scales and shifts each channel",
          {{"num_groups", AttributeKind::kInteger, Value(), "groups that the channels fall into"}, eps()},
          infer_group_norm, Normalization::Over::kChannelGroup),
      rms_norm()};
}

}  // namespace detent
