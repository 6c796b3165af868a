#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/model_writer.h"

namespace detent {

/// With what an operand rounds, its parameters given as far as they are known; nothing where it does not.
std::optional<QuantSpec> rounding_of(const Node& node, std::string_view operand);

struct IntegerForm;
struct WeightBlocks;

/// Initializers: integers, and what each row of them is multiplied with.
struct IntegerRows {
  std::string codes;
  std::string scales;
};

/// Writes what operands are rounded to, in the words of a style.
class QuantizerExport {
 public:
  QuantizerExport(OnnxModelWriter& writer, const OnnxExportOptions& options, int64_t opset)
      : writer_(writer), style_(options.style), opset_(opset), unsigned_weights_(options.unsigned_weights) {}

  /// The first operator set that has its codes in QDQ models: 19 for floats of 8 bits, 21 for integers of 16
  /// and scales of groups, 23 for floats of 4 bits, 24 for scales that are powers of two.
  static int64_t least_opset(const QuantSpec& spec);

  /// The value rounded; one that is rounded so already as it is. `rank` is that of the value.
  std::string rounded(const std::string& value, const QuantSpec& spec, size_t rank);
  /// A tensor of the network, as the spec leaves it; a matrix may be wanted transposed.
  std::string rounded(const std::string& name, const Tensor& tensor, const QuantSpec& spec, bool transposed);
  /// The value has the values of this spec already.
  void note_rounded(const std::string& value, const QuantSpec& spec) { rounded_[value] = spec; }
  bool is_rounded(const std::string& value) const { return rounded_.contains(value); }
  /// A matrix as integers without zero point, a scale a row; nothing where the style or the spec has others.
  std::optional<IntegerRows> integer_rows(const std::string& name, const Tensor& matrix,
                                          const QuantSpec& spec);

 private:
  std::string quantize_dequantize(const std::string& value, const QuantSpec& spec, size_t rank);
  std::string cast_to_floats(const std::string& value, const QuantSpec& spec, size_t rank);
  std::string float_weight(const std::string& name, const Tensor& tensor, const QuantSpec& spec,
                           bool transposed);
  std::string block_weight(const std::string& name, const Tensor& tensor, const QuantSpec& spec,
                           bool is_transposed);
  std::string dequantized(const std::string& name, const WeightBlocks& blocks);
  std::string clipped(const std::string& value, const IntegerForm& form, size_t rank);
  std::string quant(const std::string& value, const QuantSpec& spec, size_t rank);
  std::string bipolar(const std::string& value, const Tensor& scale);
  std::string add(const std::string& op, OnnxValues inputs, Table attributes, const std::string& name,
                  const std::string& output, const std::string& domain = "");

  OnnxModelWriter& writer_;
  OnnxStyle style_;
  int64_t opset_;
  bool unsigned_weights_;
  std::map<std::string, std::vector<std::pair<QuantSpec, std::string>>> done_;
  std::map<std::string, QuantSpec> rounded_;  // by value
};

/// Why a model of this style and operator set cannot hold values of this spec, or weights; "" where it can.
std::string style_obstacle(OnnxStyle style, const QuantSpec& spec, int64_t opset, bool is_weight);

/// Rows and columns of a matrix exchanged.
Tensor transposed_matrix(const Tensor& matrix);

}  // namespace detent
