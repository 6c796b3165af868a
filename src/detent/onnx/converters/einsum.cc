#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "detent/onnx/converters/converters.h"

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

/// x, W -> y, as the equation names their dimensions.
struct Terms {
  std::string x;
  std::string weight;
  std::string result;
};

std::optional<Terms> terms_of(NodeImport& node, size_t weight) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const size_t comma = equation.find(',');
  const size_t arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return std::nullopt;
  const std::string first = equation.substr(0, comma);
  const std::string second = equation.substr(comma + 1, arrow - comma - 1);
  const auto x = named_dims(weight == 1 ? first : second, node.rank(1 - weight));
  const std::string& of_weight = weight == 1 ? second : first;
  if (!x || of_weight.size() != 2 || of_weight[0] == of_weight[1]) return std::nullopt;
  const auto result = named_dims(equation.substr(arrow + 2), x->size());
  return result ? std::optional(Terms{*x, of_weight, *result}) : std::nullopt;
}

bool has(const std::string& dims, char dim) { return dims.find(dim) != std::string::npos; }

NodeInput in_order(NodeImport& node, const NodeInput& x, const std::string& from, const std::string& to) {
  if (from == to) return x;
  std::vector<int64_t> dims;
  for (const char dim : to) dims.push_back(static_cast<int64_t>(from.find(dim)));
  return node.add("permute", {x}, {{"dims", Value(dims)}});
}

/// A constant matrix that a sum over one dimension of x replaces by another one: a layer of the last
/// dimension.
std::optional<NodeInput> einsum_layer(NodeImport& node, size_t weight) {
  const size_t other = 1 - weight;
  const Tensor* const matrix = node.constant(weight);
  if (matrix == nullptr || matrix->dtype() != DType::kFloat32 || matrix->rank() != 2 ||
      node.constant(other) != nullptr || node.type(other).dtype != DType::kFloat32)
    return std::nullopt;
  const auto terms = terms_of(node, weight);
  if (!terms) return std::nullopt;
  const bool sums_rows = has(terms->x, terms->weight[0]);
  const char summed = terms->weight[sums_rows ? 0 : 1];
  const char given = terms->weight[sums_rows ? 1 : 0];
  if (!has(terms->x, summed) || has(terms->x, given) || matrix->dim(sums_rows ? 0 : 1) < 2)
    return std::nullopt;
  std::string kept = terms->x;
  std::erase(kept, summed);
  std::string sorted = kept + given;
  std::string wanted = terms->result;
  std::ranges::sort(sorted);
  std::ranges::sort(wanted);
  const bool is_each_once = std::ranges::adjacent_find(sorted) == sorted.end();
  if (sorted != wanted || !is_each_once || has(kept, summed)) return std::nullopt;
  const NodeInput x = in_order(node, node.input(other), terms->x, kept + summed);
  const ParameterRef parameter = sums_rows ? node.transposed_parameter(weight) : node.parameter(weight);
  const NodeInput y = node.add("linear", {x}, {}, {{"weight", parameter}});
  return in_order(node, y, kept + given, terms->result);
}

void convert_einsum(NodeImport& node) {
  for (const size_t weight : {size_t{1}, size_t{0}}) {
    if (node.input_count() != 2) break;
    if (const auto layer = einsum_layer(node, weight)) return node.set_output(0, *layer);
  }
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  node.set_output(0, node.add("einsum", std::move(inputs), {{"equation", node.text("equation", "")}}));
}

}  // namespace

OnnxConverterList einsum_converters() { return {{"Einsum", convert_einsum}}; }

}  // namespace detent
