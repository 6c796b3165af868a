#include "detent/graph/einsum.h"

#include "detent/graph/operators/families.h"

namespace detent {
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
