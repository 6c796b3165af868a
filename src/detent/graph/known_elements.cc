#include "detent/graph/known_elements.h"

#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/pair_functions.h"
#include "detent/graph/element_movement.h"

namespace detent {
namespace {

/// Shapes and lists of axes are short; tensors of data are not worth it.
constexpr int64_t kMostElements = 1024;

using Elements = std::optional<Tensor>;

Elements moved(const Movement& movement, const Node& node, std::span<const Operand> inputs,
               const Operand& result) {
  std::vector<Tensor> tensors;
  for (const Operand& input : inputs) {
    if (!input.is_tensor() || (movement.is_view() && !tensors.empty())) break;
    if (!input.elements) return std::nullopt;
    tensors.push_back(*input.elements);
  }
  if (tensors.empty()) return std::nullopt;
  return moved_elements(node, tensors, result.shape, 0);
}

Elements combined_elements(PairOperation operation, std::span<const Operand> inputs, const Operand& result) {
  switch (operation) {
    case PairOperation::kAdd:
      return arithmetic_elements<Sum>(inputs, result);
    case PairOperation::kSub:
      return arithmetic_elements<Difference>(inputs, result);
    case PairOperation::kMul:
      return arithmetic_elements<Product>(inputs, result);
    case PairOperation::kPrelu:
      return arithmetic_elements<Sloped>(inputs, result);
    case PairOperation::kDiv:
      break;  // the operator says where it is defined
  }
  return std::nullopt;
}

Elements computed_elements(const OperatorSchema& schema, const Node& node, std::span<const Operand> inputs,
                           const Operand& result) {
  if (schema.elements) return schema.elements(node, inputs, result);
  if (inputs.empty()) return std::nullopt;
  if (const auto* movement = std::get_if<Movement>(&schema.trait))
    return movement->parts ? std::nullopt : moved(*movement, node, inputs, result);
  if (const auto* operation = std::get_if<PairOperation>(&schema.trait))
    return combined_elements(*operation, inputs, result);
  if (std::holds_alternative<Unary>(schema.trait) && inputs[0].elements)
    return unary_elements(node, *inputs[0].elements);
  return std::nullopt;
}

}  // namespace

Elements known_elements(const OperatorSchema& schema, const Node& node, std::span<const Operand> inputs,
                        const Operand& result) {
  if (!result.is_tensor() || result.is_open() || element_count(result.shape) > kMostElements)
    return std::nullopt;
  const auto is_float = [](const Operand& operand) {
    return operand.is_tensor() && is_floating_point(operand.dtype);
  };
  const bool is_of_floats = is_float(result) || std::ranges::any_of(inputs, is_float);
  if (is_of_floats && !node.quantization.empty()) return std::nullopt;  // what quantizers make of them
  Elements elements = computed_elements(schema, node, inputs, result);
  DETENT_CHECK(!elements || (elements->dtype() == result.dtype && elements->shape() == result.shape),
               "node {} ({}): elements of {} {}, expected {} {}", node.name, node.op,
               dtype_name(elements->dtype()), shape_text(elements->shape()), dtype_name(result.dtype),
               shape_text(result.shape));
  return elements;
}

Elements unary_elements(const Node& node, const Tensor& from) {
  const auto* unary = trait<Unary>(node);
  if (unary == nullptr || from.dtype() != DType::kFloat32) return std::nullopt;
  const Unary::Function function = unary->function(node);
  Tensor elements(DType::kFloat32, from.shape());
  std::ranges::transform(from.values<float>(), elements.values<float>().begin(),
                         [&](float x) { return static_cast<float>(function(static_cast<double>(x))); });
  return elements;
}

bool have_same_elements(const Operand& a, const Operand& b) {
  return a.elements && b.elements && a.elements->equals(*b.elements);
}

std::optional<BroadcastPair> known_pair(std::span<const Operand> inputs, const Operand& result) {
  const auto tensor = std::ranges::find_if(inputs, &Operand::is_tensor);
  if (tensor == inputs.end() || !is_number_type(tensor->dtype)) return std::nullopt;
  const Elements a = known_tensor(inputs, 0, tensor->dtype);
  const Elements b = known_tensor(inputs, 1, tensor->dtype);
  if (!a || !b || a->dtype() != b->dtype()) return std::nullopt;
  BroadcastPair pair(*a, *b);
  if (pair.shape != result.shape) return std::nullopt;
  return pair;
}

bool is_given(std::span<const Operand> inputs, size_t index) {
  return index < inputs.size() && !inputs[index].is_absent;
}

Elements known_tensor(std::span<const Operand> inputs, size_t index, DType dtype) {
  const Operand& input = inputs[index];
  return input.is_tensor() ? input.elements : tensor_of_number(input.value, dtype);
}

std::optional<std::vector<double>> known_numbers(std::span<const Operand> inputs, size_t index) {
  const Elements elements = known_tensor(inputs, index, DType::kFloat64);
  if (!elements) return std::nullopt;
  const Tensor numbers = to_dtype(*elements, DType::kFloat64);
  return std::vector<double>(numbers.values<double>().begin(), numbers.values<double>().end());
}

std::optional<std::vector<int64_t>> known_integers(std::span<const Operand> inputs, size_t index) {
  const Operand& input = inputs[index];
  const bool integers = input.is_tensor() ? input.dtype == DType::kInt64 || input.dtype == DType::kInt32
                                          : input.value.is<int64_t>();
  if (!integers || (input.is_tensor() && input.shape.size() > 1)) {
    fail("input {} is {}, expected a list of integers", index,
         input.is_tensor() ? fmt::format("{} of shape {}", dtype_name(input.dtype), shape_text(input.shape))
                           : value_text(input.value));
  }
  const Elements elements = known_tensor(inputs, index, DType::kInt64);
  if (!elements) return std::nullopt;
  const Tensor list = to_dtype(*elements, DType::kInt64);
  return std::vector<int64_t>(list.values<int64_t>().begin(), list.values<int64_t>().end());
}

std::optional<std::vector<int64_t>> listed_integers(const Value& constant) {
  const List* const list = constant.get_if<List>();
  if (list == nullptr) return std::nullopt;
  std::vector<int64_t> integers;
  for (const Value& value : *list) {
    const auto* const integer = value.get_if<int64_t>();
    if (integer == nullptr) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

}  // namespace detent
