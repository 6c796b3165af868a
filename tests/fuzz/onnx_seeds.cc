#include <cstdio>

#include "../onnx_model_for_test.h"

// Models for onnx_fuzz to begin with, of every kind of node and message that the importer reads:
//   onnx_seeds FOLDER

namespace detent {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

void write(const std::filesystem::path& folder, const OnnxModelForTest& model) {
  static int count = 0;
  std::ofstream(folder / fmt::format("seed_{}.onnx", count++), std::ios::binary)
      << model.proto.SerializeAsString();
}

/// A model of one node, whose constants follow its input.
void write_node(const std::filesystem::path& folder, int64_t opset, const std::string& op, const Ints& shape,
                const std::vector<onnx::TensorProto>& constants,
                const std::vector<OnnxAttribute>& attributes = {}, const std::string& domain = "") {
  OnnxModelForTest model(opset);
  model.input("x", shape);
  std::vector<std::string> inputs = {"x"};
  for (const onnx::TensorProto& constant : constants) {
    inputs.push_back(constant.name());
    if (!constant.name().empty()) *model.graph().add_initializer() = constant;
  }
  model.output("y");
  model.node(op, inputs, {"y"}, attributes).set_domain(domain);
  write(folder, model);
}

onnx::TensorProto none() { return onnx_tensor<float>("", {}, {}); }

void write_nodes(const std::filesystem::path& folder) {
  const auto floats = [](const char* name, const Ints& dims, const Floats& values) {
    return onnx_tensor(name, dims, values);
  };
  const auto ints = [](const char* name, const Ints& values) {
    return onnx_tensor(name, {std::ssize(values)}, values);
  };
  write_node(folder, 17, "Conv", {1, 2, 4, 4}, {floats("w", {1, 2, 1, 1}, {1, 2})},
             {{"strides", Ints{1, 1}}});
  write_node(folder, 17, "MaxPool", {1, 1, 4, 4}, {},
             {{"kernel_shape", Ints{2, 2}}, {"auto_pad", "SAME_UPPER"}});
  write_node(folder, 17, "Gemm", {2, 2}, {floats("w", {2, 2}, {1, 2, 3, 4})}, {{"transB", 1}});
  write_node(folder, 13, "ReduceSum", {2, 3}, {ints("axes", {1})}, {{"keepdims", 0}});
  write_node(folder, 11, "ReduceMean", {2, 3}, {}, {{"axes", Ints{0}}});
  write_node(folder, 13, "Reshape", {2, 3}, {ints("shape", {0, -1, 1})});
  write_node(folder, 13, "Slice", {2, 3},
             {ints("starts", {0}), ints("ends", {9}), ints("axes", {1}), ints("steps", {2})});
  write_node(folder, 13, "Pad", {2, 3}, {ints("pads", {0, 1, 0, 1})}, {{"mode", "reflect"}});
  write_node(folder, 13, "Gather", {2, 3}, {ints("indices", {1, -1})}, {{"axis", 1}});
  write_node(folder, 18, "Resize", {1, 1, 2, 2}, {none(), floats("scales", {4}, {1, 1, 2, 2})},
             {{"mode", "cubic"}});
  write_node(folder, 13, "Resize", {1, 1, 2, 2}, {none(), none(), ints("sizes", {1, 1, 3, 3})},
             {{"coordinate_transformation_mode", "align_corners"}});
  write_node(folder, 14, "LSTM", {2, 1, 2},
             {floats("w", {1, 4, 2}, Floats(8, 0.5F)), floats("r", {1, 4, 1}, Floats(4, 0.5F))},
             {{"hidden_size", 1}});
  write_node(folder, 14, "GRU", {2, 1, 2},
             {floats("w", {1, 3, 2}, Floats(6, 0.5F)), floats("r", {1, 3, 1}, Floats(3, 0.5F))},
             {{"hidden_size", 1}, {"linear_before_reset", 1}});
  write_node(folder, 17, "QuantizeLinear", {2, 3},
             {floats("s", {}, {0.5}), onnx_tensor<uint8_t>("z", {}, {128})});
  write_node(folder, 17, "Einsum", {2, 2}, {floats("w", {2, 2}, {1, 2, 3, 4})}, {{"equation", "ij,jk->ik"}});
  write_node(folder, 17, "TopK", {2, 3}, {ints("k", {2})}, {{"axis", 1}});
  write_node(folder, 17, "Gelu", {2, 3}, {}, {}, "com.microsoft");
}

void write_function(const std::filesystem::path& folder) {
  OnnxModelForTest model(17);
  auto& own = *model.proto.add_opset_import();
  own.set_domain("own");
  own.set_version(1);
  onnx::FunctionProto& function = *model.proto.add_functions();
  function.set_domain("own");
  function.set_name("Twice");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(17);
  *function.add_node() = onnx_node("Add", {"a", "a"}, {"b"});
  model.input("x", {2});
  model.output("y");
  model.node("Twice", {"x"}, {"y"}).set_domain("own");
  write(folder, model);
}

void write_branches(const std::filesystem::path& folder) {
  onnx::GraphProto branch;
  *branch.add_node() = onnx_node("Neg", {"x"}, {"inner"});
  branch.add_output()->set_name("inner");
  OnnxModelForTest model(17);
  model.input("x", {2});
  model.output("y");
  onnx::TensorProto condition = onnx_tensor<uint8_t>("condition", {}, {1});
  condition.set_data_type(onnx::TensorProto::BOOL);
  *model.graph().add_initializer() = condition;
  model.node("If", {"condition"}, {"y"}, {{"then_branch", branch}, {"else_branch", branch}});
  write(folder, model);
}

void write_open_shapes(const std::filesystem::path& folder) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2});
  model.output("y");
  model.node("Shape", {"x"}, {"shape"});
  model.node("ConstantOfShape", {"shape"}, {"zeros"});
  model.node("Add", {"x", "zeros"}, {"y"});
  write(folder, model);
}

}  // namespace
}  // namespace detent

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: onnx_seeds FOLDER\n", stderr);
    return 2;
  }
  std::filesystem::create_directories(arguments[1]);
  detent::write_nodes(arguments[1]);
  detent::write_function(arguments[1]);
  detent::write_branches(arguments[1]);
  detent::write_open_shapes(arguments[1]);
  return 0;
}
