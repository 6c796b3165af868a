#include "detent/float32/float_node.h"

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/float32/result_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// What a constant operand or a tensor of integers lists.
std::vector<int64_t> listed(const Node& node, const FloatFlow& flow, size_t index) {
  if (const auto* integer = flow.number.get_if<int64_t>()) return {*integer};
  if (node.inputs[index].is_constant()) {
    const Operand list = constant_operand(node.inputs[index].constant);
    if (list.elements) return {list.elements->begin(), list.elements->end()};
  } else if (flow.number.is_na() && flow.tensor.dtype() == DType::kInt64) {
    const auto values = flow.tensor.values<int64_t>();
    return {values.begin(), values.end()};
  }
  fail("node \"{}\" ({}): input {} is no list of integers", node.name, node.op, index);
}

}  // namespace

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

Tensor FloatNode::as_tensor(size_t index) const {
  if (index >= inputs.size() || inputs[index].number.is_na()) return tensor(index);
  const Value& number = inputs[index].number;
  const auto* integer = number.get_if<int64_t>();
  const auto* real = number.get_if<double>();
  if (integer == nullptr && real == nullptr)
    fail("node \"{}\" ({}): input {} is no number", node.name, node.op, index);
  const float value = integer != nullptr ? static_cast<float>(*integer) : static_cast<float>(*real);
  return Tensor::from<float>({}, std::vector{value});
}

std::vector<int64_t> FloatNode::integers(size_t index) const { return listed(node, inputs[index], index); }

std::vector<double> FloatNode::numbers(size_t index) const {
  if (node.inputs[index].is_constant()) {
    const Operand list = constant_operand(node.inputs[index].constant);
    if (list.elements) {
      std::vector<double> numbers = *list.elements;
      for (double& number : numbers) number = static_cast<double>(static_cast<float>(number));
      return numbers;
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
  static const std::map<std::string_view, FloatOperator> operators = [] {
    std::map<std::string_view, FloatOperator> map;
    for (const FloatOperators& list :
         {float_element_operators(), float_pair_operators(), float_layer_operators(),
          float_normalization_operators(), float_reduction_operators(), float_resize_operators()}) {
      for (const FloatOperator& entry : list)
        DETENT_CHECK(map.emplace(entry.op, entry).second, "two entries for {}", entry.op);
    }
    return map;
  }();
  const auto found = operators.find(op);
  return found == operators.end() ? nullptr : &found->second;
}

}  // namespace detent
