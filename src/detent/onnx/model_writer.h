#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/graph/tensor_type.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace detent {

class OnnxWeightsFile;

/// Names of values; "" is an optional one that is absent.
using OnnxValues = std::vector<std::string>;

/// A node of a model that is being written. Attributes are integers, floats, texts and lists of one of these;
/// `value` is the attribute of that name, a tensor.
struct OnnxNode {
  std::string op;
  OnnxValues inputs;
  OnnxValues outputs;
  Table attributes = {};
  std::string name = {};
  std::string domain = {};
  std::optional<Tensor> value = {};
  std::shared_ptr<onnx::GraphProto> body = {};  // the attribute of that name
};

/// Gives values that nodes read, those of their bodies included, the names that `name_of` says.
void rename_reads(onnx::NodeProto& node, const std::function<std::string(const std::string&)>& name_of);

/// Puts a model in ONNX's format together.
class OnnxModelWriter {
 public:
  explicit OnnxModelWriter(const std::string& graph_name);
  ~OnnxModelWriter();
  OnnxModelWriter(const OnnxModelWriter&) = delete;
  OnnxModelWriter& operator=(const OnnxModelWriter&) = delete;

  /// `wanted` as the name of a new value, with a number where it is taken.
  std::string new_value(const std::string& wanted);
  /// The same for a node.
  std::string new_node_name(const std::string& wanted);
  std::string add_initializer(const std::string& wanted, const Tensor& tensor);
  /// Elements of a type that detent has no tensors of.
  std::string add_initializer(const std::string& wanted, int64_t element_type, const Shape& shape,
                              const std::string& bytes);
  void add_input(const std::string& name, const TensorType& type);
  void add_output(const std::string& name, const TensorType& type);
  void add_node(const OnnxNode& node);
  /// Until end_body(), inputs, outputs and nodes are those of a graph within a node. Initializers stay with
  /// the outermost graph.
  void begin_body();
  // Any shape.
  void add_input(const std::string& name, DType dtype);
  void add_output(const std::string& name, DType dtype);
  std::shared_ptr<onnx::GraphProto> end_body();
  /// Gives values that nodes compute other names, all at once.
  void rename_values(const std::map<std::string, std::string>& names);
  /// Whether a node computes the value.
  bool is_computed(const std::string& value) const;

  /// All nodes, to be written anew.
  std::vector<onnx::NodeProto> take_nodes();
  void add_node(onnx::NodeProto node);
  void drop_unread_initializers();
  std::vector<std::string> output_names() const;
  // An initializer's element type as ONNX counts them, and its elements; nothing of another value.
  int32_t element_type(const std::string& initializer) const;
  std::span<const std::byte> initializer_bytes(const std::string& initializer) const;

  /// Initializers lie in a file beside the model where they have more than `most_bytes_within` bytes.
  void write(const std::filesystem::path& path, int64_t opset, uint64_t most_bytes_within);

 private:
  struct Initializer {
    onnx::TensorProto* proto;
    Tensor tensor;  // of these two, one has the elements
    std::string bytes;

    std::span<const std::byte> data() const;
  };

  /// The graph that nodes are added to.
  onnx::GraphProto& graph();
  const Initializer* find_initializer(const std::string& name) const;
  std::string keep(Initializer initializer, const std::string& wanted);
  void put_data_into_model();
  void put_data_beside(OnnxWeightsFile& weights);

  std::unique_ptr<onnx::ModelProto> model_;
  std::vector<std::shared_ptr<onnx::GraphProto>> bodies_;  // that are being written
  std::vector<Initializer> initializers_;
  std::unordered_map<std::string, size_t> initializer_places_;
  std::set<std::string> values_;
  std::set<std::string> nodes_;
  std::unordered_map<std::string, size_t> suffixes_;
  std::set<std::string> computed_;
  std::set<std::string> domains_;
};

}  // namespace detent
