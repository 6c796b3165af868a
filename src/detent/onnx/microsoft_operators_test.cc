#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/elements/affine.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Operators of ONNX Runtime's domain; expected are the numbers that ONNX Runtime 1.32 gives.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

const char* const kMicrosoftDomain = "com.microsoft";
constexpr auto kOnnxInt32 = onnx::TensorProto::INT32;
constexpr auto kOnnxUint8 = onnx::TensorProto::UINT8;

/// A model of one node whose inputs come from runs or from numbers that look random.
class Microsoft : public testing::Test {
 protected:
  void input(const std::string& name, const Tensor& tensor,
             onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    model.input(name, {tensor.shape().begin(), tensor.shape().end()}, type);
    inputs.push_back(tensor);
  }
  void integers(const std::string& name, const Shape& shape, const std::vector<int32_t>& values) {
    input(name, Tensor::from(shape, values), kOnnxInt32);
  }
  void constant(const std::string& name, const Shape& shape, int seed) {
    const Tensor tensor = varied_numbers(shape, seed);
    model.constant(name, {shape.begin(), shape.end()},
                   Floats(tensor.values<float>().begin(), tensor.values<float>().end()));
  }
  void node(const std::string& op, const std::vector<std::string>& names,
            const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes = {}) {
    for (const std::string& output : outputs)
      if (!output.empty()) model.output(output);
    model.node(op, names, outputs, attributes).set_domain(kMicrosoftDomain);
  }
  Graph graph() const { return import_onnx(model.write(), {.shapes = {}, .frees_batch = false}); }
  std::vector<Tensor> run() const { return IntegerExecutor().compile(graph())->run(inputs); }

  OnnxModelForTest model{21};
  std::vector<Tensor> inputs;
};

/// The only node of the operator.
const Node& only(const Graph& graph, std::string_view op) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes()) {
    if (node.op != op) continue;
    EXPECT_EQ(found, nullptr) << op;
    found = &node;
  }
  if (found == nullptr) fail("no {}", op);
  return *found;
}

