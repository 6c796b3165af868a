#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/onnx/tensor_data.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace detent {

// Rounding of constants whose elements are moved. Each element keeps its scale and zero point, so where these
// lie in the result says whether there is one for the tensor, one a channel, or one a group.

/// For each element of a tensor of this shape the place of its scale among those that the spec gives: int32.
Tensor scale_places(const QuantSpec& spec, const Shape& shape);

/// The spec for a tensor whose elements have the scales at `places`, an int32 tensor of its shape. Groups may
/// be of `group_size` elements. Nothing where no spec says so.
std::optional<QuantSpec> rounding_at_places(const QuantSpec& spec, const Tensor& places,
                                            std::optional<int64_t> group_size);

/// The specs as one with the scales of all, in order; nothing where they differ in more than scales and zero
/// points.
std::optional<QuantSpec> joined_rounding(std::span<const QuantSpec> specs);

/// How many scales the spec gives; 0 where they follow from the data.
size_t scale_count(const QuantSpec& spec);

/// The spec for the same elements in another shape.
std::optional<QuantSpec> reshaped_rounding(const QuantSpec& spec, const Shape& from, const Shape& to);

class OnnxImporter;
struct ImportedValue;

/// One node of an ONNX model on its way into a graph: what a converter (converters/converters.h) sees and
/// writes. Inputs and outputs are counted as ONNX does; absent optional ones count.
class NodeImport {
 public:
  NodeImport(OnnxImporter& importer, const onnx::NodeProto& proto, int64_t opset)
      : importer_(importer), proto_(proto), opset_(opset) {}

  const std::string& op() const;
  /// Version of the operator set of the node's domain.
  int64_t opset() const { return opset_; }

  size_t input_count() const;
  bool has_input(size_t index) const;
  /// An input as an operand; a constant becomes a node of the graph.
  NodeInput input(size_t index);
  /// An input that lists sizes, axes or positions: a constant list where its elements are known.
  NodeInput list(size_t index);
  /// An input whose value is known now: an initializer, or computed from such. nullptr for others.
  const Tensor* constant(size_t index) const;
  /// Its only element as a number; nothing where it is not known.
  std::optional<double> number(size_t index) const;
  /// The same as an integer, cut towards zero; nothing where no int64 holds it.
  std::optional<int64_t> integer(size_t index) const;
  /// Its only element as a constant operand, a number of its own kind, where it is known; else the input.
  NodeInput number_or_input(size_t index);
  /// Elements of a list of integers that are known, whatever the sizes of open dimensions.
  std::optional<std::vector<int64_t>> integers(size_t index) const;
  /// Type of an input for one choice of the sizes of open dimensions.
  const Operand& type(size_t index) const;
  /// The element type that the model has: of floats, all of which are float32 in the graph, one of several.
  DType float_type(size_t index) const;
  void set_float_type(size_t output, DType dtype);
  /// The element type that the model has where another one holds its values; else nullptr.
  const NarrowType* narrow_type(size_t index) const;
  void set_narrow_type(size_t output, const NarrowType* type);
  /// Integers of a wider type as the narrow one wraps them.
  NodeInput wrapped(NodeInput x, const NarrowType& type);
  size_t rank(size_t index) const { return type(index).shape.size(); }
  /// Whether the input begins with a batch of open size where the model has one of 1.
  bool has_freed_batch(size_t index) const;
  /// Whether the input's first dimension is the open one of a batch.
  bool begins_with_batch(size_t index) const;
  /// The size of one dimension; nothing where it is open.
  std::optional<int64_t> size(size_t index, int64_t dim) const;
  /// The whole shape. Throws Error where a size is open.
  Shape shape(size_t index) const;
  /// Name of the input in the model.
  const std::string& input_name(size_t index) const;
  /// Name of the first result, after those of the functions and subgraphs, with their iterations, around it.
  std::string full_name() const;
  /// How often the model reads the input.
  size_t reader_count(size_t index) const;

