#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/connections.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/kernels/row_reductions.h"

namespace detent {

using NamedTensors = std::vector<std::pair<std::string_view, Tensor>>;

/// Operand or result of a node that computes in float: a tensor of any element type, a number, or nothing.
struct FloatFlow {
  Tensor tensor;
  Value number = {};  // NA of a tensor
  bool is_absent = false;
};

/// Tensors and connections that a node's constants alone decide.
struct DerivedConstants {
  std::vector<std::optional<Tensor>> lists;  // by input: the tensor of a constant operand that is a list
  std::optional<Connections> connections;    // of a layer with ordered sums
};

DerivedConstants derived_constants(const Node& node, const NamedTensors& parameters);

/// A node to compute in float32: its operands are rounded by its quantizers.
struct FloatNode {
  const Node& node;
  std::span<const FloatFlow> inputs;
  const NamedTensors& parameters;
  const DerivedConstants* derived = nullptr;  // where they are known already

  bool is_absent(size_t index) const;
  /// The input. Throws Error naming the node unless it is a float32 tensor.
  const Tensor& tensor(size_t index) const;
  /// The input, of whatever element type. A list becomes a tensor of one dimension, int64 or float32; a
  /// number one of rank 0, of the type of the first tensor of numbers among the inputs, so that it broadcasts
  /// without changing that. Throws Error naming the node where that type does not hold it.
  Tensor operand(size_t index) const;
  /// An input of sizes or dimensions, or a single one.
  std::vector<int64_t> integers(size_t index) const;
  /// An input that is one integer.
  int64_t integer(size_t index) const;
  /// An input that lists numbers, as float32 holds them.
  std::vector<double> numbers(size_t index) const;

  /// A dimension of a tensor of that rank; a negative one counts from the end. Throws Error naming the node.
  size_t dimension(int64_t given, size_t rank) const;
  /// Inferred types of the results. Throws Error where they do not fit.
  std::vector<Operand> inferred() const;

  std::optional<Tensor> parameter(std::string_view name) const;
  /// Empty if there is none.
  std::span<const float> values_of(std::string_view name) const;
};

/// Function of rows of `row` adjacent elements, each row by itself; of functions of one element 1. `results`
/// may be `values`. Spans of parameters stay those of the node it was made of.
struct RowFunction {
  int64_t row;
  std::function<void(std::span<const float> values, std::span<float> results)> apply;
};

/// results[i] = f(a[i * a_step], b[i * b_step])
using PairFunction = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count,
                              float* results);

struct ResampledAxis;  // resize_weights.h
enum class RecurrentKind;

/// Operators that give or take integers which stand for floats, for which the engine has kernels.
enum class CodeOperator {
  kProduct,       // int32 sums of integers less their zero points, inputs 2 and 3
  kConvolution,   // likewise
  kRange,         // bytes, scale and zero point of floats (linear_codes.h)
  kConversion,    // to another element type
  kQuantization,  // codes of floats, of scale and zero point, inputs 1 and 2
  kValues,        // back to floats
};

/// Computation of an operator without libtorch, bit-identical on every processor: in float32, or on tensors
/// of other element types if it takes them.
struct FloatOperator {
  std::string_view op;
  Tensor (*compute)(const FloatNode&);  // nullptr where it has other than one result
  /// Whether every program computes the same bits, for want of anything that is rounded twice or added up.
  bool is_exact = false;
  /// Where results have the shape of the only input; nullopt where the elements of rows are not adjacent.
  std::optional<RowFunction> (*rows)(const FloatNode&, const Shape& input) = nullptr;
  /// Where each result is one of an element of each of two inputs that broadcast.
  PairFunction pairs = nullptr;
  /// Alternative to `compute`.
  std::vector<Tensor> (*compute_all)(const FloatNode&) = nullptr;
  /// Where elements are those of the first input, weighted along some dimensions, one dimension after the
  /// other in ascending order; nullopt where others are among them. Input 0 is not read.
  std::optional<std::vector<ResampledAxis>> (*resampled)(const FloatNode&, const Shape& input) = nullptr;
  /// Where elements along the dimensions of reduced_dims() become one.
  const RowReduction* reduction = nullptr;
  /// Where it is a layer whose weights can be packed before it runs (recurrent_layer.h).
  std::optional<RecurrentKind> recurrent = {};
  std::optional<CodeOperator> codes = {};

  std::vector<Tensor> results(const FloatNode& node) const {
    return compute_all != nullptr ? compute_all(node) : std::vector{compute(node)};
  }
};

/// Whether each dimension of the first input, of that rank, is reduced: those that input 1 lists, or all.
std::vector<bool> reduced_dims(const FloatNode& node, size_t rank);

/// The result of an operator with `rows`.
Tensor computed_by_rows(const FloatNode& node);

/// nullptr if there is none.
const FloatOperator* find_float_operator(std::string_view op);

// One list per file operators/<family>/float32*.cc; find_float_operator() joins them.
using FloatOperators = std::vector<FloatOperator>;
FloatOperators box_operators();
FloatOperators region_operators();
FloatOperators comparison_operators();
FloatOperators cumulative_operators();
FloatOperators dimension_operators();
FloatOperators float_einsum_operators();
FloatOperators float_element_operators();
FloatOperators float_pair_operators();
FloatOperators float_layer_operators();
FloatOperators float_normalization_operators();
FloatOperators float_pooling_operators();
FloatOperators float_recurrent_operators();
FloatOperators float_reduction_operators();
FloatOperators float_resize_operators();
FloatOperators gathering_operators();
FloatOperators grid_operators();
FloatOperators movement_operators();
FloatOperators quantization_operators();
FloatOperators trained_table_operators();

}  // namespace detent
