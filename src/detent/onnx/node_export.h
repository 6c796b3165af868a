#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/model_writer.h"
#include "detent/onnx/quantizer_export.h"

namespace detent {

class OnnxExporter;

/// One node of a graph on its way into an ONNX model: what an exporter (exporters/exporters.h) sees and
/// writes. Values are strings, the names that they have in the model.
class NodeExport {
 public:
  NodeExport(OnnxExporter& exporter, const Node& node) : exporter_(exporter), node_(node) {}

  const Node& node() const { return node_; }
  /// Version of the operator set that is written.
  int64_t opset() const;
  OnnxStyle style() const;

  size_t input_count() const { return node_.inputs.size(); }
  bool has_input(size_t index) const;
  /// A value as the node reads it; a number as a tensor without dimensions, of the dtype that the other
  /// operands have.
  std::string input(size_t index);
  OnnxValues inputs();
  /// A value of this dtype, a number as a tensor without dimensions; "" where there is none.
  std::string input_as(size_t index, DType dtype);
  /// A number, or a list of them, as a list of int64.
  std::string list(size_t index);
  /// The same as a tensor without dimensions.
  std::string scalar(size_t index);
  /// The elements of a list of integers that the graph knows; of a number, one.
  std::optional<std::vector<int64_t>> integers(size_t index) const;
  /// Type of an input for one choice of the sizes of named dimensions.
  const Operand& type(size_t index) const;
  const Operand& result_type(size_t result = 0) const;
  size_t rank(size_t index) const { return type(index).shape.size(); }
  /// The size of one dimension; nothing where it is open.
  std::optional<int64_t> size(size_t index, size_t dim) const;
  /// Dimensions, of which negative ones count from the end, of input 0.
  int64_t dimension(int64_t dim) const;

  int64_t integer(const char* name) const { return integer_attribute(node_, name); }
  double number(const char* name) const { return number_attribute(node_, name); }
  bool flag(const char* name) const { return boolean_attribute(node_, name); }
  const std::string& choice(const char* name) const { return choice_attribute(node_, name); }
  std::vector<int64_t> integers(const char* name, size_t count = 0) const {
    return integers_attribute(node_, name, count);
  }

  const Tensor* find_parameter(const char* name) const;
  /// Name of the parameter that the node computes with, rounded; "" where there is none.
  std::string parameter(const char* name);
  /// Integers of a matrix and [rows, 1] scales, whose products are what the node computes with; nothing where
  /// the style writes it in another way.
  std::optional<IntegerRows> integer_rows(const char* name);
  /// parameter() of a matrix, transposed.
  std::string transposed_parameter(const char* name);
  /// A normalization's weight or bias; where there is none, `value` in each element of `shape`.
  std::string parameter_or(const char* name, float value, const Shape& shape);

  /// Whether a value has been rounded.
  bool is_rounded(const std::string& value) const;
  /// A matrix rounded.
  std::string rounded(const std::string& matrix, const QuantSpec& spec);
  std::string list_of(const std::vector<int64_t>& values);
  std::string number_of(const Value& value, DType dtype = DType::kFloat32);
  std::string constant(const Tensor& tensor, const std::string& hint);
  /// A constant of an element type as ONNX counts them.
  std::string elements(const std::string& hint, int64_t type, const Shape& shape, const std::string& bytes);

  /// A value on the way to the result.
  std::string add(const std::string& op, OnnxValues inputs, Table attributes = {});
  /// The node's results, of a last step.
  void emit(const std::string& op, OnnxValues inputs, Table attributes = {},
            std::optional<Tensor> value = std::nullopt, const std::string& domain = "");

  /// The same of a loop, whose body reads captured values by their names.
  void emit_loop(OnnxValues inputs, std::span<const std::string> captured);

  /// Throws Error that the node cannot be written, and why.
  [[noreturn]] void refuse(const std::string& reason) const;
  /// Refuses the node where the operator set is older.
  void need_opset(int64_t version, const char* what) const;

  const OnnxValues& results() const { return results_; }

 private:
  void add_results();

  OnnxExporter& exporter_;
  const Node& node_;
  OnnxValues results_;
};

}  // namespace detent
