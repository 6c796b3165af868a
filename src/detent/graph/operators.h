#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "detent/core/strided_view.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/graph/traits.h"

namespace detent {

enum class AttributeKind { kInteger, kNumber, kBoolean, kIntegers, kChoice, kText };

/// An attribute with its default; NA: required, unless it is optional.
struct AttributeSchema {
  std::string name;
  AttributeKind kind = AttributeKind::kInteger;
  Value default_value;
  std::string help = {};
  bool optional = false;
  std::vector<std::string> choices = {};  // of kChoice
};

/// How a parameter begins: every element at `value`, ...
struct ConstantInitial {
  float value = 0;
};
/// ... uniform in +-1 / sqrt(fan_in), the number of elements of `weight` that a sum has, ...
struct FanInInitial {};
/// ... or normal with mean 0; the row that the attribute `zero_row` gives, if any, is zero.
struct NormalInitial {
  double deviation = 1;
  std::string zero_row = {};
};
using Initial = std::variant<FanInInitial, ConstantInitial, NormalInitial>;

/// A parameter a node of this operator owns, e.g. weight [out, in].
struct ParameterSchema {
  std::string name;
  bool required = true;
  bool trainable = true;
  Initial initial = {};
  bool any_dtype = false;  // or float32 only
};

/// Maximum rank.
inline constexpr size_t kMostDims = 64;

/// An operand or result of a node while shapes are inferred: a tensor of some shape, a number (the result of
/// `size`, a constant), or nothing.
struct Operand {
  Shape shape;  // some sizes may be kOpenSize
  Value value;  // NA for a tensor
  DType dtype = DType::kFloat32;
  bool is_absent = false;
  /// The elements of a small tensor that follow from shapes and constants, since networks compute with
  /// shapes.
  std::optional<Tensor> elements = {};

  bool is_tensor() const { return value.is_na() && !is_absent; }
  bool is_open() const { return std::ranges::find(shape, kOpenSize) != shape.end(); }
};

/// Element types of an operator's operands and result.
enum class DTypeRule {
  kFloat,  // float32, but for operands that hold indices; the result too
  kKept,   // any, all the same; the result too
  kOwn,    // any; shape inference gives the result's
};

struct OperatorSchema;

/// Result of a node from its inputs (constants included, in order). Throws Error when they do not fit; the
/// caller adds the node's name.
using ShapeInference = std::function<Operand(const Node& node, std::span<const Operand> inputs)>;

/// Elements of a result with known inputs (graph/known_elements.h).
using ElementsInference = std::function<std::optional<Tensor>(
    const Node& node, std::span<const Operand> inputs, const Operand& result)>;

using ResultsInference =
    std::function<std::vector<Operand>(const Node& node, std::span<const Operand> inputs)>;

/// Check by `verify` of a node whose results agree with shape inference: what the elements of its constants
/// have to be. Throws Error; the caller adds the node's name.
using ContentCheck = std::function<void(const Node& node, std::span<const Operand> inputs)>;

/// One operator, declared once: everything that does not depend on the executor.
struct OperatorSchema {
  std::string name;
  std::string help = {};
  /// Type of a node made of a module ("module_related_func" for nn.ReLU) or of a plain function.
  MaseType mase_type = MaseType::kBuiltinFunc;
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  std::vector<ParameterSchema> parameters = {};
  std::vector<AttributeSchema> attributes = {};
  ShapeInference infer = {};
  /// Instead of `infer`, for an operator with other than one result, whose number follows from the
  /// attributes.
  ResultsInference infer_results = {};
  std::function<size_t(const Node& node)> result_count = {};
  ContentCheck check_content = {};
  DTypeRule dtypes = DTypeRule::kFloat;
  /// Computes known elements, unless its trait does.
  ElementsInference elements = {};
  /// Whether each element of the result follows from those at its place, where the trait does not say so.
  bool elementwise = false;
  /// Whether shape inference takes inputs with open sizes. Of the others, the sizes that do not depend on an
  /// open one are found by trial.
  bool takes_open_sizes = false;
  /// Optional inputs.
  std::vector<std::string> optional_operands = {};
  /// Dimension of each operand that the operator sums over (blocks run along it), by operand name; operands
  /// that are not listed have none and blocks run along the last dimension.
  std::vector<std::pair<std::string, int64_t>> reduction_dims = {};
  /// Dimension of output channels of `weight`, where there is one.
  std::optional<int64_t> weight_channel_dim = {};
  OperatorRole role = OperatorRole::kComputes;
  Trait trait = {};
  /// Whether its nodes have a body (graph/loop.h).
  bool has_body = false;
  /// Whether it is random in training.
  bool random = false;
  /// Whether the quantize pass may attach formats to its operands.
  bool quantizable = false;
  /// Inputs that hold indices: they are never quantized.
  std::vector<std::string> index_operands = {};

