#pragma once

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "detent/core/error.h"

namespace detent {

/// An attribute of a node, by what it holds.
struct OnnxAttribute {
  using Value = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                             std::vector<std::string>, onnx::GraphProto, onnx::TensorProto>;

  OnnxAttribute(std::string attribute, int of) : name(std::move(attribute)), value(int64_t{of}) {}
  OnnxAttribute(std::string attribute, int64_t of) : name(std::move(attribute)), value(of) {}
  OnnxAttribute(std::string attribute, float of) : name(std::move(attribute)), value(of) {}
  OnnxAttribute(std::string attribute, const char* of) : name(std::move(attribute)), value(std::string(of)) {}
  OnnxAttribute(std::string attribute, std::vector<int64_t> of)
      : name(std::move(attribute)), value(std::move(of)) {}
  OnnxAttribute(std::string attribute, std::vector<float> of)
      : name(std::move(attribute)), value(std::move(of)) {}
  OnnxAttribute(std::string attribute, std::vector<std::string> of)
      : name(std::move(attribute)), value(std::move(of)) {}
  OnnxAttribute(std::string attribute, onnx::GraphProto of)
      : name(std::move(attribute)), value(std::move(of)) {}
  OnnxAttribute(std::string attribute, onnx::TensorProto of)
      : name(std::move(attribute)), value(std::move(of)) {}

  void write(onnx::AttributeProto& proto) const {
    proto.set_name(name);
    std::visit([&](const auto& of) { set(proto, of); }, value);
  }

  std::string name;
  Value value;

 private:
  static void set(onnx::AttributeProto& proto, int64_t of) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(of);
  }
  static void set(onnx::AttributeProto& proto, float of) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(of);
  }
  static void set(onnx::AttributeProto& proto, const std::string& of) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(of);
  }
  static void set(onnx::AttributeProto& proto, const std::vector<int64_t>& of) {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const int64_t number : of) proto.add_ints(number);
  }
  static void set(onnx::AttributeProto& proto, const std::vector<float>& of) {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (const float number : of) proto.add_floats(number);
  }
  static void set(onnx::AttributeProto& proto, const std::vector<std::string>& of) {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& text : of) proto.add_strings(text);
  }
  static void set(onnx::AttributeProto& proto, const onnx::GraphProto& of) {
    proto.set_type(onnx::AttributeProto::GRAPH);
    *proto.mutable_g() = of;
  }
  static void set(onnx::AttributeProto& proto, const onnx::TensorProto& of) {
    proto.set_type(onnx::AttributeProto::TENSOR);
    *proto.mutable_t() = of;
  }
};

/// A tensor with its numbers one by one.
template <class T>
onnx::TensorProto onnx_tensor(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<T>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  if constexpr (std::is_same_v<T, float>) {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const T value : values) tensor.add_float_data(value);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    tensor.set_data_type(onnx::TensorProto::INT64);
    for (const T value : values) tensor.add_int64_data(value);
  } else {
    tensor.set_data_type(std::is_same_v<T, int32_t>  ? onnx::TensorProto::INT32
                         : std::is_same_v<T, int8_t> ? onnx::TensorProto::INT8
                                                     : onnx::TensorProto::UINT8);
    for (const T value : values) tensor.add_int32_data(value);
  }
  return tensor;
}

inline onnx::NodeProto onnx_node(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<OnnxAttribute>& attributes = {}) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_name(outputs.front() + "_node");
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const OnnxAttribute& attribute : attributes) attribute.write(*node.add_attribute());
  return node;
}

/// The body of a loop, or a branch.
inline onnx::GraphProto onnx_body(const std::vector<std::string>& inputs,
                                  const std::vector<onnx::NodeProto>& nodes,
                                  const std::vector<std::string>& outputs) {
  onnx::GraphProto graph;
  graph.set_name("body");
  for (const std::string& input : inputs) graph.add_input()->set_name(input);
  for (const onnx::NodeProto& node : nodes) *graph.add_node() = node;
  for (const std::string& output : outputs) graph.add_output()->set_name(output);
  return graph;
}

/// A default of an attribute, which the headers of some distributions have no field for.
template <class Function>
void add_default_attribute(Function& function, const onnx::AttributeProto& attribute) {
  constexpr int kDefaultsOfFunction = 11;
  if constexpr (requires { function.add_attribute_proto(); }) {
    *function.add_attribute_proto() = attribute;
  } else {
    function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(
        kDefaultsOfFunction, attribute.SerializeAsString());
  }
}

/// Which of several functions of a name: of a function or a node, in this field.
template <class Message>
void set_overload(Message& message, int field, const std::string& overload) {
  if constexpr (requires { message.set_overload(overload); }) {
    message.set_overload(overload);
  } else {
    message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field, overload);
  }
}

/// A model written down node by node, and its file in a folder of its own.
class OnnxModelForTest {
 public:
  explicit OnnxModelForTest(int64_t opset) {
    proto.set_ir_version(8);
    auto& import = *proto.add_opset_import();
    import.set_domain("");
    import.set_version(opset);
    proto.mutable_graph()->set_name("test");
  }
  ~OnnxModelForTest() { std::filesystem::remove_all(folder); }
  OnnxModelForTest(const OnnxModelForTest&) = delete;
  OnnxModelForTest& operator=(const OnnxModelForTest&) = delete;

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  /// Sizes below 0 are open.
  void input(const std::string& name, const std::vector<int64_t>& dims,
             onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    describe(*graph().add_input(), name, dims, type);
  }
  void output(const std::string& name, const std::vector<int64_t>& dims = {},
              onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED) {
    describe(*graph().add_output(), name, dims, type);
  }
  template <class T>
  void constant(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& values) {
    *graph().add_initializer() = onnx_tensor(name, dims, values);
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs,
                        const std::vector<OnnxAttribute>& attributes = {}) {
    return *graph().add_node() = onnx_node(op, inputs, outputs, attributes);
  }

  std::filesystem::path write() const { return write(proto.SerializeAsString()); }
  std::filesystem::path write(const std::string& bytes) const {
    std::filesystem::create_directories(folder);
    const std::filesystem::path path = folder / "model.onnx";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  onnx::ModelProto proto;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("detent_onnx_{}_{}", getpid(), next_number());

 private:
  static int next_number() {
    static int number = 0;
    return number++;
  }
  static void describe(onnx::ValueInfoProto& info, const std::string& name, const std::vector<int64_t>& dims,
                       onnx::TensorProto::DataType type) {
    info.set_name(name);
    if (type == onnx::TensorProto::UNDEFINED) return;
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (size_t i = 0; i < dims.size(); ++i) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      if (dims[i] >= 0) dim.set_dim_value(dims[i]);
      if (dims[i] < 0) dim.set_dim_param(fmt::format("open{}", -dims[i]));
    }
  }
};

}  // namespace detent
