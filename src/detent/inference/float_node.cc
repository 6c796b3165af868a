#include "detent/inference/float_node.h"

#include <algorithm>
#include <unordered_map>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/known_elements.h"
#include "detent/graph/operators.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

bool is_integer(DType dtype) { return dtype != DType::kBool && !is_floating_point(dtype); }

/// Integers of a constant operand or a tensor.
std::vector<int64_t> listed(const Node& node, const FloatFlow& flow, size_t index) {
  if (const auto* integer = flow.number.get_if<int64_t>()) return {*integer};
  if (node.inputs[index].is_constant()) {
    const Value& constant = node.inputs[index].constant;
    if (const auto* integer = constant.get_if<int64_t>()) return {*integer};
    if (const auto list = listed_integers(constant)) return *list;
  } else if (flow.number.is_na() && is_integer(flow.tensor.dtype())) {
    const Tensor integers = to_dtype(flow.tensor, DType::kInt64);
    const auto values = integers.values<int64_t>();
    return {values.begin(), values.end()};
  }
  fail("node \"{}\" ({}): input {} is no list of integers", node.name, node.op, index);
}

/// The tensor of a constant list; nullopt of other operands.
std::optional<Tensor> constant_list(const FloatNode& n, size_t index) {
  if (n.derived != nullptr) return n.derived->lists[index];
  return constant_operand(n.node.inputs[index].constant).elements;
}

/// As shape inference sees it; it asks for the elements of short lists of integers.
Operand operand_of(const FloatNode& n, size_t index) {
  constexpr int64_t kMostElements = 4096;
  const FloatFlow& flow = n.inputs[index];
  if (const NodeInput& input = n.node.inputs[index]; input.is_constant()) {
    const std::optional<Tensor> list = constant_list(n, index);
    return list ? Operand{list->shape(), Value(), list->dtype(), false, list}
                : constant_operand(input.constant);
  }
  if (flow.is_absent || !flow.number.is_na()) return constant_operand(flow.number);
  Operand operand{flow.tensor.shape(), Value(), flow.tensor.dtype()};
  if (is_integer(operand.dtype) && flow.tensor.numel() <= kMostElements) operand.elements = flow.tensor;
  return operand;
}

}  // namespace

DerivedConstants derived_constants(const Node& node, const NamedTensors& parameters) {
  DerivedConstants derived;
  for (const NodeInput& input : node.inputs) {
    derived.lists.push_back(input.is_constant() ? constant_operand(input.constant).elements : std::nullopt);
  }
  const auto weight = std::ranges::find(parameters, "weight", &NamedTensors::value_type::first);
  if (weight != parameters.end()) derived.connections = ordered_connections(node, weight->second);
  return derived;
}

bool FloatNode::is_absent(size_t index) const {
  return index >= inputs.size() || inputs[index].is_absent ||
         (index < node.inputs.size() && node.inputs[index].is_absent());
}

const Tensor& FloatNode::tensor(size_t index) const {
  if (is_absent(index) || !inputs[index].number.is_na() || inputs[index].tensor.dtype() != DType::kFloat32) {
    fail("node \"{}\" ({}): input {} is no tensor of float32", node.name, node.op, index);
  }
  return inputs[index].tensor;
}

Tensor FloatNode::operand(size_t index) const {
  const bool is_constant = index < node.inputs.size() && node.inputs[index].is_constant();
  if (is_absent(index)) fail("node \"{}\" ({}): input {} is absent", node.name, node.op, index);
  if (!is_constant && inputs[index].number.is_na()) return inputs[index].tensor;
  const Value& constant = is_constant ? node.inputs[index].constant : inputs[index].number;
  if (auto list = is_constant ? constant_list(*this, index) : constant_operand(constant).elements)
    return *list;
  if (!constant.is<int64_t>() && !constant.is<double>())
    fail("node \"{}\" ({}): input {} is no number", node.name, node.op, index);
  DType dtype = constant.is<int64_t>() ? DType::kInt64 : DType::kFloat32;
  for (size_t i = inputs.size(); i-- > 0;) {
    const bool is_tensor = !is_absent(i) && !node.inputs[i].is_constant() && inputs[i].number.is_na();
    if (is_tensor && inputs[i].tensor.dtype() != DType::kBool) dtype = inputs[i].tensor.dtype();
  }
  const std::optional<Tensor> result = tensor_of_number(constant, dtype);
  if (!result) {
    fail("node \"{}\": input {} is {}, which a tensor of {} does not hold", node.name, index,
         value_text(constant), dtype_name(dtype));
  }
  return *result;
}

