#pragma once

#include <span>
#include <vector>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {

// One file a family; all_operators() lists them.
std::vector<OperatorSchema> structural_operators();
std::vector<OperatorSchema> control_flow_operators();
std::vector<OperatorSchema> linear_operators();
std::vector<OperatorSchema> convolution_operators();
std::vector<OperatorSchema> activation_operators();
std::vector<OperatorSchema> pooling_operators();
std::vector<OperatorSchema> normalization_operators();
std::vector<OperatorSchema> embedding_operators();
std::vector<OperatorSchema> arithmetic_operators();
std::vector<OperatorSchema> shape_operators();
std::vector<OperatorSchema> indexing_operators();
std::vector<OperatorSchema> function_operators();
std::vector<OperatorSchema> elementwise_operators();
std::vector<OperatorSchema> reduction_operators();
std::vector<OperatorSchema> gather_operators();
std::vector<OperatorSchema> dynamic_shape_operators();
std::vector<OperatorSchema> resize_operators();
std::vector<OperatorSchema> recurrent_operators();
std::vector<OperatorSchema> einsum_operators();
std::vector<OperatorSchema> detection_operators();
std::vector<OperatorSchema> quantized_operators();
std::vector<OperatorSchema> table_operators();
std::vector<OperatorSchema> lutnet_operators();

/// A function of each element, in double; or of the node, which gives such a function.
OperatorSchema unary(const char* name, const char* help, Unary::Function function);
OperatorSchema unary(const char* name, const char* help, std::function<Unary::Function(const Node&)> function,
                     std::vector<AttributeSchema> attributes = {});

/// A layer with the parameters `weight` and, where it has one, `bias`.
OperatorSchema weighted_sum(std::string name, std::string help, const WeightedSum& sum,
                            std::vector<AttributeSchema> attributes, ShapeInference infer);

/// The whole result, from `from` in input 0.
std::vector<StridedCopy> whole_result(const StridedView& from);

// Shape inference that several families share.

/// The operand's shape; Error when it is a number instead of a tensor.
const Shape& tensor_shape(std::span<const Operand> inputs, size_t index);
/// Error unless an input that is given is a number, or a tensor that may have one element.
void expect_one_element(std::span<const Operand> inputs, size_t index);
/// Error unless the shape has `rank` dimensions.
void expect_rank(const Shape& shape, size_t rank);
/// The result is a tensor of the first input's shape.
Operand same_shape(const Node& node, std::span<const Operand> inputs);
/// `dim` counted from the front; Error when it is out of range.
size_t dimension_index(int64_t dim, size_t rank);
/// Error naming the parameter, its shape and the one expected; absent parameters pass.
void expect_parameter_shape(const Node& node, std::string_view parameter, const Shape& expected);

/// Sizes, steps and paddings beyond it are errors, so that what is computed of them fits int64.
inline constexpr int64_t kLargestSize = int64_t{1} << 31;
/// Error unless least <= value <= kLargestSize.
void expect_size(std::string_view name, int64_t value, int64_t least);

/// Positions of a window of `kernel` (dilated) over `size` padded by `padding` on both sides, every `stride`;
/// with `ceil_mode` a last window that begins inside the padded input counts (as PyTorch defines it).
int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                     bool ceil_mode = false);

}  // namespace detent
