#include "detent/graph/operators/families.h"

namespace detent {
namespace {

/// Row x[...] of weight [rows, dim] for every index.
Operand infer_embedding(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const Tensor& weight = node.find_parameter("weight")->tensor;
  if (weight.rank() != 2) fail("weight has shape {}, expected [rows, dim]", shape_text(weight.shape()));
  const Value* padding = node.attributes.find("padding_idx");
  if (padding != nullptr && !padding->is_na()) {
    const int64_t index = integer_attribute(node, "padding_idx");
    if (index < -weight.dim(0) || index >= weight.dim(0)) {
      fail("attribute \"padding_idx\": got {}, expected {} to {}", index, -weight.dim(0), weight.dim(0) - 1);
    }
  }
  shape.push_back(weight.dim(1));
  return {std::move(shape), Value()};
}

}  // namespace

std::vector<OperatorSchema> embedding_operators() {
  return {{.name = "embedding",
           .help = "rows of weight by index, negative ones from the end; indices are int64, or float32 with "
                   "integer values",
           .mase_type = MaseType::kModuleRelatedFunc,
           .parameters = {{.name = "weight", .initial = NormalInitial{.zero_row = "padding_idx"}}},
           .attributes = {{"padding_idx", AttributeKind::kInteger, Value(),
                           "row that begins as zeros and is not trained; NA: none", true}},
           .infer = infer_embedding,
           .weight_channel_dim = 0,
           .quantizable = true,
           .index_operands = {"data_in_0"}}};
}

}  // namespace detent
