#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// [A, I] by Gauss and Jordan: each step divides the row with the largest element of a column, among those
/// that no step had, and takes it off all others. Rows stay where they are; the last product orders them.
class Elimination {
 public:
  Elimination(NodeImport& node, int64_t size) : node_(node), a_(node.input(0)) {
    Tensor identity(DType::kFloat32, {size, size});
    for (int64_t i = 0; i < size; ++i) identity.values<float>()[static_cast<size_t>(i * size + i)] = 1;
    b_ = node.constant_of(identity);
    places_ = node.integers_below(NodeImport::list_of({size}));
  }

  void step(int64_t column) {
    const NodeInput elements = node_.add("select", {a_}, {{"dim", -1}, {"index", column}});
    NodeInput magnitude = node_.add("abs", {elements});
    if (column > 0) magnitude = node_.add("where", {used_, NodeImport::number_of(-1), magnitude});
    const NodeInput place = node_.add("argmax", {magnitude}, {{"dim", -1}, {"keepdim", true}});
    const NodeInput is_row = node_.add("eq", {place, places_});
    used_ = column > 0 ? node_.add("logical_or", {used_, is_row}) : is_row;
    const NodeInput choice = unsqueezed(node_.add("cast", {is_row}, {{"dtype", "float32"}}), -2);
    choices_.push_back(choice);
    const NodeInput row = node_.add("matmul", {choice, a_});
    const NodeInput pivot = unsqueezed(node_.add("select", {row}, {{"dim", -1}, {"index", column}}), -1);
    const NodeInput factors = unsqueezed(elements, -1);
    const NodeInput is_at = unsqueezed(is_row, -1);
    const NodeInput of_b = node_.add("matmul", {choice, b_});
    a_ = eliminated(a_, node_.add("div", {row, pivot}), factors, is_at);
    b_ = eliminated(b_, node_.add("div", {of_b, pivot}), factors, is_at);
  }

  NodeInput result() {
    const NodeInput order =
        choices_.size() == 1 ? choices_[0] : node_.add("cat", std::move(choices_), {{"dim", -2}});
    return node_.add("matmul", {order, b_});
  }

 private:
  NodeInput unsqueezed(const NodeInput& x, int64_t dim) {
    return node_.add("unsqueeze", {x, NodeImport::list_of({dim})});
  }
  NodeInput eliminated(const NodeInput& rows, const NodeInput& row, const NodeInput& factors,
                       const NodeInput& is_at) {
    const NodeInput rest = node_.add("sub", {rows, node_.add("mul", {factors, row})});
    return node_.add("where", {is_at, row, rest});
  }

  NodeImport& node_;
  NodeInput a_;
  NodeInput b_;
  NodeInput places_;
  NodeInput used_;
  std::vector<NodeInput> choices_;
};

void convert_inverse(NodeImport& node) {
  constexpr int64_t kMost = 64;
  const size_t rank = node.rank(0);
  const auto size = rank < 2 ? std::nullopt : node.size(0, -1);
  if (!size || node.size(0, -2) != size)
    fail("matrices of shape {}, expected squares of a known size", shape_text(node.type(0).shape));
  if (*size < 1 || *size > kMost) node.refuse(fmt::format("a matrix of {} rows", *size));
  Elimination elimination(node, *size);
  for (int64_t column = 0; column < *size; ++column) elimination.step(column);
  node.set_output(0, elimination.result());
}

/// Products of int16 as int32 sums.
void convert_matmul_of_int16(NodeImport& node) {
  const auto wide = [&](size_t input) { return node.add("cast", {node.input(input)}, {{"dtype", "int32"}}); };
  node.set_output(0, matrix_product(node, wide(0), wide(1)));
}

}  // namespace

OnnxConverterList microsoft_matrix_converters() {
  return {{"Inverse", convert_inverse}, {"MatMulInteger16", convert_matmul_of_int16}};
}

}  // namespace detent