TEST_F(Microsoft, AttentionSeesItsPastAndWhatTheMaskLeaves) {
  input("x", varied_numbers({1, 2, 4}, 1));
  integers("mask", {1, 3}, {1, 0, 1});
  input("past", varied_numbers({2, 1, 2, 1, 2}, 2));
  constant("w", {4, 12}, 3);
  constant("b", {12}, 4);
  node("Attention", {"x", "w", "b", "mask", "past"}, {"y", "present"},
       {{"num_heads", 2}, {"unidirectional", 1}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {0.045587301, -0.38539684, 0.1702857, 0.1126349, -0.25511533, -0.33218041,
                              0.26506585, 0.01148752});
  expect_near(results.at(1), {-0.36380953, -0.74146032, -0.87424469,  0.51020646,  -0.44733343, 1.6134186,
                              0.26755559,  -0.93676192, -1.0274467,   0.41339207,  0.71458709,  0.37688303,
                              0.045587301, -0.38539684, -0.036203682, -0.61379594, -1.792125,   -0.060170218,
                              0.1702857,   0.1126349,   1.092196,     0.11735319,  0.78260076,  -0.54081488});
}

TEST_F(Microsoft, AttentionHasLayersForQueriesKeysAndValues) {
  input("x", varied_numbers({2, 3, 4}, 1));
  integers("mask", {4}, {2, 3, 1, 0});  // ends and beginnings
  constant("w", {4, 10}, 3);
  constant("b", {10}, 4);
  node("Attention", {"x", "w", "b", "mask"}, {"y"},
       {{"num_heads", 2}, {"qkv_hidden_sizes", Ints{4, 4, 2}}, {"scale", 0.5F}});
  expect_near(run().at(0), {-0.97919118, -0.6321221, -0.97919118, -0.6321221, -0.97919118, -0.6321221,
                            -0.89673108, 0.046154719, -0.96378839, 0.005219318, -0.82338583, -0.037837844});
  std::vector<Shape> weights;
  const Graph network = graph();
  for (const Node& layer : network.nodes())
    if (layer.op == "linear") weights.push_back(layer.find_parameter("weight")->tensor.shape());
  EXPECT_THAT(weights, testing::ElementsAre(Shape{4, 4}, Shape{4, 4}, Shape{2, 4}));
}

TEST_F(Microsoft, AttentionRefusesWhatDoesNotFit) {
  input("x", varied_numbers({1, 2, 4}, 1));
  constant("w", {4, 12}, 3);
  constant("b", {11}, 4);
  node("Attention", {"x", "w", "b"}, {"y"}, {{"num_heads", 2}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("a bias of shape [11] for 12 columns"));
  model.graph().mutable_node(0)->mutable_input()->RemoveLast();
  OnnxAttribute("qkv_hidden_sizes", Ints{4, 4, 5}).write(*model.graph().mutable_node(0)->add_attribute());
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("12 columns for queries, keys and values of 4, 4, 5"));
}

TEST_F(Microsoft, MultiHeadAttentionAddsItsBiases) {
  input("q", varied_numbers({1, 2, 4}, 1));
  input("k", varied_numbers({1, 3, 4}, 2));
  input("v", varied_numbers({1, 3, 4}, 3));
  integers("mask", {1}, {2});
  input("bias", varied_numbers({1, 2, 2, 3}, 5));
  constant("b", {12}, 4);
  node("MultiHeadAttention", {"q", "k", "v", "b", "mask", "bias"}, {"y"}, {{"num_heads", 2}});
  expect_near(run().at(0), {-0.46739903, 0.15447463, 1.336444, 0.011594879, -0.70369798, 0.15935567, 1.232947,
                            -0.063664421});
}

TEST_F(Microsoft, GroupedAttentionKeepsACacheOfEachSample) {
  input("q", varied_numbers({2, 1, 64}, 1));
  input("pk", varied_numbers({2, 1, 2, 16}, 2));
  input("pv", varied_numbers({2, 1, 2, 16}, 3));
  integers("last", {2}, {2, 1});
  integers("whole", {}, {3});
  constant("cos", {4, 8}, 4);
  constant("sin", {4, 8}, 5);
  node(
      "GroupQueryAttention", {"q", "", "", "pk", "pv", "last", "whole", "cos", "sin"},
      {"y", "keys", "values"},
      {{"num_heads", 2}, {"kv_num_heads", 1}, {"do_rotary", 1}, {"local_window_size", 2}, {"softcap", 1.5F}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0),
              {0.3528145,   0.12064618,   0.11493149,   -0.36379692,  0.18392828,   0.15810701,  -0.041260839,
               -0.21310937, -0.65903729,  0.82202125,   -0.27046672,  -0.63596833,  0.1255165,   0.61292195,
               0.1267809,   0.86815917,   0.29489434,   0.12009977,   0.08979632,   -0.29057708, 0.27354059,
               0.18214932,  -0.16475098,  -0.15628205,  -0.70876116,  0.78868985,   -0.36936811, -0.67749596,
               0.26430625,  0.64516056,   -0.029494226, 0.85122025,   -0.038125634, -0.4112061,  -0.32597026,
               -0.60879278, -0.086048469, 0.095012173,  -0.11836031,  -0.3261658,   0.32434493,  -0.21957733,
               -0.33155808, -0.38522255,  -0.43332005,  -0.075850591, -0.46006495,  0.36128768,  -0.34005475,
               -0.16581351, -0.16478099,  -0.63706106,  0.11724246,   -0.10166277,  -0.29398438, -0.059722364,
               0.40133083,  0.088967741,  0.10329205,   -0.45559245,  -0.58789331,  0.10638949,  -0.57253653,
               0.37512106});
  expect_near(results.at(1), {-0.36380953,
                              -0.74146032,
                              0.26755559,
                              -0.93676192,
                              0.045587301,
                              -0.38539684,
                              0.1702857,
                              0.1126349,
                              -0.15834922,
                              -0.24266666,
                              0.25968254,
                              -0.25130159,
                              0.62438095,
                              -0.71326983,
                              0.135746,
                              -0.4285714,
                              -0.0062222481,
                              -0.19720638,
                              -0.60152382,
                              -0.81917459,
                              -0.45015872,
                              0.90552378,
                              -0.35212696,
                              0.17688894,
                              0.89257145,
                              0.19492066,
                              0.48393655,
                              0.15961909,
                              -0.37803173,
                              -0.72901589,
                              -0.49333334,
                              0.72901583,
                              0.41330108,
                              -0.26066193,
                              -0.46651068,
                              0.39004043,
                              0.13375367,
                              -0.76933956,
                              0.36190373,
                              -0.047881547,
                              0.28597713,
                              -0.55637807,
                              -0.74124002,
                              -0.10730811,
                              0.22991772,
                              -0.17570332,
                              0.13180843,
                              -0.64220864,
                              -0.66196823,
                              -0.26628572,
                              0.31606352,
                              -0.51492059,
                              -0.35923809,
                              -0.81688887,
                              0.51212704,
                              0.027809501,
                              0.13015878,
                              -0.78082538,
                              -0.30514288,
                              -0.042793632,
                              0.40622222,
                              -0.55809522,
                              -0.53574604,
                              0.8732698,
                              0.13841271,
                              0.067664884,
                              0.34114566,
                              -0.0006371222,
                              -0.16428658,
                              -0.10383431,
                              0.33792582,
                              -0.98122841,
                              0.65744239,
                              0.46426219,
                              0.0080828387,
                              0.083296508,
                              0.20825756,
                              0.047758285,
                              0.87106103,
                              0.14948505,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0,
                              0});
}

/// Values of an open width have that of the queries' heads.
TEST_F(Microsoft, GroupedAttentionTakesHeadsOfOneSize) {
  input("q", varied_numbers({2, 1, 64}, 1));
  input("k", varied_numbers({2, 1, 32}, 2));
  input("v", varied_numbers({2, 1, 48}, 3));
  integers("last", {2}, {0, 0});
  integers("whole", {}, {1});
  node("GroupQueryAttention", {"q", "k", "v", "", "", "last", "whole"}, {"y"},
       {{"num_heads", 2}, {"kv_num_heads", 1}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("value has size 48 in dimension 2, expected 32"));
}

/// As exporters leave a size open that only one fits.
TEST_F(Microsoft, GroupedAttentionFixesTheWidthOfItsValues) {
  input("q", varied_numbers({2, 1, 64}, 1));
  input("k", varied_numbers({2, 1, 32}, 2));
  model.input("v", {2, 1, -1});
  integers("last", {2}, {0, 0});
  integers("whole", {}, {1});
  node("GroupQueryAttention", {"q", "k", "v", "", "", "last", "whole"}, {"y"},
       {{"num_heads", 2}, {"kv_num_heads", 1}});
  EXPECT_EQ(tensor_type_text(graph().input_types().at("v")), "float32 [2, 1, 32]");
}

/// Other open sizes stay open.
TEST_F(Microsoft, GroupedAttentionFixesTheWidthOfItsCache) {
  model.input("q", {-1, -2, 64});
  model.input("k", {-1, -2, 32});
  model.input("v", {-1, -2, 32});
  for (const char* cache : {"keys", "values"}) model.input(cache, {-1, 2, -3, -5});
  model.input("last", {-1}, kOnnxInt32);
  model.input("whole", {}, kOnnxInt32);
  node("GroupQueryAttention", {"q", "k", "v", "keys", "values", "last", "whole"}, {"y"},
       {{"num_heads", 4}, {"kv_num_heads", 2}});
  const Graph attention = graph();
  EXPECT_EQ(tensor_type_text(attention.input_types().at("keys")), "float32 [N, 2, open3, 16]");
  EXPECT_EQ(tensor_type_text(attention.input_types().at("q")), "float32 [N, open2, 64]");
}

TEST_F(Microsoft, GroupedAttentionRefusesAQuantizedCache) {
  input("q", varied_numbers({2, 1, 64}, 1));
  integers("last", {2}, {0, 0});
  integers("whole", {}, {1});
  node("GroupQueryAttention", {"q", "", "", "", "", "last", "whole"}, {"y"},
       {{"num_heads", 2}, {"kv_num_heads", 1}, {"k_quant_type", "PER_TENSOR"}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("k_quant_type PER_TENSOR, which is not supported"));
}

TEST_F(Microsoft, RotaryEmbeddingCountsFromAPlace) {
  input("x", varied_numbers({1, 2, 8}, 1));
  input("places", Tensor::from({1}, Ints{1}), kOnnxInt64);
  constant("cos", {3, 2}, 2);
  constant("sin", {3, 2}, 3);
  node("RotaryEmbedding", {"x", "places", "cos", "sin"}, {"y"}, {{"interleaved", 1}});
  expect_near(run().at(0), {-0.36791286, -0.39945337, 0.47156453, 0.021977141, -1.0930386, -0.22135843,
                            -0.83320481, -0.62384832, -0.39615884, 0.078617021, 0.4367153, -0.10513474,
                            -0.53702557, 0.53031045, -0.17184582, 0.18869221});
}

TEST_F(Microsoft, SkipNormsNormalizeSums) {
  input("x", varied_numbers({1, 2, 4}, 1));
  input("s", varied_numbers({1, 2, 4}, 2));
  constant("g", {4}, 3);
  constant("b", {4}, 4);
  constant("add", {4}, 5);
  node("SkipLayerNormalization", {"x", "s", "g", "b", "add"}, {"y", "", "", "sum"}, {{"epsilon", 1e-5F}});
  node("SkipSimplifiedLayerNormalization", {"x", "s", "g"}, {"z"}, {{"epsilon", 1e-5F}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {0.22218966, -0.6465106, 1.0395796, -0.5259493, 0.26511207, -0.69659108,
                              0.17563576, -0.17029455});
  expect_near(results.at(1), {-0.87758732, -0.19720626, 0.24317461, -0.35644448, -0.48546028, 0.88825405,
                              1.2219682, 1.7156825});
  expect_near(results.at(2), {0.28984886, -0.18267417, -0.24726315, -0.43170103, 0.15623379, 0.22032006,
                              1.0777171, 0.38758075});
  const Graph network = graph();
  EXPECT_NE(only(network, "layer_norm").find_parameter("bias"), nullptr);
  EXPECT_NE(only(network, "rms_norm").find_parameter("weight"), nullptr);
}

TEST_F(Microsoft, SkipNormsTakeTheBiasOfTheLayerBefore) {
  input("x", varied_numbers({1, 2, 4}, 1));
  constant("w", {4, 4}, 2);
  constant("g", {4}, 3);
  constant("b", {4}, 4);
  model.node("MatMul", {"x", "w"}, {"product"});
  node("SkipLayerNormalization", {"product", "x", "g", "", "b"}, {"y"});
  EXPECT_NE(only(graph(), "linear").find_parameter("bias"), nullptr);
}

TEST_F(Microsoft, EmbedLayerNormalizationSumsEmbeddings) {
  integers("ids", {2, 2}, {2, 0, 1, 1});
  integers("segments", {2, 2}, {0, 1, 1, 0});
  integers("mask", {2, 2}, {1, 0, 1, 1});
  constant("we", {3, 4}, 1);
  constant("pe", {3, 4}, 2);
  constant("se", {2, 4}, 3);
  constant("g", {4}, 4);
  constant("b", {4}, 5);
  node("EmbedLayerNormalization", {"ids", "segments", "we", "pe", "se", "g", "b", "mask"}, {"y", "lengths"},
       {{"epsilon", 1e-5F}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {0.039762683, -0.3040731, 0.11714849, 1.400008, -0.19976071, -0.37307334,
                              0.67257422, 1.2991762, 0.039762683, -0.30407315, 0.11714852, 1.400008,
                              0.20003338, 0.25315526, 0.11922115, 0.50374758});
  EXPECT_TRUE(results.at(1).equals(Tensor::from({2}, std::vector<int32_t>{1, 2})));
}

TEST_F(Microsoft, FusedLayersAreLayersWithWhatFollowsThem) {
  input("x", varied_numbers({1, 1, 3, 3}, 1));
  input("z", varied_numbers({1, 2, 2, 2}, 4));
  input("a", varied_numbers({2, 3}, 1));
  constant("w", {2, 1, 2, 2}, 2);
  constant("b", {2}, 3);
  constant("v", {2, 3}, 2);
  node("FusedConv", {"x", "w", "b", "z"}, {"y"},
       {{"activation", "LeakyRelu"}, {"activation_params", Floats{0.25F}}, {"kernel_shape", Ints{2, 2}}});
  node(
      "FusedGemm", {"a", "v", "b"}, {"u"},
      {{"activation", "HardSigmoid"}, {"activation_alpha", 0.5F}, {"activation_beta", 0.25F}, {"transB", 1}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {-0.000969477, -0.44198328, -0.19134545, -0.28277957, -0.20345321, 1.3795197,
                              -0.020056307, 0.64963043});
  expect_near(results.at(1), {0.055811375, 0.69936216, 0.46259281, 0.26385042});
  const Graph network = graph();
  EXPECT_NE(only(network, "conv2d").find_parameter("bias"), nullptr);
  EXPECT_NE(only(network, "linear").find_parameter("bias"), nullptr);
}

TEST_F(Microsoft, FusedLayersNameActivationsThatAreNotKnown) {
  input("a", varied_numbers({2, 3}, 1));
  constant("v", {3, 3}, 2);
  node("FusedGemm", {"a", "v"}, {"u"}, {{"activation", "Cube"}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("the activation \"Cube\" with 0 numbers, which is not"));
}

TEST_F(Microsoft, FusedMatMulTransposesBatches) {
  input("a", varied_numbers({2, 2, 3}, 1));
  input("b", varied_numbers({2, 2, 3}, 2));
  node("FusedMatMul", {"a", "b"}, {"y"}, {{"transBatchA", 1}, {"transB", 1}, {"alpha", 0.5F}});
  expect_near(run().at(0), {-0.065744191, 0.31329867, -0.42097887, -0.28807652, -0.11856303, -0.16593015,
                            0.033565693, -0.1607724});
}

TEST_F(Microsoft, MatMulOfFewBitsKeepsTheScalesOfItsBlocks) {
  input("x", varied_numbers({1, 20}, 1));
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<uint8_t>(7 * i + 3));
  model.constant("w", {2, 2, 8}, bytes);
  model.constant<float>("s", {2, 2}, {0.5, 0.25, 1, 2});
  model.constant<uint8_t>("z", {2, 1}, {0x97, 0x38});
  node("MatMulNBits", {"x", "w", "s", "z"}, {"y"}, {{"K", 20}, {"N", 2}, {"bits", 4}, {"block_size", 16}});
  expect_near(run().at(0), {-4.0520635, -23.93219});
  const Graph network = graph();
  const QuantSpec& spec = only(network, "linear").find_quantizer("weight")->spec;
  EXPECT_EQ(spec.granularity, Granularity::kGroup);
  EXPECT_EQ(spec.group_size, 16);
  const auto& affine = std::get<Affine>(spec.format);
  EXPECT_EQ(affine.width, 4);
  EXPECT_EQ(affine.scale, (Floats{0.5, 0.25, 1, 2}));
  EXPECT_EQ(affine.zero_point, (std::vector<int>{7, 9, 8, 3}));
  const Tensor& weight = only(network, "linear").find_parameter("weight")->tensor;
  EXPECT_TRUE(fake_quantize(spec, weight).equals(weight));
}

/// Codes of 3 bits lie densely: 0, 1, ..., 7 from the lowest bit on are the bytes 88 c6 fa.
TEST_F(Microsoft, MatMulOfThreeBitsReadsAcrossBytes) {
  input("x", Tensor::from({1, 16}, std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16}));
  model.constant<uint8_t>("w", {1, 1, 6}, {0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA});
  model.constant<float>("s", {1, 1}, {0.5});
  node("MatMulNBits", {"x", "w", "s"}, {"y"}, {{"K", 16}, {"N", 1}, {"bits", 3}, {"block_size", 16}});
  expect_near(run().at(0), {0.5F * (1 - 4) + 16 * 0.5F * (7 - 4)});
  const Graph network = graph();
  const Tensor& weight = only(network, "linear").find_parameter("weight")->tensor;
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(weight.values<float>()[static_cast<size_t>(i)], 0.5F * static_cast<float>(i % 8 - 4));
}

TEST_F(Microsoft, MatMulOfFewBitsNeedsAllBytes) {
  input("x", varied_numbers({1, 20}, 1));
  model.constant<uint8_t>("w", {1, 2, 8}, std::vector<uint8_t>(16, 1));
  model.constant<float>("s", {2, 2}, {0.5, 0.25, 1, 2});
  node("MatMulNBits", {"x", "w", "s"}, {"y"}, {{"K", 20}, {"N", 2}, {"bits", 4}, {"block_size", 16}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("16 bytes for 2 rows of 2 blocks of 16 codes of 4 bits"));
}

TEST_F(Microsoft, GatherOfBlocksIsAnEmbedding) {
  input("i", Tensor::from({2}, Ints{1, 0}), kOnnxInt64);
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 16; ++i) bytes.push_back(static_cast<uint8_t>(13 * i + 5));
  model.constant("w", {2, 8}, bytes);
  model.constant<float>("s", {2, 1}, {0.5, 0.25});
  node("GatherBlockQuantized", {"w", "i", "s"}, {"y"},
       {{"bits", 4}, {"block_size", 16}, {"quantize_axis", 1}, {"gather_axis", 0}});
  expect_near(run().at(0),
              {1.25, -0.5, 0.5, -0.25, -0.25, 0,    -1, 0.25, -1.75, 0.5,  1.5, 0.5, 0.75, 0.75, 0,  1,
               -1.5, -4,   -3,  -3.5,  3.5,   -3.5, 2,  -3,   0.5,   -2.5, -1,  -2,  -2.5, -1.5, -4, -1});
  EXPECT_NE(only(graph(), "embedding").find_quantizer("weight"), nullptr);
}

TEST_F(Microsoft, DynamicMatMulIsALayerThatQuantizesItsInput) {
  input("x", varied_numbers({2, 3}, 1));
  model.constant<int8_t>("w", {3, 2}, {1, -2, 30, 4, -5, 60});
  model.constant<float>("s", {2}, {0.25, 0.5});
  constant("b", {2}, 2);
  node("DynamicQuantizeMatMul", {"x", "w", "s", "", "b"}, {"y"});
  expect_near(run().at(0), {1.9343724, -13.369276, -5.2798834, 27.69693});
  EXPECT_NE(only(graph(), "linear").find_quantizer("weight"), nullptr);
}

TEST_F(Microsoft, QuantizedAttentionHasQuantizedLayers) {
  input("x", Tensor::from({1, 2, 2}, std::vector<uint8_t>{3, 200, 128, 90}), kOnnxUint8);
  model.constant<int8_t>("w", {2, 6}, {5, -7, 9, 11, -13, 15, 1, 2, -3, 4, 5, -6});
  constant("b", {6}, 1);
  model.constant<float>("xs", {}, {0.02F});
  model.constant<float>("ws", {}, {0.05F});
  model.constant<uint8_t>("xz", {}, {128});
  model.constant<int8_t>("wz", {}, {0});
  node("QAttention", {"x", "w", "b", "xs", "ws", "", "xz", "wz"}, {"y"}, {{"num_heads", 1}});
  expect_near(run().at(0), {0.52735513, -0.20251286, 0.63025272, -0.32244182});
  const Graph network = graph();
  for (const Node& layer : network.nodes())
    EXPECT_EQ(layer.find_quantizer("weight") != nullptr, layer.op == "linear") << layer.name;
}

/// Inputs that are codes already make it the layer of its weights' values: W and R [directions, in, rows].
TEST_F(Microsoft, DynamicLstmHasTheValuesOfItsWeights) {
  const Tensor x = Tensor::from({2, 1, 2}, Floats{0, 255.0F / 128, 0.5F, 1.0F / 128});
  const std::vector<int8_t> of_input = {64, -32, 16, 8, -64, 96, 3, -5};
  const std::vector<int8_t> of_state = {32, -16, 80, 7};
  input("x", x);
  model.constant("w", {1, 2, 4}, of_input);
  model.constant("r", {1, 1, 4}, of_state);
  model.constant<float>("ws", {1, 4}, {0.0078125F, 0.015625F, 0.0078125F, 0.03125F});
  model.constant<int8_t>("wz", {1, 4}, {0, 1, 0, -2});
  model.constant<float>("rs", {1}, {0.0078125F});
  model.constant<int8_t>("rz", {1}, {0});
  node("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"}, {"y"},
       {{"hidden_size", 1}});
  const Tensor quantized = run().at(0);
  OnnxModelForTest plain(17);
  plain.input("x", {2, 1, 2});
  plain.output("y");
  plain.constant<float>("w", {1, 4, 2},
                        {0.5F, -0.5F, -0.515625F, 1.484375F, 0.125F, 0.0234375F, 0.3125F, -0.09375F});
  plain.constant<float>("r", {1, 4, 1}, {0.25F, -0.125F, 0.625F, 0.0546875F});
  plain.node("LSTM", {"x", "w", "r"}, {"y"}, {{"hidden_size", 1}});
  const std::vector<Tensor> expected = IntegerExecutor().compile(import_onnx(plain.write()))->run({&x, 1});
  EXPECT_TRUE(quantized.equals(expected.at(0)));
}

TEST_F(Microsoft, InverseTakesPivots) {
  input("x", varied_numbers({2, 3, 3}, 1));
  input("z", Tensor::from({2, 2}, Floats{0, 2, 4, 0}));
  node("Inverse", {"x"}, {"y"});
  node("Inverse", {"z"}, {"u"});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {-1.7867393, -0.83317029, 0.036178518, 1.2649518, 0.49701583, 1.0857264,
                              0.33339021, 1.1352893, 0.54986054, 0.55505449, 0.8154881, 0.48826155,
                              -1.1002883, 1.2265013, 1.9742352, 1.17258, -1.6826205, -4.4250836});
  expect_near(results.at(1), {0, 0.25, 0.5, 0});
}

TEST_F(Microsoft, UnfoldTensorHasWindowsLast) {
  input("x", Tensor::from({5, 2}, Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  node("UnfoldTensor", {"x"}, {"y"}, {{"dim", 0}, {"size", 3}, {"step", 2}});
  const std::vector<Tensor> results = run();
  EXPECT_EQ(results.at(0).shape(), (Shape{2, 2, 3}));
  expect_near(results.at(0), {0, 2, 4, 1, 3, 5, 4, 6, 8, 5, 7, 9});
}

TEST_F(Microsoft, UnfoldTensorRefusesWindowsThatDoNotFit) {
  input("x", varied_numbers({2, 3}, 1));
  node("UnfoldTensor", {"x"}, {"y"}, {{"size", 4}});
  EXPECT_THAT(error_of([&] { graph(); }), HasSubstr("windows of 4 positions of dimension 1 of size 3"));
}

/// A masked position ends its row of a window; the first of all counts where there are several dimensions.
TEST_F(Microsoft, MaskedPoolingEndsRowsOfWindows) {
  input("x", varied_numbers({1, 2, 3, 4}, 1));
  integers("m", {1, 1, 3, 4}, {0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1});
  node("MaxpoolWithMask", {"x", "m"}, {"y"},
       {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{0, 1, 0, 0}}, {"strides", Ints{1, 2}}});
  input("v", varied_numbers({1, 2, 5}, 1));
  integers("n", {1, 2, 5}, {1, 1, 0, 1, 1, 1, 0, 1, 1, 1});
  node("MaxpoolWithMask", {"v", "n"}, {"u"}, {{"kernel_shape", Ints{2}}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {0.97434926, 0.97434926, 0.97434926, 0.97434926, 0.99314284, 0.99314284,
                              -0.51746035, 0.57155561});
  const double none = -std::numeric_limits<float>::max();
  expect_near(results.at(1),
              {0.24495244, 0.24495244, none, -0.16368252, 0.97434926, none, 0.85904765, 0.69041264});
}

TEST_F(Microsoft, MatMulBnb4HasTheWeightsOfItsCodes) {
  input("x", varied_numbers({1, 3}, 1));
  model.constant<uint8_t>("w", {3}, {0x1f, 0x80, 0x5a});
  model.constant<float>("s", {1}, {2});
  for (const int kind : {0, 1})
    node("MatMulBnb4", {"x", "w", "s"}, {kind == 0 ? "floats" : "quantiles"},
         {{"K", 3}, {"N", 2}, {"block_size", 16}, {"quant_type", kind}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {-0.12737966, 0.84855032});
  expect_near(results.at(1), {1.0732911, 0.62810969});
}

TEST_F(Microsoft, QuantizedEmbeddingsKeepTheirCodes) {
  integers("ids", {1, 2}, {1, 0});
  model.constant<uint8_t>("we", {2, 4}, {10, 20, 5, 250, 30, 40, 9, 0});
  model.constant<uint8_t>("pe", {2, 4}, {1, 2, 3, 4, 3, 4, 9, 1});
  model.constant<uint8_t>("g", {4}, {130, 140, 110, 90});
  model.constant<uint8_t>("b", {4}, {120, 110, 10, 200});
  const char* const names[] = {"ws", "ps", "gs", "bs"};
  for (size_t i = 0; const float scale : {0.5F, 0.25F, 0.1F, 0.2F})
    model.constant<float>(names[i++], {}, {scale});
  const char* const zeros[] = {"wz", "pz", "gz", "bz"};
  for (size_t i = 0; const uint8_t zero : std::vector<uint8_t>{25, 0, 120, 100})
    model.constant<uint8_t>(zeros[i++], {}, {zero});
  node("QEmbedLayerNormalization",
       {"ids", "", "we", "pe", "", "g", "b", "", "ws", "ps", "", "gs", "bs", "wz", "pz", "", "gz", "bz"},
       {"y", "lengths"}, {{"epsilon", 1e-5F}});
  expect_near(run().at(0),
              {4.6127439, 4.5799742, -17.322758, 23.676462, 3.3955946, 0.99632049, -17.376059, 14.809439});
  const Graph network = graph();
  for (const Node& table : network.nodes())
    EXPECT_EQ(table.find_quantizer("weight") != nullptr, table.op == "embedding") << table.name;
}

TEST_F(Microsoft, CropsAreCornerAligned) {
  input("x", varied_numbers({1, 1, 3, 3}, 1));
  input("r", Tensor::from({2, 4}, Floats{0, 0, 1, 1, 0.25F, -0.5F, 0.75F, 0.5F}));
  integers("i", {2}, {0, 0});
  const auto size = [&](const char* name, int32_t height, int32_t width) {
    onnx::TensorProto& list = *model.graph().add_initializer();
    list.set_name(name);
    list.set_data_type(kOnnxInt32);
    list.add_dims(2);
    list.add_int32_data(height);
    list.add_int32_data(width);
  };
  size("large", 2, 3);
  size("small", 1, 2);
  node("CropAndResize", {"x", "r", "i", "large"}, {"y"}, {{"extrapolation_value", 7.0F}});
  node("CropAndResize", {"x", "r", "i", "small"}, {"u"}, {{"mode", "nearest"}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {-0.47073019, 0.24495244, -0.45269841, 0.62336504, 0.85904765, 0.081396818, 7,
                              -0.31720635, -0.12152377, 7, 0.22984126, 0.18552381});
  expect_near(results.at(1), {-0.16368252, 0.97434926, 0, -0.48799998});
}

TEST_F(Microsoft, GatesOfStateSpaceLayers) {
  input("x", varied_numbers({1, 2, 3}, 1));
  constant("w", {2, 1, 2}, 2);
  constant("b", {2}, 3);
  node("CausalConvWithState", {"x", "w", "b"}, {"y", "state"}, {{"dilation", 2}, {"activation", "silu"}});
  input("a", varied_numbers({1, 1, 2}, 1));
  input("z", varied_numbers({1, 1, 2}, 4));
  constant("shift", {2}, 2);
  node("LinearAttentionGate", {"a", "shift", "b", "z"}, {"decay", "rate"});
  input("n", varied_numbers({1, 1, 4}, 1));
  input("g", varied_numbers({1, 1, 4}, 3));
  node("GatedRMSNorm", {"n", "shift", "g"}, {"normed"}, {{"epsilon", 1e-5F}});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {0.048190337, -0.17193845, 0.14055982, 0.25731254, 0.49199578, -0.22946569});
  expect_near(results.at(1), {0.24495244, -0.45269841, -0.48799998, 0.97434926});
  expect_near(results.at(2), {-0.092613436, 0.12936832});
  expect_near(results.at(3), {0.46257806, 0.32865256});
  expect_near(results.at(4), {-0.051132616, -0.074763097, 0.34824541, 0.059177373});
}

TEST_F(Microsoft, PadAndRangeTakeListsOfOne) {
  input("x", Tensor::from({1, 3}, Floats{1, 2, 3}));
  input("pads", Tensor::from({1, 4}, Ints{0, 1, 1, -1}), kOnnxInt64);
  input("value", Tensor::from({1}, Floats{5}));
  input("end", Tensor::from({1}, Floats{3}));
  model.constant<float>("zero", {1}, {0});
  node("Pad", {"x", "pads", "value"}, {"y"});
  node("Range", {"zero", "end"}, {"u"});
  const std::vector<Tensor> results = run();
  expect_near(results.at(0), {5, 1, 2, 5, 5, 5});
  expect_near(results.at(1), {0, 1, 2});
}

/// Before opset 13 of all dimensions from the axis on.
TEST_F(Microsoft, QuantizedSoftmaxOfRows) {
  const std::vector<uint8_t> codes = {3, 40, 90, 60};
  input("x", Tensor::from({1, 2, 2}, codes), kOnnxUint8);
  input("row", Tensor::from({1, 4}, codes), kOnnxUint8);
  model.constant<float>("s", {}, {0.05F});
  model.constant<uint8_t>("z", {}, {10});
  model.constant<float>("t", {}, {1.0F / 256});
  model.constant<uint8_t>("zero", {}, {0});
  node("QLinearSoftmax", {"x", "s", "z", "t", "zero"}, {"y"}, {{"axis", 1}, {"opset", 12}});
  node("QLinearSoftmax", {"row", "s", "z", "t", "zero"}, {"u"}, {{"axis", 1}, {"opset", 13}});
  const std::vector<Tensor> results = run();
  EXPECT_EQ(results.at(0).shape(), (Shape{1, 2, 2}));
  EXPECT_TRUE(results.at(0).reshaped({1, 4}).equals(results.at(1)));
}

}  // namespace
}  // namespace detent
