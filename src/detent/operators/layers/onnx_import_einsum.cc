#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "detent/graph/element_movement.h"
#include "detent/graph/operator_arguments.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// The dimensions of an operand by their letters; those that "..." stands for are called 0, 1, ...
std::optional<std::string> named_dims(const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) return term.size() == rank ? std::optional(term) : std::nullopt;
  if (rank + 3 < term.size() || rank + 3 - term.size() > 9) return std::nullopt;
  std::string others;
  for (size_t i = 0; i < rank + 3 - term.size(); ++i) others += static_cast<char>('0' + i);
  return term.substr(0, dots) + others + term.substr(dots + 3);
}

/// a, b -> y, as the equation names their dimensions; nullopt where it leaves y open, names a dimension of an
/// operand twice, or one that broadcasts.
struct ProductTerms {
  std::string a;
  std::string b;
  std::string result;
};

bool is_each_once(std::string dims) {
  std::ranges::sort(dims);
  return std::ranges::adjacent_find(dims) == dims.end();
}

bool broadcasts(const NodeImport& node, const std::string& a, const std::string& b) {
  return std::ranges::any_of(a, [&](char dim) {
    const size_t in_b = b.find(dim);
    if (in_b == std::string::npos) return false;
    const auto size = node.size(0, static_cast<int64_t>(a.find(dim)));
    const auto other = node.size(1, static_cast<int64_t>(in_b));
    return size && other && *size != *other;
  });
}

std::optional<ProductTerms> product_terms(NodeImport& node) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const size_t comma = equation.find(',');
  const size_t arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return std::nullopt;
  const auto a = named_dims(equation.substr(0, comma), node.rank(0));
  const auto b = named_dims(equation.substr(comma + 1, arrow - comma - 1), node.rank(1));
  if (!a || !b || !is_each_once(*a) || !is_each_once(*b) || broadcasts(node, *a, *b)) return std::nullopt;
  const auto is_given = [](char dim) { return dim >= '0' && dim <= '9'; };  // by "..."
  const auto of_dots = std::max(std::ranges::count_if(*a, is_given), std::ranges::count_if(*b, is_given));
  const std::string given = equation.substr(arrow + 2);
  const size_t named = given.find("...") == std::string::npos ? given.size() : given.size() - 3;
  const auto result = named_dims(given, named + static_cast<size_t>(of_dots));
  return result && is_each_once(*result) ? std::optional(ProductTerms{*a, *b, *result}) : std::nullopt;
}

bool has(const std::string& dims, char dim) { return dims.find(dim) != std::string::npos; }

NodeInput in_order(NodeImport& node, const NodeInput& x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  std::vector<int64_t> dims;
  for (const char dim : to) dims.push_back(static_cast<int64_t>(from.find(dim)));
  return node.add("permute", {x}, {{"dims", Value(dims)}});
}

/// The weight [given..., summed...] as a matrix.
std::optional<ParameterRef> matrix_of(NodeImport& node, size_t weight, const std::string& dims,
                                      const std::string& given, const std::string& summed) {
  if (dims == given + summed && dims.size() == 2) return node.parameter(weight);
  if (dims == summed + given && dims.size() == 2) return node.transposed_parameter(weight);
  if (node.rounding(weight)) return std::nullopt;
  const Tensor& tensor = *node.constant(weight);
  const Shape strides = StridedView::of(tensor.shape()).strides;
  StridedView view;
  int64_t rows = 1;
  for (const char dim : given + summed) {
    const size_t d = dims.find(dim);
    view.shape.push_back(tensor.shape()[d]);
    view.strides.push_back(strides[d]);
    if (has(given, dim)) rows *= tensor.shape()[d];
  }
  return NodeImport::parameter(gathered(tensor, view).reshaped({rows, tensor.numel() / rows}));
}

