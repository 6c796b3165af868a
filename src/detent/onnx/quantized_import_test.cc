#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"

// Networks of codes become networks of floats with quantizers, which compute the same codes.

namespace detent {
namespace {

using testing::HasSubstr;

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr const char* kMicrosoft = "com.microsoft";
constexpr const char* kQonnx = "qonnx.custom_op.general";

void add_domain(OnnxModelForTest& model, const char* domain) {
  auto& import = *model.proto.add_opset_import();
  import.set_domain(domain);
  import.set_version(1);
}

/// Scales are constants, of which quantizers are made, or inputs, with which the operators stay as they are.
class CodeModel : public OnnxModelForTest {
 public:
  explicit CodeModel(bool constant) : OnnxModelForTest(17), is_constant_(constant) {
    add_domain(*this, kMicrosoft);
  }

  void scale(const std::string& name, const Floats& values) {
    const Ints dims = values.size() == 1 ? Ints{} : Ints{std::ssize(values)};
    if (is_constant_) return constant(name, dims, values);
    input(name, dims);
    scales_.push_back(Tensor::from(Shape(dims.begin(), dims.end()), values));
  }
  void zero(const std::string& name, int value) {
    constant<uint8_t>(name, {}, {static_cast<uint8_t>(value)});
  }
  void integers(const std::string& name, const Floats& values) {
    onnx::TensorProto tensor = onnx_tensor<int8_t>(name, {std::ssize(values)}, {});
    tensor.set_data_type(onnx::TensorProto::INT32);
    for (const float value : values) tensor.add_int32_data(static_cast<int32_t>(value));
    *graph().add_initializer() = tensor;
  }
  void weight(const std::string& name, const Ints& dims) {
    int64_t count = 1;
    for (const int64_t size : dims) count *= size;
    std::vector<int8_t> values(static_cast<size_t>(count));
    std::uniform_int_distribution<int> codes(-128, 127);
    for (int8_t& value : values) value = static_cast<int8_t>(codes(random_));
    constant(name, dims, values);
  }
  void zeros(const std::string& name, int64_t count) {
    constant(name, count == 1 ? Ints{} : Ints{count}, std::vector<int8_t>(static_cast<size_t>(count), 0));
  }
  void own_node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                const std::vector<OnnxAttribute>& attributes = {}) {
    node(op, inputs, {output}, attributes).set_domain(kMicrosoft);
  }

  Graph import() const { return import_onnx(write(), {.shapes = {}, .frees_batch = false}); }
  Tensor result(const Tensor& x) const {
    std::vector<Tensor> inputs = {x};
    inputs.insert(inputs.end(), scales_.begin(), scales_.end());
    return IntegerExecutor().compile(import())->run(inputs).at(0);
  }

