#include "onnx_seed_models.h"

#include "detent/onnx/model_for_test.h"

namespace detent {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

/// A model of one node, whose constants follow its input.
void add_node(std::vector<onnx::ModelProto>& models, int64_t opset, const std::string& op, const Ints& shape,
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
  models.push_back(model.proto);
}

onnx::TensorProto none() { return onnx_tensor<float>("", {}, {}); }

void add_nodes(std::vector<onnx::ModelProto>& models) {
  const auto floats = [](const char* name, const Ints& dims, const Floats& values) {
    return onnx_tensor(name, dims, values);
  };
  const auto ints = [](const char* name, const Ints& values) {
    return onnx_tensor(name, {std::ssize(values)}, values);
  };
  add_node(models, 17, "Conv", {1, 2, 4, 4}, {floats("w", {1, 2, 1, 1}, {1, 2})}, {{"strides", Ints{1, 1}}});
  add_node(models, 17, "MaxPool", {1, 1, 4, 4}, {},
           {{"kernel_shape", Ints{2, 2}}, {"auto_pad", "SAME_UPPER"}});
  add_node(models, 17, "Gemm", {2, 2}, {floats("w", {2, 2}, {1, 2, 3, 4})}, {{"transB", 1}});
  add_node(models, 13, "ReduceSum", {2, 3}, {ints("axes", {1})}, {{"keepdims", 0}});
  add_node(models, 11, "ReduceMean", {2, 3}, {}, {{"axes", Ints{0}}});
  add_node(models, 13, "Reshape", {2, 3}, {ints("shape", {0, -1, 1})});
  add_node(models, 13, "Slice", {2, 3},
           {ints("starts", {0}), ints("ends", {9}), ints("axes", {1}), ints("steps", {2})});
  add_node(models, 13, "Pad", {2, 3}, {ints("pads", {0, 1, 0, 1})}, {{"mode", "reflect"}});
  add_node(models, 13, "Gather", {2, 3}, {ints("indices", {1, -1})}, {{"axis", 1}});
  add_node(models, 18, "Resize", {1, 1, 2, 2}, {none(), floats("scales", {4}, {1, 1, 2, 2})},
           {{"mode", "cubic"}});
  add_node(models, 13, "Resize", {1, 1, 2, 2}, {none(), none(), ints("sizes", {1, 1, 3, 3})},
           {{"coordinate_transformation_mode", "align_corners"}});
  add_node(models, 14, "LSTM", {2, 1, 2},
           {floats("w", {1, 4, 2}, Floats(8, 0.5F)), floats("r", {1, 4, 1}, Floats(4, 0.5F))},
           {{"hidden_size", 1}});
  add_node(models, 14, "GRU", {2, 1, 2},
           {floats("w", {1, 3, 2}, Floats(6, 0.5F)), floats("r", {1, 3, 1}, Floats(3, 0.5F))},
           {{"hidden_size", 1}, {"linear_before_reset", 1}});
  add_node(models, 17, "QuantizeLinear", {2, 3},
           {floats("s", {}, {0.5}), onnx_tensor<uint8_t>("z", {}, {128})});
  add_node(models, 17, "Einsum", {2, 2}, {floats("w", {2, 2}, {1, 2, 3, 4})}, {{"equation", "ij,jk->ik"}});
  add_node(models, 17, "TopK", {2, 3}, {ints("k", {2})}, {{"axis", 1}});
  add_node(models, 17, "Gelu", {2, 3}, {}, {}, "com.microsoft");
  add_node(models, 13, "LRN", {1, 4, 2}, {}, {{"size", 3}});
  add_node(models, 18, "CenterCropPad", {4, 2}, {ints("shape", {2, 3})});
  add_node(models, 22, "MaxUnpool", {1, 1, 2}, {onnx_tensor<int64_t>("places", {1, 1, 2}, {1, 2})},
           {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  add_node(models, 22, "SoftmaxCrossEntropyLoss", {2, 3}, {ints("target", {1, 2})}, {{"ignore_index", 2}});
  add_node(models, 25, "Attention", {1, 2, 4},
           {floats("k", {1, 3, 2}, Floats(6, 0.5F)), floats("v", {1, 3, 2}, Floats(6, 0.5F))},
           {{"q_num_heads", 2}, {"kv_num_heads", 1}, {"is_causal", 1}});
  add_node(models, 24, "TensorScatter", {1, 3, 1}, {floats("update", {1, 2, 1}, {1, 2})});
  add_node(models, 23, "RotaryEmbedding", {1, 1, 2, 4},
           {floats("c", {1, 2, 2}, Floats(4, 1)), floats("s", {1, 2, 2}, Floats(4, 0))});
}

/// Operators of ONNX Runtime's domain.
void add_microsoft_nodes(std::vector<onnx::ModelProto>& models) {
  const auto floats = [](const char* name, const Ints& dims, float value) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    return onnx_tensor(name, dims, Floats(count, value));
  };
  const auto add = [&](const std::string& op, const Ints& shape,
                       const std::vector<onnx::TensorProto>& constants,
                       const std::vector<OnnxAttribute>& attributes) {
    add_node(models, 17, op, shape, constants, attributes, "com.microsoft");
  };
  const auto integers = [](const char* name, const Ints& values) {
    return onnx_tensor(name, {std::ssize(values)}, values);
  };
  add("Attention", {1, 2, 4},
      {floats("w", {4, 12}, 0.5F), floats("b", {12}, 1), integers("m", {2, 0}),
       floats("p", {2, 1, 2, 1, 2}, 1)},
      {{"num_heads", 2}, {"unidirectional", 1}, {"qkv_hidden_sizes", Ints{4, 4, 4}}});
  add("MultiHeadAttention", {1, 2, 4},
      {floats("k", {1, 3, 4}, 1), floats("v", {1, 3, 4}, 2), floats("b", {12}, 1), integers("m", {2})},
      {{"num_heads", 2}, {"mask_filter_value", -8.0F}});
  add("GroupQueryAttention", {1, 1, 16},
      {none(), none(), floats("pk", {1, 1, 2, 4}, 1), floats("pv", {1, 1, 2, 4}, 1), integers("last", {2}),
       integers("whole", {3}), floats("c", {4, 2}, 1), floats("s", {4, 2}, 0)},
      {{"num_heads", 2},
       {"kv_num_heads", 1},
       {"do_rotary", 1},
       {"local_window_size", 2},
       {"smooth_softmax", 1}});
  add("RotaryEmbedding", {1, 2, 8}, {integers("p", {1}), floats("c", {4, 2}, 1), floats("s", {4, 2}, 0)},
      {{"interleaved", 1}});
  add("SkipLayerNormalization", {1, 2, 4},
      {floats("s", {1, 2, 4}, 1), floats("g", {4}, 1), floats("b", {4}, 1), floats("a", {4}, 1)},
      {{"epsilon", 1e-5F}});
  add("FusedConv", {1, 1, 3, 3},
      {floats("w", {1, 1, 2, 2}, 1), floats("b", {1}, 1), floats("z", {1, 1, 2, 2}, 1)},
      {{"activation", "Clip"}, {"activation_params", Floats{0, 1}}});
  add("FusedGemm", {2, 2}, {floats("w", {2, 2}, 1)}, {{"activation", "Elu"}, {"activation_alpha", 0.5F}});
  add("FusedMatMul", {2, 2, 2}, {floats("w", {2, 2, 2}, 1)},
      {{"transA", 1}, {"transBatchB", 1}, {"alpha", 0.5F}});
  add("MatMulNBits", {1, 20},
      {onnx_tensor<uint8_t>("w", {1, 2, 8}, std::vector<uint8_t>(16, 7)), floats("s", {2}, 0.5F),
       onnx_tensor<uint8_t>("z", {1}, {0x97})},
      {{"K", 20}, {"N", 1}, {"bits", 4}, {"block_size", 16}});
  add("DynamicQuantizeMatMul", {2, 3},
      {onnx_tensor<int8_t>("w", {3, 2}, {1, -2, 3, 4, -5, 6}), floats("s", {2}, 0.5F)}, {});
  add("NhwcMaxPool", {1, 4, 4, 2}, {}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
}

/// Tables whose rows are gathered.
void add_microsoft_tables(std::vector<onnx::ModelProto>& models) {
  OnnxModelForTest model(21);
  model.input("x", {1, 2}, onnx::TensorProto::INT64);
  model.input("i", {1, 2}, onnx::TensorProto::INT64);
  model.constant<float>("w", {3, 4}, Floats(12, 0.5F));
  model.constant<float>("g", {4}, Floats(4, 1));
  model.constant<uint8_t>("codes", {3, 8}, std::vector<uint8_t>(24, 19));
  model.constant<float>("s", {3, 1}, {1, 2, 3});
  model.node("EmbedLayerNormalization", {"x", "", "w", "w", "", "g", "g"}, {"y", "lengths"})
      .set_domain("com.microsoft");
  model
      .node("GatherBlockQuantized", {"codes", "i", "s"}, {"z"},
            {{"bits", 4}, {"block_size", 16}, {"gather_axis", 0}, {"quantize_axis", 1}})
      .set_domain("com.microsoft");
  for (const char* output : {"y", "lengths", "z"}) model.output(output);
  models.push_back(model.proto);
}

/// Operators of QONNX that do more than round to integers.
void add_qonnx_nodes(std::vector<onnx::ModelProto>& models) {
  const auto number = [](const char* name, float value) { return onnx_tensor<float>(name, {}, {value}); };
  const auto add =
      [&](const std::string& op, const Ints& shape, const std::vector<onnx::TensorProto>& constants,
          const std::vector<OnnxAttribute>& attributes, const std::string& domain = "finn.general") {
        add_node(models, 17, op, shape, constants, attributes, domain);
      };
  add("FloatQuant", {2, 3},
      {number("s", 0.5F), number("e", 4), number("m", 3), number("b", 7), number("l", 448)},
      {{"signed", 1}, {"has_subnormal", 1}, {"rounding_mode", "ROUND"}});
  add("FloatQuant", {2, 3},
      {number("s", 0.3F), number("e", 2), number("m", 1), number("b", 1), number("l", 5)},
      {{"signed", 0}, {"saturation", 1}});
  add("MultiThreshold", {1, 2, 2, 2}, {onnx_tensor<float>("t", {2, 2}, {0, 1, 2, 3})},
      {{"out_scale", 0.5F}, {"out_bias", 1.0F}, {"data_layout", "NHWC"}});
  add("XnorPopcountMatMul", {2, 3}, {onnx_tensor<float>("w", {3, 2}, {1, 0, 0, 1, 1, 1})}, {});
  add("QuantAvgPool2d", {1, 2, 4, 4}, {}, {{"kernel", 2}, {"stride", 2}, {"ibits", 4}, {"obits", 4}});
  add("Conv", {1, 3, 3, 2}, {onnx_tensor<float>("w", {1, 2, 2, 2}, Floats(8, 1))},
      {{"kernel_shape", Ints{2, 2}}, {"group", 1}}, "qonnx.custom_op.channels_last");
}

/// Operators that are written out as gathered pixels, products with waves, and arithmetic on bits.
void add_written_out_nodes(std::vector<onnx::ModelProto>& models) {
  const auto floats = [](const char* name, const Ints& dims, const Floats& values) {
    return onnx_tensor(name, dims, values);
  };
  const auto integer = [](const char* name, int64_t value) {
    return onnx_tensor<int64_t>(name, {}, {value});
  };
  add_node(models, 20, "GridSample", {1, 1, 2, 2}, {floats("g", {1, 1, 2, 2}, {0, 1, -1, 2})},
           {{"mode", "cubic"}, {"padding_mode", "reflection"}, {"align_corners", 1}});
  add_node(models, 16, "GridSample", {1, 1, 2, 2}, {floats("g", {1, 1, 2, 2}, {0, 1, -1, 2})},
           {{"mode", "bilinear"}});
  add_node(models, 20, "DFT", {1, 4, 2}, {integer("n", 5), integer("axis", 1)}, {{"inverse", 1}});
  add_node(models, 17, "DFT", {1, 4, 1}, {integer("n", 3)}, {{"onesided", 1}, {"axis", 1}});
  add_node(models, 17, "STFT", {1, 6, 1},
           {integer("step", 2), floats("w", {3}, {1, 2, 1}), integer("length", 3)}, {{"onesided", 1}});
  add_node(models, 26, "CumProd", {2, 3}, {integer("axis", 1)}, {{"exclusive", 1}, {"reverse", 1}});
  add_node(models, 18, "GlobalLpPool", {1, 2, 2}, {}, {{"p", 3}});
  add_node(models, 19, "DeformConv", {1, 2, 3, 3},
           {floats("w", {1, 2, 2, 2}, Floats(8, 1)), floats("o", {1, 8, 2, 2}, Floats(32, 0.5F))},
           {{"offset_group", 1}, {"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}});
  add_node(models, 16, "RoiAlign", {1, 1, 4, 4},
           {floats("r", {1, 4}, {0, 0, 3, 3}), onnx_tensor<int64_t>("i", {1}, {0})},
           {{"output_height", 2}, {"output_width", 2}, {"sampling_ratio", 2}, {"mode", "max"}});
  add_node(models, 11, "Det", {2, 3, 3}, {});
  add_node(models, 3, "Normalizer", {2, 3}, {}, {{"norm", "L2"}}, "ai.onnx.ml");
  add_node(models, 3, "LabelEncoder", {2, 3}, {},
           {{"keys_floats", Floats{1, 2}}, {"values_int64s", Ints{3, 4}}, {"default_int64", 5}},
           "ai.onnx.ml");
}

/// Codes of four bits, with a scale for each two.
void add_narrow_codes(std::vector<onnx::ModelProto>& models) {
  constexpr int kInt4 = 22;
  OnnxModelForTest model(21);
  model.input("x", {1, 4});
  model.output("y");
  onnx::TensorProto codes;
  codes.set_name("codes");
  codes.set_data_type(kInt4);
  for (const int64_t dim : {4, 2}) codes.add_dims(dim);
  codes.set_raw_data("\x71\x28\xf0\x13");
  *model.graph().add_initializer() = codes;
  model.constant<float>("s", {2, 2}, {1, 2, 3, 4});
  model.node("DequantizeLinear", {"codes", "s"}, {"w"}, {{"axis", 0}, {"block_size", 2}});
  model.node("MatMul", {"x", "w"}, {"y"});
  models.push_back(model.proto);
}

/// Codes from one layer to the next, as quantizers for integers write them.
void add_codes(std::vector<onnx::ModelProto>& models) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2, 4, 4});
  model.output("y");
  model.constant<float>("s", {}, {0.25});
  model.constant<uint8_t>("z", {}, {128});
  model.constant<int8_t>("w", {2, 2, 1, 1}, {1, -2, 3, 4});
  model.constant<float>("ws", {2}, {0.5, 0.125});
  model.constant<int8_t>("wz", {2}, {0, 0});
  onnx::TensorProto bias = onnx_tensor<int8_t>("b", {2}, {5, -6});
  bias.set_data_type(onnx::TensorProto::INT32);
  *model.graph().add_initializer() = bias;
  model.node("QuantizeLinear", {"x", "s", "z"}, {"codes"});
  model.node("QLinearConv", {"codes", "s", "z", "w", "ws", "wz", "s", "z", "b"}, {"sums"});
  model.node("MaxPool", {"sums"}, {"pooled"}, {{"kernel_shape", Ints{2, 2}}});
  model.node("QLinearAdd", {"pooled", "s", "z", "pooled", "s", "z", "s", "z"}, {"added"})
      .set_domain("com.microsoft");
  model.node("DequantizeLinear", {"added", "s", "z"}, {"y"});
  auto& import = *model.proto.add_opset_import();
  import.set_domain("com.microsoft");
  import.set_version(1);
  models.push_back(model.proto);
}

void add_rounding(std::vector<onnx::ModelProto>& models) {
  OnnxModelForTest model(17);
  auto& import = *model.proto.add_opset_import();
  import.set_domain("qonnx.custom_op.general");
  import.set_version(1);
  model.input("x", {2, 3});
  model.output("y");
  model.constant<float>("s", {}, {0.25});
  model.constant<float>("z", {}, {0});
  model.constant<float>("bits", {}, {4});
  model.constant<float>("fewer", {}, {2});
  model.node("Quant", {"x", "s", "z", "bits"}, {"a"}, {{"signed", 1}, {"narrow", 0}})
      .set_domain("qonnx.custom_op.general");
  model.node("Quant", {"a", "s", "z", "bits"}, {"b"}, {{"rounding_mode", "CEIL"}})
      .set_domain("qonnx.custom_op.general");
  model.node("BipolarQuant", {"b", "s"}, {"c"}).set_domain("qonnx.custom_op.general");
  model.node("Trunc", {"c", "s", "z", "bits", "fewer"}, {"y"}).set_domain("qonnx.custom_op.general");
  models.push_back(model.proto);
}

void add_function(std::vector<onnx::ModelProto>& models) {
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
  models.push_back(model.proto);
}

void add_branches(std::vector<onnx::ModelProto>& models) {
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
  models.push_back(model.proto);
}

onnx::GraphProto summing_body(const std::vector<std::string>& inputs) {
  onnx::GraphProto body;
  for (const std::string& input : inputs) body.add_input()->set_name(input);
  *body.add_initializer() = onnx_tensor<float>("one", {}, {1});
  *body.add_node() = onnx_node("Add", {inputs[inputs.size() - 2], inputs.back()}, {"sum"});
  *body.add_node() = onnx_node("Add", {"sum", "one"}, {"after"});
  return body;
}

void add_loops(std::vector<onnx::ModelProto>& models) {
  onnx::GraphProto repeated = summing_body({"i", "go", "before", "other"});
  for (const char* output : {"go", "after", "other", "sum"}) repeated.add_output()->set_name(output);
  onnx::GraphProto scanned = summing_body({"before", "part"});
  for (const char* output : {"after", "sum"}) scanned.add_output()->set_name(output);
  OnnxModelForTest model(17);
  model.constant<int64_t>("most", {}, {2});
  model.constant<int64_t>("last", {}, {-1});
  model.input("x", {2});
  for (const char* output : {"u", "v", "w"}) model.output(output);
  model.node("Loop", {"most", "", "x", "x"}, {"a", "b", "u"}, {{"body", repeated}});
  model.node("Scan", {"last_sum", "u"}, {"c", "v"}, {{"body", scanned}, {"num_scan_inputs", 1}});
  model.node("SplitToSequence", {"v"}, {"parts"}, {{"axis", 0}});
  model.node("SequenceAt", {"parts", "last"}, {"w"});
  model.node("Identity", {"a"}, {"last_sum"});
  models.push_back(model.proto);
}

/// Constants on the left and on the right of products, whose weights they are, and rows that are looked up.
void add_weights(std::vector<onnx::ModelProto>& models) {
  add_node(models, 17, "MatMul", {2, 2, 1, 2}, {onnx_tensor("w", {2, 2, 3}, Floats(12, 0.5F))});
  add_node(models, 17, "ConvTranspose", {1, 2, 3}, {onnx_tensor("w", {2, 1, 2}, Floats(4, 0.5F))},
           {{"strides", Ints{2}}, {"output_padding", Ints{1}}});
  OnnxModelForTest model(17);
  model.input("x", {2, 2});
  model.input("i", {2}, onnx::TensorProto::INT64);
  for (const char* output : {"a", "b", "c", "d", "e"}) model.output(output);
  model.constant("w", {3, 2}, Floats(6, 0.5F));
  model.constant("stack", {2, 3, 2}, Floats(12, 0.5F));
  model.constant("rows", {3, 1}, Floats(3, 0.5F));
  model.node("MatMul", {"w", "x"}, {"a"});
  model.node("Gemm", {"w", "x", "rows"}, {"b"}, {{"transB", 1}, {"alpha", 0.5F}, {"beta", 2.0F}});
  model.node("Gather", {"stack", "i"}, {"c"});
  model.node("Gather", {"w", "i"}, {"d"}, {{"axis", 1}});
  model.constant<int64_t>("axis", {1}, {0});
  model.node("Unsqueeze", {"x", "axis"}, {"u"});
  model.node("Concat", {"u", "u"}, {"pair"}, {{"axis", 0}});
  model.node("MatMul", {"stack", "pair"}, {"e"});
  models.push_back(model.proto);
}

onnx::TensorProto raw_elements(const std::string& name, int type, const Ints& dims,
                               const std::string& bytes) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(bytes);
  return tensor;
}

/// Scales of blocks: of integers, floats of 4 bits and what a run gives.
void add_blocks(std::vector<onnx::ModelProto>& models) {
  constexpr int kFloat8E4M3 = 17;
  constexpr int kInt4 = 22;
  constexpr int kFloat4 = 23;
  constexpr int kFloat8E8M0 = 24;
  OnnxModelForTest model(24);
  model.input("x", {2, 16});
  for (const char* output : {"a", "b", "c", "d"}) model.output(output);
  auto& initializers = *model.graph().mutable_initializer();
  *initializers.Add() = raw_elements("i", kInt4, {2, 16}, std::string(16, 0x2e));
  *initializers.Add() = raw_elements("f", kFloat4, {2, 16}, std::string(16, 0x57));
  *initializers.Add() = raw_elements("e", kFloat8E4M3, {2, 1}, "\x38\x40");
  *initializers.Add() = raw_elements("p", kFloat8E8M0, {2, 1}, "\x7f\x80");
  model.constant("s", {2, 2}, Floats{0.5F, 0.25F, 1, 2});
  model.constant("t", {}, Floats{0.5F});
  const std::vector<OnnxAttribute> halves = {{"axis", 1}, {"block_size", 8}};
  const std::vector<OnnxAttribute> whole = {{"axis", 1}, {"block_size", 16}};
  model.node("DequantizeLinear", {"i", "s"}, {"v"}, halves);
  model.node("Gemm", {"x", "v"}, {"a"}, {{"transB", 1}});
  model.node("DequantizeLinear", {"e", "t"}, {"es"});
  model.node("DequantizeLinear", {"f", "es"}, {"n"}, whole);
  model.node("Gemm", {"x", "n"}, {"b"}, {{"transB", 1}});
  model.node("DequantizeLinear", {"f", "p"}, {"m"}, whole);
  model.node("Gemm", {"x", "m"}, {"c"}, {{"transB", 1}});
  model.node("QuantizeLinear", {"x", "s"}, {"q"}, halves);
  model.node("DequantizeLinear", {"q", "s"}, {"d"}, halves);
  models.push_back(model.proto);
}

void add_open_shapes(std::vector<onnx::ModelProto>& models) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2});
  model.output("y");
  model.node("Shape", {"x"}, {"shape"});
  model.node("ConstantOfShape", {"shape"}, {"zeros"});
  model.node("Add", {"x", "zeros"}, {"y"});
  models.push_back(model.proto);
}

}  // namespace

std::vector<onnx::ModelProto> onnx_seed_models() {
  std::vector<onnx::ModelProto> models;
  add_nodes(models);
  add_microsoft_nodes(models);
  add_microsoft_tables(models);
  add_qonnx_nodes(models);
  add_written_out_nodes(models);
  add_codes(models);
  add_narrow_codes(models);
  add_rounding(models);
  add_function(models);
  add_branches(models);
  add_loops(models);
  add_weights(models);
  add_blocks(models);
  add_open_shapes(models);
  return models;
}

}  // namespace detent
