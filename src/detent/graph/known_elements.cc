#include "detent/graph/known_elements.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/graph/pair_operation.h"
#include "detent/graph/strided_view.h"

namespace detent {
namespace {

/// Shapes and lists of axes are short; tensors of data are not worth it.
constexpr int64_t kMostElements = 1024;

using Elements = std::optional<std::vector<double>>;

/// A number is a tensor of one element to an element-wise operator.
Elements elements_of(const Operand& operand) {
  double scratch = 0;
  if (const double* number = operand.value.number(scratch)) return std::vector{*number};
  return operand.elements;
}

Elements moved(const Movement& movement, const Node& node, std::span<const Operand> inputs,
               const Operand& result) {
  if (!movement.copies) return inputs[0].elements;
  std::vector<Shape> shapes;
  for (const Operand& input : inputs) {
    if (!input.is_tensor()) break;
    if (!input.elements) return std::nullopt;
    shapes.push_back(input.shape);
  }
  std::vector<double> elements(static_cast<size_t>(element_count(result.shape)));
  for (const StridedCopy& copy : movement.copies(node, shapes, result.shape)) {
    std::vector<int64_t> index(copy.from.shape.size());
    for (int64_t left = element_count(copy.from.shape); left > 0; --left) {
      int64_t from = copy.from.offset;
      int64_t to = copy.to.offset;
      for (size_t d = 0; d < index.size(); ++d) {
        from += index[d] * copy.from.strides[d];
        to += index[d] * copy.to.strides[d];
      }
      elements[static_cast<size_t>(to)] = (*inputs[copy.input].elements)[static_cast<size_t>(from)];
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < copy.from.shape[d]) break;
        index[d] = 0;
      }
    }
  }
  return elements;
}

}  // namespace

Elements broadcast_elements(const Operand& a, const Operand& b, const Operand& result,
                            const std::function<double(double, double)>& function) {
  const Elements from_a = elements_of(a);
  const Elements from_b = elements_of(b);
  if (!from_a || !from_b || result.is_open()) return std::nullopt;
  const int64_t count = element_count(result.shape);
  const auto fits = [&](const Elements& e) { return e->size() == 1 || std::ssize(*e) == count; };
  if (!fits(from_a) || !fits(from_b)) return std::nullopt;
  std::vector<double> elements;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    elements.push_back(
        function((*from_a)[from_a->size() == 1 ? 0 : i], (*from_b)[from_b->size() == 1 ? 0 : i]));
  }
  return elements;
}

namespace {

Elements computed_elements(const OperatorSchema& schema, const Node& node, std::span<const Operand> inputs,
                           const Operand& result) {
  if (schema.elements) return schema.elements(node, inputs, result);
  if (inputs.empty()) return std::nullopt;
  if (const auto* movement = std::get_if<Movement>(&schema.trait))
    return inputs[0].elements && !movement->parts ? moved(*movement, node, inputs, result) : std::nullopt;
  if (const auto* operation = std::get_if<PairOperation>(&schema.trait)) {
    return broadcast_elements(inputs[0], inputs[1], result,
                              [&](double a, double b) { return combined(*operation, a, b); });
  }
  if (const auto* unary = std::get_if<Unary>(&schema.trait); unary != nullptr && inputs[0].elements) {
    std::vector<double> elements = *inputs[0].elements;
    std::ranges::transform(elements, elements.begin(), unary->function(node));
    return elements;
  }
  return std::nullopt;
}

}  // namespace

Elements known_elements(const OperatorSchema& schema, const Node& node, std::span<const Operand> inputs,
                        const Operand& result) {
  if (!result.is_tensor() || result.is_open() || element_count(result.shape) > kMostElements)
    return std::nullopt;
  Elements elements = computed_elements(schema, node, inputs, result);
  if (elements && result.dtype == DType::kFloat32) {
    for (double& element : *elements) element = static_cast<double>(static_cast<float>(element));
  }
  return elements;
}

bool is_given(std::span<const Operand> inputs, size_t index) {
  return index < inputs.size() && !inputs[index].is_absent;
}

std::optional<std::vector<double>> known_numbers(std::span<const Operand> inputs, size_t index) {
  return elements_of(inputs[index]);
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
  const Elements elements = elements_of(input);
  if (!elements) return std::nullopt;
  constexpr double kMost = 9007199254740992;  // 2^53
  std::vector<int64_t> result;
  for (const double element : *elements)
    result.push_back(static_cast<int64_t>(std::clamp(element, -kMost, kMost)));
  return result;
}

}  // namespace detent