/// A constant whose sums over dimensions of x put others in their place: a layer of the last dimension.
std::optional<NodeInput> einsum_layer(NodeImport& node, size_t weight) {
  const size_t other = 1 - weight;
  const Tensor* const matrix = node.constant(weight);
  if (matrix == nullptr || matrix->dtype() != DType::kFloat32 || matrix->numel() == 0 ||
      node.constant(other) != nullptr || node.type(other).dtype != DType::kFloat32)
    return std::nullopt;
  const auto terms = product_terms(node);
  if (!terms) return std::nullopt;
  const std::string& of_x = weight == 1 ? terms->a : terms->b;
  const std::string& of_weight = weight == 1 ? terms->b : terms->a;
  std::string kept, summed, given;
  int64_t products = 1;
  for (const char dim : of_x) {
    (has(of_weight, dim) ? summed : kept) += dim;
    if (has(of_weight, dim)) products *= matrix->dim(static_cast<int64_t>(of_weight.find(dim)));
  }
  std::vector<int64_t> sizes(kept.size(), 0);  // as they are
  for (const char dim : of_weight) {
    if (has(summed, dim)) continue;
    given += dim;
    sizes.push_back(matrix->dim(static_cast<int64_t>(of_weight.find(dim))));
  }
  if (products < 2 || given.empty() || !std::ranges::is_permutation(kept + given, terms->result))
    return std::nullopt;
  const std::optional<ParameterRef> parameter = matrix_of(node, weight, of_weight, given, summed);
  if (!parameter) return std::nullopt;
  NodeInput x = in_order(node, node.input(other), of_x, kept + summed);
  if (summed.size() > 1) x = node.add("flatten", {x}, {{"start_dim", -std::ssize(summed)}, {"end_dim", -1}});
  NodeInput y = node.add("linear", {x}, {}, {{"weight", *parameter}});
  if (given.size() > 1)
    y = node.add("dynamic_reshape", {y, NodeImport::list_of(sizes)}, {{"allow_zero", false}});
  return in_order(node, y, kept + given, terms->result);
}

/// A product of matrices, of each of which the result keeps one dimension and sums the same one over: all
/// that both operands and the result have tell the matrices apart, as do further ones that one operand alone
/// has.
std::optional<NodeInput> einsum_product(NodeImport& node) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (node.type(i).dtype != DType::kFloat32) return std::nullopt;
  }
  const auto terms = product_terms(node);
  // Dimensions that "..." stands for may be fewer on one side.
  if (!terms || has(terms->result, '0')) return std::nullopt;
  std::string summed, shared, rows, columns;
  for (const char dim : terms->a) {
    const bool in_b = has(terms->b, dim);
    const bool is_kept = has(terms->result, dim);
    if (!in_b && !is_kept) return std::nullopt;
    (!in_b ? rows : is_kept ? shared : summed) += dim;
  }
  for (const char dim : terms->b) {
    if (has(terms->a, dim)) continue;
    if (!has(terms->result, dim)) return std::nullopt;
    columns += dim;
  }
  if (summed.size() != 1 || rows.empty() || columns.empty() || std::min(rows.size(), columns.size()) > 1)
    return std::nullopt;
  const std::string of_a = rows.substr(0, rows.size() - 1);
  const std::string of_b = columns.substr(0, columns.size() - 1);
  const char row = rows.back();
  const char column = columns.back();
  const NodeInput a = in_order(node, node.input(0), terms->a, of_a + shared + row + summed);
  const NodeInput b = in_order(node, node.input(1), terms->b, of_b + shared + summed + column);
  return in_order(node, node.add("matmul", {a, b}), of_a + of_b + shared + row + column, terms->result);
}

/// All products of integers, and sums over what the result does not have.
void convert_integer_einsum(NodeImport& node) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node.input_count(); ++i) shapes.push_back(node.type(i).shape);
  const EinsumDims dims = einsum_dims(node.text("equation", ""), shapes);
  EinsumLabels labels = dims.result;
  for (const auto& [label, size] : dims.sizes)
    if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
  NodeInput products;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const EinsumLabels& own = dims.inputs[i];
    std::vector<int64_t> order, added;
    for (const int label : labels) {
      const auto found = std::ranges::find(own, label);
      if (found == own.end()) added.push_back(std::ranges::find(labels, label) - labels.begin());
      if (found != own.end()) order.push_back(found - own.begin());
    }
    if (order.size() < own.size()) node.refuse("an equation that names a dimension of integers twice");
    NodeInput x = node.add("permute", {node.input(i)}, {{"dims", Value(order)}});
    if (!added.empty()) x = node.add("unsqueeze", {x, NodeImport::list_of(added)});
    products = i == 0 ? x : node.add("mul", {products, x});
  }
  std::vector<int64_t> summed;
  for (size_t d = dims.result.size(); d < labels.size(); ++d) summed.push_back(static_cast<int64_t>(d));
  node.set_output(0, summed.empty() ? products : node.add("sum", {products, NodeImport::list_of(summed)}));
}

void convert_einsum(NodeImport& node) {
  if (!is_floating_point(node.type(0).dtype)) return convert_integer_einsum(node);
  for (const size_t weight : {size_t{1}, size_t{0}}) {
    if (node.input_count() != 2) break;
    if (const auto layer = einsum_layer(node, weight)) return node.set_output(0, *layer);
  }
  if (node.input_count() == 2) {
    if (const auto product = einsum_product(node)) return node.set_output(0, *product);
  }
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  node.set_output(0, node.add("einsum", std::move(inputs), {{"equation", node.text("equation", "")}}));
}

}  // namespace

OnnxConverterList einsum_converters() { return {{"Einsum", convert_einsum}}; }

}  // namespace detent