  /// nullptr when absent.
  const ParameterSchema* find_parameter(std::string_view parameter) const;
  const AttributeSchema* find_attribute(std::string_view attribute) const;
  /// nullopt if the operator does not reduce the operand.
  std::optional<int64_t> reduction_dim(std::string_view operand) const;
};

/// All operators, sorted by name.
std::span<const OperatorSchema> all_operators();
/// nullptr when there is no operator of that name.
const OperatorSchema* known_operator(std::string_view name);
/// Throws Error with the nearest known name.
const OperatorSchema& find_operator(std::string_view name);
std::vector<std::string> operator_names();

/// An attribute declared by the operator.
int64_t integer_attribute(const Node& node, std::string_view name);
double number_attribute(const Node& node, std::string_view name);
bool boolean_attribute(const Node& node, std::string_view name);
/// One of the attribute's choices.
const std::string& choice_attribute(const Node& node, std::string_view name);
/// Its place among them.
size_t choice_index(const Node& node, std::string_view name);
const std::string& text_attribute(const Node& node, std::string_view name);
/// A list, or one integer repeated `count` times when count > 0.
std::vector<int64_t> integers_attribute(const Node& node, std::string_view name, size_t count = 0);

/// The `stride` of a pooling node, or its `kernel_size` where that is NA.
std::vector<int64_t> pool_stride(const Node& node, size_t dims);
/// Range of one dimension that a slicing node takes: start, start + step, ... below end; both in [0, size].
struct SliceRange {
  size_t dim;
  int64_t start;
  int64_t end;
  int64_t step;
};
/// Ranges that a `slice` node takes of a tensor of `shape`, with Python's rules for negative and too large
/// positions.
std::vector<SliceRange> slice_ranges(const Node& node, const Shape& shape);
/// The positions start, start + step, ... before end of a dimension, as in Python: negative ones count from
/// its end, those beyond it are cut; a step may be negative.
struct PositionRange {
  int64_t start;
  int64_t end;
  int64_t step;
};
/// Number of positions in a dimension of `size`. Throws Error on a step of 0.
int64_t slice_count(const PositionRange& range, int64_t size);
int64_t first_position(const PositionRange& range, int64_t size);
/// start, start + step, ... before the limit: tensors of one number each and of one dtype, in which integers
/// do not overflow. Throws Error on a step of 0, and where there are more than kLargestSize.
int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& step);
Tensor range_elements(const Tensor& start, const Tensor& limit, const Tensor& step);
/// Fill value of a `full` node, a tensor of rank 0. Throws Error where the type does not hold it.
Tensor full_value(const Node& node);

/// Types of values by value_name.
using ValueTypes = std::map<std::string, Operand, std::less<>>;

/// Type of a constant input: a number, nothing, or of a list of numbers a tensor of one dimension, int64
/// where all of them are integers, else float32.
Operand constant_operand(const Value& constant);

/// Number of results of a node.
size_t result_count(const Node& node);
/// The results of one node. Throws Error naming it when the inputs, constants included, do not fit.
std::vector<Operand> infer_results(const Node& node, std::span<const Operand> inputs);
/// The same without known elements.
std::vector<Operand> infer_types(const Node& node, std::span<const Operand> inputs);
/// The results of every node for these named sizes; others take their usual ones (Dimension). Throws Error
/// naming the node that does not fit.
ValueTypes infer_shapes(const Graph& graph, const NamedSizes& sizes);
/// The same for a batch of `batch` samples.
ValueTypes infer_shapes(const Graph& graph, int64_t batch = 1);
/// Adds the results of nodes in execution order to the values that they read.
void infer_more_shapes(std::span<const Node> nodes, ValueTypes& values);

/// Type of an operand of the node ("data_in_0", "weight", "data_out_0"); `values` are infer_shapes of its
/// graph.
Operand operand_type(const Node& node, std::string_view operand, const ValueTypes& values);

/// Operand names of a node that hold tensors which a format may round: data_in_<i> but indices, its
/// parameters, its results.
std::vector<std::string> quantizable_operands(const Node& node);

}  // namespace detent
