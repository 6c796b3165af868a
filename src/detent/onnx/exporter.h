#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/inference/node_form.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/model_writer.h"
#include "detent/onnx/quantizer_export.h"

namespace detent {

/// Nodes that compute softmax(cap tanh(query keys / cap)), of what is seen, times values: in ONNX one
/// operator.
struct AttentionPattern {
  NodeInput query;                 // [N, heads, sequence, size], scaled
  NodeInput keys;                  // [N, heads of keys, size, total]
  NodeInput values;                // [N, heads of keys, total, size]
  NodeInput seen;                  // [N, 1, sequence or 1, total]
  double unseen = 0;               // the score of what is not
  double cap = 0;                  // 0: none
  std::vector<std::string> inner;  // the nodes before the last one, whose values nothing else reads
};

/// By the node that gives the result, [N, heads, sequence, size]. Operands that are rounded, and values that
/// something else reads, leave a part as it is.
std::unordered_map<std::string, AttentionPattern> find_attention(const Graph& graph, const ValueTypes& types);

/// Writes a graph as a model, node by node.
class OnnxExporter {
 public:
  OnnxExporter(const Graph& graph, const OnnxExportOptions& options, int64_t opset);

  /// Returns the opset; a newer one if operators need it and the options leave it open, and then nothing was
  /// written. Throws Error, beginning with `path`, listing all nodes that cannot be written.
  int64_t write(const std::filesystem::path& path);

 private:
  friend class NodeExport;

  /// For the body of a loop in the graph that `around` writes.
  OnnxExporter(OnnxExporter& around, const Node& loop);

  /// Values for one of two choices of the sizes of named dimensions: what is equal in both is known.
  struct TriedSizes {
    ValueTypes types;
  };

  void refuse_formats();
  void fail_of_problems() const;
  void export_node(const Node& node);
  void export_attention(const Node& node, const AttentionPattern& pattern);
  /// Name of the tensor that is added to the scores.
  std::string attention_mask(const Node& node, const AttentionPattern& pattern);
  void export_outputs(const Node& node);
  void export_body_outputs(const Node& node);
  void export_nodes();
  /// Types of the body's values for one choice of sizes.
  static TriedSizes body_types(const Node& loop, const TriedSizes& around);
  /// The body of a loop, whose captured values have these names.
  std::shared_ptr<onnx::GraphProto> body_of(const Node& loop, std::span<const std::string> captured);
  void round_results(const Node& node);
  std::string parameter(const Node& node, const std::string& name, bool transposed);
  std::string integer_bias(const Node& node, const SumForm& form);
  std::string rounded_bias(const Node& node, const SumForm& form);
  /// The value that an operand is, as its node reads it.
  std::string value_of(const Node& node, size_t input);
  /// `sizes` as formulas (graph/value_sizes.h).
  TensorType type_of(const NodeInput& value, std::span<const std::string> sizes) const;
  void refuse(const Node& node, const std::string& reason);

  const Graph& graph_;
  const OnnxExportOptions& options_;
  const Node* const loop_ = nullptr;  // whose body this is
  std::unique_ptr<OnnxModelWriter> own_writer_;
  OnnxModelWriter& writer_;
  int64_t opset_;
  int64_t needed_opset_ = 0;  // by operators, as far as they were written
  QuantizerExport quantizers_;
  TriedSizes first_;
  TriedSizes second_;
  std::unordered_map<std::string, std::string> names_;  // of values, by value_name
  std::map<std::pair<const Parameter*, std::string>, std::string> initializers_;
  std::map<std::string, std::string> attention_masks_;  // of what is seen
  std::vector<std::string> problems_;
};

/// Rewrites a model in the style qdq into operators that take and give integers: where a node stands between
/// DequantizeLinear and QuantizeLinear, QLinearConv, QLinearMatMul, and of com.microsoft QGemm, QLinearAdd
/// and their like take its place; what moves or clamps elements does so on integers. What has no such
/// operator, or none that ONNX Runtime computes for these types, stays between its DequantizeLinear and
/// QuantizeLinear.
void compute_on_codes(OnnxModelWriter& writer);

}  // namespace detent