 private:
  bool is_constant_;
  std::vector<Tensor> scales_;
  std::mt19937 random_{5};
};

Tensor random_input(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(random);
  return tensor;
}

/// Convolutions with scales of channels and a border on one side, pooling and reshaping of codes, sums,
/// products, functions and layers.
void describe(CodeModel& model) {
  model.input("x", {3, 2, 7, 6});
  model.output("y");
  model.scale("s0", {0.031F});
  model.scale("s1", {0.17F});
  model.scale("s2", {0.21F});
  model.scale("s3", {0.0039F});
  model.scale("s4", {0.73F});
  model.scale("w0s", {0.011F, 0.007F, 0.02F, 0.013F});
  model.scale("w1s", {0.009F});
  model.scale("w2s", {0.01F, 0.02F, 0.015F, 0.004F, 0.017F});
  model.scale("w3s", {0.012F});
  model.zero("z0", 121);
  model.zero("z1", 100);
  model.zero("z3", 0);
  model.zero("z4", 140);
  model.weight("w0", {4, 2, 3, 3});
  model.weight("w1", {4, 1, 3, 3});
  model.zeros("w0z", 4);
  model.zeros("w1z", 1);
  model.zeros("w2z", 5);
  model.integers("b0", {700, -90, 12345, -4000});
  model.integers("b3", {50, -60, 700});
  model.node("QuantizeLinear", {"x", "s0", "z0"}, {"c0"});
  model.node("QLinearConv", {"c0", "s0", "z0", "w0", "w0s", "w0z", "s1", "z1", "b0"}, {"c1"},
             {{"pads", Ints{1, 1, 0, 1}}});
  model.node("QLinearConv", {"c1", "s1", "z1", "w1", "w1s", "w1z", "s2", "z1"}, {"c2"},
             {{"pads", Ints{1, 1, 1, 1}}, {"group", 4}});
  model.own_node("QLinearAdd", {"c1", "s1", "z1", "c2", "s2", "z1", "s2", "z1"}, "c3");
  model.node("MaxPool", {"c3"}, {"c4"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  model.own_node("QLinearSigmoid", {"c4", "s2", "z1", "s3", "z3"}, "c5");
  model.own_node("QLinearMul", {"c4", "s2", "z1", "c5", "s3", "z3", "s2", "z1"}, "c6");
  model.own_node("QLinearConcat", {"s2", "z1", "c4", "s2", "z1", "c6", "s2", "z1"}, "c7", {{"axis", 1}});
  model.own_node("QLinearLeakyRelu", {"c7", "s2", "z1", "s2", "z1"}, "c8", {{"alpha", 0.1F}});
  model.node("Transpose", {"c8"}, {"c9"}, {{"perm", Ints{0, 2, 3, 1}}});
  model.node("Flatten", {"c9"}, {"c10"});
  const int64_t features = int64_t{8} * 3 * 3;
  model.weight("w2", {features, 5});
  model.node("QLinearMatMul", {"c10", "s2", "z1", "w2", "w2s", "w2z", "s4", "z4"}, {"c11"});
  model.weight("w3", {3, 5});
  model.own_node("QGemm", {"c11", "s4", "z4", "w3", "w3s", "w1z", "b3", "s4", "z4"}, "c12", {{"transB", 1}});
  model.node("DequantizeLinear", {"c12", "s4", "z4"}, {"y"});
}

TEST(OnnxQuantizedImport, OperatorsOfCodesBecomeQuantizers) {
  CodeModel model(true);
  describe(model);
  const Graph graph = model.import();
  EXPECT_EQ(graph.requantization(), Requantization::kFloat);
  std::set<std::string> operators;
  for (const Node& node : graph.nodes()) operators.insert(node.op);
  for (const char* of_codes :
       {"quantize_linear", "dequantize_linear", "integer_convolution", "integer_matmul", "cast"})
    EXPECT_FALSE(operators.contains(of_codes)) << of_codes;
  for (const Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    for (const char* operand : {"data_in_0", "weight", "data_out_0"})
      EXPECT_NE(node.find_quantization(operand), nullptr) << node.name << " " << operand;
  }
}

TEST(OnnxQuantizedImport, GivesTheCodesOfTheOperators) {
  CodeModel constant(true);
  describe(constant);
  CodeModel of_inputs(false);
  describe(of_inputs);
  const Tensor x = random_input({3, 2, 7, 6});
  const Tensor expected = of_inputs.result(x);
  EXPECT_TRUE(constant.result(x).equals(expected));
  EXPECT_TRUE(IntegerProgram(constant.import()).run(std::span(&x, 1)).at(0).equals(expected));
  const auto values = expected.values<float>();
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 4) << "the test data do not saturate";
}

TEST(OnnxQuantizedImport, BordersOnOneSideAreCodesToo) {
  CodeModel model(true);
  model.input("x", {1, 2, 5, 5});
  model.output("y");
  model.scale("s", {0.05F});
  model.zero("z", 7);
  model.scale("ws", {0.01F});
  model.zeros("wz", 1);
  model.weight("w", {3, 2, 2, 2});
  model.node("QuantizeLinear", {"x", "s", "z"}, {"c"});
  model.node("DequantizeLinear", {"c", "s", "z"}, {"v"});
  model.node("DequantizeLinear", {"w", "ws", "wz"}, {"weight"});
  model.node("Conv", {"v", "weight"}, {"sums"}, {{"pads", Ints{1, 0, 0, 1}}});
  model.node("QuantizeLinear", {"sums", "s", "z"}, {"d"});
  model.node("DequantizeLinear", {"d", "s", "z"}, {"y"});
  const Graph graph = model.import();
  const Tensor x = random_input({1, 2, 5, 5});
  const Tensor codes = IntegerProgram(graph).run(std::span(&x, 1)).at(0);
  EXPECT_TRUE(codes.equals(model.result(x)));
}

TEST(OnnxQuantizedImport, CodesThatLeaveTheNetworkAreThose) {
  std::vector<Tensor> results;
  for (const bool constant : {true, false}) {
    CodeModel model(constant);
    describe(model);
    model.output("c3", {3, 4, 6, 6}, onnx::TensorProto::UINT8);
    model.graph().mutable_output()->SwapElements(0, 1);
    results.push_back(model.result(random_input({3, 2, 7, 6})));
    EXPECT_EQ(results.back().dtype(), DType::kUInt8);
  }
  EXPECT_TRUE(results[0].equals(results[1]));
}

/// A network whose input and outputs are codes: of borders, of a product of two computed matrices, of a sum
/// with one number.
template <class Code>
void describe_codes(CodeModel& model, onnx::TensorProto::DataType type, Code zero) {
  model.input("x", {1, 9, 9, 18}, type);
  model.output("y", {1, 9, 10, 10}, type);
  model.output("means", {1, 9, 1, 1}, type);
  model.output("largest", {1, 9, 4, 9}, type);
  for (const auto& [name, value] : {std::pair("s0", 0.04F), {"s1", 0.05F}, {"s2", 0.9F}, {"s3", 1.3F}})
    model.scale(name, {value});
  model.constant<Code>("z", {}, {zero});
  model.constant<Code>("one", {}, {static_cast<Code>(zero + 3)});
  model.constant("pads", {8}, Ints{0, 0, 1, 0, 0, 0, 0, 0});
  model.own_node("QLinearLeakyRelu", {"x", "s0", "z", "s1", "z"}, "c1", {{"alpha", 0.3F}});
  model.node("Pad", {"c1", "pads", "one"}, {"c2"});
  model.node("Transpose", {"c2"}, {"c3"}, {{"perm", Ints{0, 1, 3, 2}}});
  model.node("QLinearMatMul", {"c2", "s1", "z", "c3", "s1", "z", "s2", "z"}, {"c4"});
  model.own_node("QLinearAdd", {"c4", "s2", "z", "one", "s0", "z", "s3", "z"}, "y");
  model.own_node("QLinearGlobalAveragePool", {"x", "s0", "z", "s1", "z"}, "means");
  model.node("MaxPool", {"c1"}, {"largest"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
}

template <class Code>
void expect_codes(onnx::TensorProto::DataType type, Code zero) {
  std::vector<Code> codes(size_t{9} * 9 * 18);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<Code>(i * 37);
  std::vector<Tensor> inputs = {Tensor::from({1, 9, 9, 18}, codes)};
  CodeModel constant(true);
  describe_codes(constant, type, zero);
  const Graph graph = import_onnx(constant.write());
  const std::vector<Tensor> results = FastExecutor().compile(graph)->run(inputs);
  const std::vector<Tensor> reference = IntegerExecutor().compile(graph)->run(inputs);
  CodeModel of_inputs(false);
  describe_codes(of_inputs, type, zero);
  for (const float scale : {0.04F, 0.05F, 0.9F, 1.3F}) inputs.push_back(Tensor::from({}, Floats{scale}));
  const std::vector<Tensor> expected = IntegerExecutor().compile(import_onnx(of_inputs.write()))->run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(results.at(i).equals(expected[i])) << i;
    EXPECT_TRUE(reference.at(i).equals(expected[i])) << i;
  }
  const auto is_product = [](const Node& node) { return node.op == "integer_matmul"; };
  EXPECT_TRUE(std::ranges::none_of(graph.nodes(), is_product));
}

TEST(OnnxQuantizedImport, CodesEnterAndLeave) {
  expect_codes<uint8_t>(onnx::TensorProto::UINT8, 118);
  expect_codes<int8_t>(onnx::TensorProto::INT8, -7);
}

TEST(OnnxQuantizedImport, KeepsOperatorsWhoseBiasFloatsDoNotHold) {
  CodeModel model(true);
  model.input("x", {1, 3});
  model.output("y");
  model.scale("s", {0.1F});
  model.zero("z", 128);
  model.weight("w", {3, 2});
  model.zeros("wz", 1);
  model.integers("b", {1 << 30, 3});
  model.integers("c", {1, 3});
  for (const char* bias : {"b", "c"}) {
    CodeModel of_bias(true);
    of_bias.proto = model.proto;
    of_bias.node("QuantizeLinear", {"x", "s", "z"}, {"codes"});
    of_bias.own_node("QGemm", {"codes", "s", "z", "w", "s", "wz", bias}, "y");
    // 2^30 + 1 has no float; 2^30 has.
    if (bias[0] == 'b') of_bias.graph().mutable_initializer(4)->set_int32_data(0, (1 << 30) + 1);
    const Graph graph = of_bias.import();
    const bool is_layer = std::ranges::any_of(graph.nodes(), [](const Node& n) { return n.op == "linear"; });
    EXPECT_EQ(is_layer, bias[0] == 'c');
  }
}

/// A layer as quantizers for ranges of the data write it, then a convolution likewise.
void describe_dynamic(CodeModel& model) {
  model.input("x", {2, 3, 5, 4});
  model.output("y");
  model.weight("w0", {4, 3, 2, 2});
  model.weight("w1", {4, 6});
  model.zeros("w0z", 1);
  model.zeros("w1z", 1);
  model.scale("w0s", {0.01F});
  model.scale("w1s", {0.02F});
  model.constant<float>("b", {6}, {1, 2, 3, 4, 5, 6});
  const auto quantize = [&](const std::string& x) {
    model.node("DynamicQuantizeLinear", {x}, {x + "_codes", x + "_scale", x + "_zero"});
  };
  quantize("x");
  model.node("ConvInteger", {"x_codes", "w0", "x_zero", "w0z"}, {"sums0"}, {{"strides", Ints{1, 2}}});
  model.node("Cast", {"sums0"}, {"floats0"}, {{"to", 1}});
  model.node("Mul", {"x_scale", "w0s"}, {"unit0"});
  model.node("Mul", {"unit0", "floats0"}, {"image"});
  model.node("Transpose", {"image"}, {"a"}, {{"perm", Ints{0, 2, 3, 1}}});
  quantize("a");
  model.node("MatMulInteger", {"a_codes", "w1", "a_zero", "w1z"}, {"sums1"});
  model.node("Cast", {"sums1"}, {"floats1"}, {{"to", 1}});
  model.node("Mul", {"a_scale", "w1s"}, {"unit1"});
  model.node("Mul", {"floats1", "unit1"}, {"product"});
  model.node("Add", {"product", "b"}, {"y"});
}

TEST(OnnxQuantizedImport, ScalesThatFollowFromTheDataBecomeQuantizersThatDeriveThem) {
  CodeModel constant(true);
  describe_dynamic(constant);
  CodeModel of_inputs(false);
  describe_dynamic(of_inputs);
  const Graph graph = constant.import();
  std::vector<std::string> operators;
  for (const Node& node : graph.nodes()) {
    operators.push_back(node.op);
    if (is_weighted_sum(node)) {
      EXPECT_EQ(quant_spec_text(node.find_quantizer("data_in_0")->spec),
                quant_spec_text(parse_quant_spec_text("affine:width=8,signed=false")));
    }
  }
  EXPECT_THAT(operators, testing::ElementsAre("placeholder", "conv2d", "permute", "linear", "output"));
  const Tensor x = random_input({2, 3, 5, 4});
  const Tensor expected = of_inputs.result(x);
  const Tensor actual = constant.result(x);
  for (size_t i = 0; i < expected.values<float>().size(); ++i)
    EXPECT_NEAR(expected.values<float>()[i], actual.values<float>()[i], 1e-3) << i;
}

/// Output of one QONNX node after the input.
Floats rounded(const char* op, const Floats& x, const std::vector<Floats>& parameters,
               const std::vector<OnnxAttribute>& attributes) {
  OnnxModelForTest model(17);
  add_domain(model, kQonnx);
  model.input("x", {std::ssize(x)});
  model.output("y");
  std::vector<std::string> inputs = {"x"};
  for (const Floats& parameter : parameters) {
    inputs.push_back(fmt::format("p{}", inputs.size()));
    model.constant(inputs.back(), parameter.size() == 1 ? Ints{} : Ints{std::ssize(parameter)}, parameter);
  }
  model.node(op, inputs, {"y"}, attributes).set_domain(kQonnx);
  const Tensor input = Tensor::from({std::ssize(x)}, x);
  const Tensor y = IntegerExecutor().compile(import_onnx(model.write()))->run(std::span(&input, 1)).at(0);
  const auto values = y.values<float>();
  return {values.begin(), values.end()};
}

TEST(OnnxQuantizedImport, QuantRoundsInEveryMode) {
  const Floats x = {-9, -0.625F, -0.375F, -0.3F, 0.125F, 0.3F, 0.375F, 0.625F, 9};
  const auto quant = [&](const char* mode) {
    return rounded("Quant", x, {{0.25}, {0}, {4}}, {{"signed", 1}, {"narrow", 0}, {"rounding_mode", mode}});
  };
  const Floats nearest = {-2, -0.5, -0.5, -0.25, 0, 0.25, 0.5, 0.5, 1.75};
  EXPECT_EQ(quant("ROUND"), nearest);
  EXPECT_EQ(quant("half_even"), nearest);
  EXPECT_EQ(quant("FLOOR"), (Floats{-2, -0.75, -0.5, -0.5, 0, 0.25, 0.25, 0.5, 1.75}));
  EXPECT_EQ(quant("CEIL"), (Floats{-2, -0.5, -0.25, -0.25, 0.25, 0.5, 0.5, 0.75, 1.75}));
  EXPECT_EQ(quant("DOWN"), (Floats{-2, -0.5, -0.25, -0.25, 0, 0.25, 0.25, 0.5, 1.75}));
  EXPECT_EQ(quant("UP"), (Floats{-2, -0.75, -0.5, -0.5, 0.25, 0.5, 0.5, 0.75, 1.75}));
  EXPECT_EQ(quant("HALF_UP"), (Floats{-2, -0.75, -0.5, -0.25, 0.25, 0.25, 0.5, 0.75, 1.75}));
  EXPECT_EQ(quant("HALF_DOWN"), (Floats{-2, -0.5, -0.25, -0.25, 0, 0.25, 0.25, 0.5, 1.75}));
  EXPECT_THROW(quant("SIDEWAYS"), Error);
}

TEST(OnnxQuantizedImport, QuantOfOneBitAndOfNarrowRanges) {
  const Floats x = {-3, -0.1F, 0, 0.2F, 9};
  const auto quant = [&](float zero, float bits, int is_signed, int narrow) {
    return rounded("Quant", x, {{0.5}, {zero}, {bits}}, {{"signed", is_signed}, {"narrow", narrow}});
  };
  EXPECT_EQ(quant(0, 1, 1, 0), (Floats{-0.5, -0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(quant(0, 1, 0, 0), (Floats{0, 0, 0, 0, 0.5}));
  EXPECT_EQ(quant(0, 3, 1, 1), (Floats{-1.5, 0, 0, 0, 1.5}));
  EXPECT_EQ(quant(0, 3, 0, 1), (Floats{0, 0, 0, 0, 3}));  // codes 0 to 6
  EXPECT_EQ(quant(2, 3, 0, 0), (Floats{-1, 0, 0, 0, 2.5}));
  EXPECT_EQ(quant(0.5, 3, 0, 0), (Floats{-0.25, -0.25, -0.25, 0.25, 3.25}));  // no integer: in steps
}

TEST(OnnxQuantizedImport, TruncCutsLowBitsOff) {
  const Floats x = {-2, -1.25, -0.25, 0, 0.75, 1, 1.75};
  // As the first version has it: the scale stays, of 4 bits become 2.
  EXPECT_EQ(rounded("Trunc", x, {{0.25}, {0}, {4}, {2}}, {{"rounding_mode", "FLOOR"}}),
            (Floats{-0.5, -0.5, -0.25, 0, 0, 0.25, 0.25}));
  EXPECT_EQ(rounded("Trunc", x, {{0.25}, {0}, {4}, {2}}, {{"rounding_mode", "ROUND"}}),
            (Floats{-0.5, -0.25, 0, 0, 0.25, 0.25, 0.5}));
  // As the second one has it: with a scale of the result, here of four steps, and its bits.
  EXPECT_EQ(rounded("Trunc", x, {{0.25}, {0}, {4}, {1}, {0}, {2}}, {{"signed", 1}, {"narrow", 0}}),
            (Floats{-2, -2, -1, 0, 0, 1, 1}));
}

/// quantize_static gives such a scale to a sum with a mask of -inf.
TEST(OnnxQuantizedImport, InfiniteScalesAreRefused) {
  OnnxModelForTest model(17);
  model.input("x", {3});
  model.output("y");
  model.constant<float>("scale", {}, {HUGE_VALF});
  model.node("QuantizeLinear", {"x", "scale"}, {"q"});
  model.node("DequantizeLinear", {"q", "scale"}, {"y"});
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("the scale \"scale\" is infinite or NaN, so its codes stand for no numbers"));
}

/// Brevitas leaves biases in float.
TEST(OnnxQuantizedImport, BiasesThatTheStepsOfSumsRoundAreNamed) {
  for (const float bias : {0.5F, 0.3F}) {
    OnnxModelForTest model(17);
    model.input("x", {2, 3});
    model.output("y");
    model.constant<float>("half", {}, {0.5F});
    model.constant<int8_t>("w", {1, 3}, {1, 2, 3});
    model.constant<int8_t>("zero", {}, {0});
    model.constant<float>("bias", {1}, {bias});
    model.node("QuantizeLinear", {"x", "half", "zero"}, {"q"});
    model.node("DequantizeLinear", {"q", "half", "zero"}, {"xq"});
    model.node("DequantizeLinear", {"w", "half", "zero"}, {"wq"});
    model.node("Gemm", {"xq", "wq", "bias"}, {"y"}, {{"transB", 1}});
    set_up_logging("warning");
    testing::internal::CaptureStderr();
    import_onnx(model.write());
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("biases of y_node are not quantized in the file") !=
                  std::string::npos,
              bias == 0.3F);
  }
}

}  // namespace
}  // namespace detent