  bool has_attribute(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* name, std::vector<int64_t> otherwise) const;
  std::vector<double> numbers(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  /// A tensor, or numbers as one.
  Tensor tensor(const char* name) const;
  const NarrowType* attribute_narrow_type(const char* name) const;
  /// The element type that the model has for it; nothing for numbers.
  std::optional<DType> tensor_type(const char* name) const;

  using Parameters = std::vector<std::pair<std::string, ParameterRef>>;
  /// Appends a node to the graph and gives its first result. Numbers may be operands: see constant_of.
  NodeInput add(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {},
                Parameters parameters = {});
  /// Appends a loop (graph/loop.h) of so many carried values and gives its first result.
  NodeInput add_loop(std::vector<NodeInput> inputs, int64_t carried, Graph body);
  /// A parameter of this tensor; initializers that are used as they are stay shared.
  ParameterRef parameter(size_t index, bool trainable = true);
  static ParameterRef parameter(Tensor tensor, bool trainable = true) {
    return ParameterRef(Parameter{std::move(tensor), trainable});
  }
  /// Gives a node one, and the quantizer that belongs to it.
  void add_parameter(Node& node, const std::string& name, ParameterRef parameter) const;
  /// The same of a tensor that `rounding` leaves as it is: the node that has it gets a quantizer.
  ParameterRef parameter(Tensor tensor, const QuantSpec& rounding);
  /// A tensor of the network's own as an operand.
  NodeInput constant_of(Tensor tensor);
  static NodeInput number_of(double value) { return NodeInput::of_constant(Value(value)); }
  static NodeInput integer_of(int64_t value) { return NodeInput::of_constant(Value(value)); }
  static NodeInput list_of(const std::vector<int64_t>& values) {
    return NodeInput::of_constant(Value(values));
  }
  /// The list of the integers from 0 on below a count.
  NodeInput integers_below(NodeInput count);
  /// The size of a dimension of a value, as a list of one.
  NodeInput size_of(NodeInput value, int64_t dim);
  /// The shape that such a node's result would have, with kOpenSize where that follows from open sizes or is
  /// not known.
  Shape result_shape(const std::string& op, std::vector<NodeInput> inputs, Table attributes = {}) const;
  /// Takes a share of the bytes of constants that may be computed; false where too few are left.
  bool may_know(int64_t bytes);
  /// A node that rounds, which becomes a quantizer of what reads it.
  NodeInput add_rounding(NodeInput value, const QuantSpec& spec);
  /// Whether an input is a constant that is rounded already.
  bool has_rounding(size_t index) const;
  /// Its rounding then.
  std::optional<QuantSpec> rounding(size_t index) const;
  /// The parameter of an input that is constant, in another shape.
  ParameterRef reshaped_parameter(size_t index, Shape shape);
  /// The parameter of an input that is a constant matrix, rows and columns exchanged.
  ParameterRef transposed_parameter(size_t index);
  /// Type of a value that was added, for one choice of open sizes.
  const Operand& type_of(const NodeInput& input) const;
  /// The node that gives an input, where that is no constant.
  Node* producer(size_t index);
  const Node* producer(size_t index) const;
  const Graph& graph() const;
  /// The node that gives a value of the graph.
  const Node& node(const NodeInput& value) const;

  size_t output_count() const;
  /// Whether anything asks for the output.
  bool wants(size_t index) const;
  void set_output(size_t index, NodeInput value);
  void set_output(size_t index, Tensor constant);
  /// A constant that `rounding` leaves as it is; it becomes the quantizer of a parameter.
  void set_output(size_t index, Tensor constant, const QuantSpec& rounding);
  /// Outputs an input as it is.
  void pass_on(size_t input, size_t output = 0);

  // Sequences of tensors. An input that is one where a tensor is asked for is an Error, and the reverse.
  ImportedValue& value(size_t index) const;
  ImportedValue& any_value(size_t index) const;  // a tensor or a sequence
  const std::vector<ImportedValue*>& sequence(size_t index) const;
  /// The same of one whose length only a run may know.
  const ImportedValue& any_sequence(size_t index) const;
  void set_sequence(size_t output, std::vector<ImportedValue*> sequence);
  void set_sequence(size_t output, ImportedValue sequence);
  NodeInput operand(ImportedValue& value);
  /// The result of a node that was added, of the model's types that `like` has.
  ImportedValue& own(NodeInput result, const ImportedValue& like);
  void pass_on(ImportedValue& value, size_t output = 0);

  /// Warns once of what nodes of its operator mean here.
  void warn(const std::string& message) const;
  /// Throws Error that the node is beyond what is supported, and why.
  [[noreturn]] void refuse(const std::string& reason) const;
  /// Refuses the node where it has an attribute or an input that nothing has asked for.
  void refuse_what_was_not_read() const;
  /// Refuses the node unless what an input holds is known.
  const Tensor& expect_constant(size_t index, const char* what) const;

 private:
  const onnx::AttributeProto* find(const char* name) const;
  Tensor read_tensor(const onnx::AttributeProto& attribute) const;

  OnnxImporter& importer_;
  const onnx::NodeProto& proto_;
  int64_t opset_;
  mutable std::set<std::string, std::less<>> read_attributes_;
  mutable size_t read_inputs_ = 0;  // up to this one
};

}  // namespace detent