size_t FloatNode::dimension(int64_t given, size_t rank) const {
  const int64_t from_front = given < 0 ? given + static_cast<int64_t>(rank) : given;
  if (from_front < 0 || from_front >= static_cast<int64_t>(rank))
    fail("node \"{}\" ({}): dimension {} of {}", node.name, node.op, given, rank);
  return static_cast<size_t>(from_front);
}

std::vector<Operand> FloatNode::inferred() const {
  std::vector<Operand> operands;
  operands.reserve(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(operand_of(*this, i));
  return infer_types(node, operands);
}

std::vector<int64_t> FloatNode::integers(size_t index) const { return listed(node, inputs[index], index); }

int64_t FloatNode::integer(size_t index) const {
  const std::vector<int64_t> list = integers(index);
  if (list.size() != 1)
    fail("node \"{}\" ({}): input {} lists {} integers, expected one", node.name, node.op, index,
         list.size());
  return list[0];
}

std::vector<double> FloatNode::numbers(size_t index) const {
  if (node.inputs[index].is_constant()) {
    if (const auto list = constant_list(*this, index)) {
      const Tensor numbers = to_float32(*list);
      return {numbers.values<float>().begin(), numbers.values<float>().end()};
    }
  } else if (inputs[index].number.is_na() && inputs[index].tensor.dtype() == DType::kFloat32) {
    const auto values = inputs[index].tensor.values<float>();
    return {values.begin(), values.end()};
  }
  fail("node \"{}\" ({}): input {} is no list of numbers", node.name, node.op, index);
}

std::optional<Tensor> FloatNode::parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &NamedTensors::value_type::first);
  return found == parameters.end() ? std::nullopt : std::optional(found->second);
}

std::span<const float> FloatNode::values_of(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &NamedTensors::value_type::first);
  return found == parameters.end() ? std::span<const float>() : found->second.values<float>();
}

Tensor computed_by_rows(const FloatNode& node) {
  const Tensor& x = node.tensor(0);
  const std::optional<RowFunction> function = find_float_operator(node.node.op)->rows(node, x.shape());
  DETENT_CHECK(function.has_value(), "{}: no rows", node.node.op);
  Tensor result = result_tensor(x.shape());
  function->apply(x.values<float>(), result.values<float>());
  return result;
}

const FloatOperator* find_float_operator(std::string_view op) {
  static const std::unordered_map<std::string_view, FloatOperator> operators = [] {
    std::unordered_map<std::string_view, FloatOperator> map;
    for (const FloatOperators& list :
         {box_operators(), region_operators(), grid_operators(), comparison_operators(),
          cumulative_operators(), dimension_operators(), float_einsum_operators(), float_element_operators(),
          float_pair_operators(), float_layer_operators(), float_normalization_operators(),
          float_pooling_operators(), float_recurrent_operators(), float_reduction_operators(),
          float_resize_operators(), gathering_operators(), movement_operators(), quantization_operators(),
          trained_table_operators()}) {
      for (const FloatOperator& entry : list)
        DETENT_CHECK(map.emplace(entry.op, entry).second, "two entries for {}", entry.op);
    }
    return map;
  }();
  const auto found = operators.find(op);
  return found == operators.end() ? nullptr : &found->second;
}

}  // namespace detent
