#include "detent/operators/schema.h"

#include "detent/graph/operator_arguments.h"

namespace detent {

OperatorSchema weighted_sum(std::string name, std::string help, const WeightedSum& sum,
                            std::vector<AttributeSchema> attributes, ShapeInference infer) {
  return {.name = std::move(name),
          .help = std::move(help),
          .mase_type = MaseType::kModuleRelatedFunc,
          .parameters = {{.name = "weight"}, {.name = "bias", .required = false}},
          .attributes = std::move(attributes),
          .infer = std::move(infer),
          .reduction_dims = {{"data_in_0", sum.channel_axis}, {"weight", sum.reduction_axis()}},
          .weight_channel_dim = sum.output_axis(),
          .trait = sum,
          .quantizable = true};
}

namespace {

/// y[..., o] = sum_i x[..., i] * weight[o, i] + bias[o]
Operand infer_linear(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const Tensor& weight = node.find_parameter("weight")->tensor;
  if (weight.rank() != 2) fail("weight has shape {}, expected [out, in]", shape_text(weight.shape()));
  if (shape.empty() || shape.back() != weight.dim(1)) {
    fail("got an input of shape {}, expected {} in the last dimension, as weight {} has", shape_text(shape),
         weight.dim(1), shape_text(weight.shape()));
  }
  expect_parameter_shape(node, "bias", {weight.dim(0)});
  shape.back() = weight.dim(0);
  return {std::move(shape), Value()};
}

/// Whether both sizes are the same, as far as they are known.
bool may_be_equal(int64_t a, int64_t b) { return a == b || a == kOpenSize || b == kOpenSize; }

/// numpy's matmul: [..., m, k] x [..., k, n], batch dimensions broadcast.
Operand infer_matmul(const Node&, std::span<const Operand> inputs) {
  const Shape& a = tensor_shape(inputs, 0);
  const Shape& b = tensor_shape(inputs, 1);
  if (a.size() < 2 || b.size() < 2 || !may_be_equal(a.back(), b[b.size() - 2])) {
    fail("got shapes {} and {}, expected [..., m, k] and [..., k, n]", shape_text(a), shape_text(b));
  }
  Shape shape = broadcast_shapes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return {std::move(shape), Value()};
}

/// [b, m, k] x [b, k, n], nothing broadcasts.
Operand infer_bmm(const Node&, std::span<const Operand> inputs) {
  const Shape& a = tensor_shape(inputs, 0);
  const Shape& b = tensor_shape(inputs, 1);
  if (a.size() != 3 || b.size() != 3 || !may_be_equal(a[0], b[0]) || !may_be_equal(a[2], b[1])) {
    fail("got shapes {} and {}, expected [b, m, k] and [b, k, n]", shape_text(a), shape_text(b));
  }
  return {{a[0] == kOpenSize ? b[0] : a[0], a[1], b[2]}, Value()};
}

}  // namespace

std::vector<OperatorSchema> linear_operators() {
  return {
      weighted_sum("linear", "y = x * weight^T + bias over the last dimension", {.channel_axis = -1}, {},
                   infer_linear),
      {.name = "matmul",
       .help = "matrix product of two inputs, batch dimensions broadcast",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_matmul,
       .takes_open_sizes = true,
       .reduction_dims = {{"data_in_0", -1}, {"data_in_1", -2}},
       .trait = MatrixProduct{},
       .quantizable = true},
      {.name = "bmm",
       .help = "matrix products of two batches of matrices",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_bmm,
       .takes_open_sizes = true,
       .reduction_dims = {{"data_in_0", -1}, {"data_in_1", -2}},
       .trait = MatrixProduct{},
       .quantizable = true},
  };
}

namespace {

Operand infer_einsum(const Node& node, std::span<const Operand> inputs) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) shapes.push_back(tensor_shape(inputs, i));
  const EinsumDims dims = einsum_dims(text_attribute(node, "equation"), shapes);
  Shape result;
  for (const int label : dims.result) result.push_back(dims.sizes.at(label));
  return {result, Value()};
}

}  // namespace

std::vector<OperatorSchema> einsum_operators() {
  constexpr size_t kMostInputs = 64;
  return {
      {.name = "einsum",
       .help =
           "sums of products over the dimensions whose letters the result has not, in Einstein's notation",
       .max_inputs = kMostInputs,
       .attributes = {{"equation", AttributeKind::kText, Value(), "a letter a dimension: \"bij,bjk->bik\""}},
       .infer = infer_einsum,
       .takes_open_sizes = true,
       .quantizable = true}};
}

}  // namespace detent
