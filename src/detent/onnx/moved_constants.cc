#include <algorithm>
#include <cstring>

#include "detent/graph/traits.h"
#include "detent/onnx/importer.h"

namespace detent {
namespace {

void copy(const StridedCopy& copy, const Tensor& from, Tensor& to) {
  const size_t width = dtype_size(from.dtype());
  const Shape& shape = copy.from.shape;
  std::vector<int64_t> index(shape.size());
  for (int64_t left = element_count(shape); left > 0; --left) {
    int64_t source = copy.from.offset;
    int64_t target = copy.to.offset;
    for (size_t d = 0; d < index.size(); ++d) {
      source += index[d] * copy.from.strides[d];
      target += index[d] * copy.to.strides[d];
    }
    std::memcpy(to.bytes().data() + static_cast<size_t>(target) * width,
                from.bytes().data() + static_cast<size_t>(source) * width, width);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

std::optional<Tensor> moved_constants(const Graph& graph, const Node& node, const Operand& result,
                                      int64_t& growth) {
  const Movement* movement = trait<Movement>(node);
  if (movement == nullptr || movement->parts || node.inputs.empty() || result.is_open()) return std::nullopt;
  std::vector<Tensor> inputs;
  std::vector<Shape> shapes;
  for (const NodeInput& input : node.inputs) {
    if (input.is_constant()) break;  // sizes and positions come last
    const Node& giver = graph.node(input.node);
    if (role_of(giver) != OperatorRole::kConstant) return std::nullopt;
    inputs.push_back(giver.find_parameter("value")->tensor);
    shapes.push_back(inputs.back().shape());
  }
  if (inputs.empty()) return std::nullopt;
  int64_t more = element_count(result.shape) * static_cast<int64_t>(dtype_size(inputs[0].dtype()));
  for (const Tensor& input : inputs) more -= static_cast<int64_t>(input.byte_size());
  if (more > growth) return std::nullopt;
  growth -= std::max<int64_t>(more, 0);
  if (!movement->copies) return inputs[0].reshaped(result.shape);
  Tensor moved(inputs[0].dtype(), result.shape);
  for (const StridedCopy& part : movement->copies(node, shapes, result.shape))
    copy(part, inputs[part.input], moved);
  return moved;
}

}  // namespace detent
