#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/inference/code_type.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kQuantizeOptions = "[passes.static_quantize]\nreport = false\nnum_samples = 20\n";

CodeType type_of(const Graph& graph, const std::string& node, const std::string& operand) {
  return operand_code_type(graph.node(node), operand).value();
}

const Affine& weight_of(const Graph& graph, const std::string& node) {
  return std::get<Affine>(graph.node(node).find_quantization("weight")->format);
}

/// conv - relu - conv, the input of the second added to its result, then relu6 and a linear layer.
Graph residual_network() {
  GraphBuilder builder("residual");
  NodeInput x = builder.convolution("conv1", builder.input("x", {3, 6, 6}), 3, 4, {3, 3}, {{"padding", 1}});
  x = builder.call("relu", {x});
  const NodeInput y = builder.convolution("conv2", x, 4, 4, {3, 3}, {{"padding", 1}});
  x = builder.call("relu6", {builder.call("add", {y, x})});
  x = builder.call("flatten", {x});
  return builder.finish(builder.linear("fc", x, int64_t{4} * 6 * 6, 5));
}

TEST(StaticQuantize, OneTypeForWhatOneNodeComputes) {
  PassBench bench(residual_network());
  bench.run_passes(kQuantizeOptions);
  const Graph& graph = bench.graph;
  const CodeType rectified = type_of(graph, "conv1", "data_out_0");
  EXPECT_EQ(rectified.zero_point, 0) << "the range begins at 0 after relu";
  EXPECT_EQ(type_of(graph, "conv2", "data_in_0"), rectified);
  EXPECT_EQ(type_of(graph, "add", "data_in_1"), rectified);
  EXPECT_TRUE(graph.node("relu").quantization.empty()) << "it compares codes";
  const CodeType branch = type_of(graph, "conv2", "data_out_0");
  EXPECT_EQ(type_of(graph, "add", "data_in_0"), branch);
  EXPECT_GT(branch.zero_point, 0) << "both signs";
  const CodeType sum = type_of(graph, "add", "data_out_0");
  EXPECT_EQ(type_of(graph, "relu6", "data_in_0"), sum);
  EXPECT_EQ(type_of(graph, "relu6", "data_out_0"), sum);
  EXPECT_EQ(type_of(graph, "fc", "data_in_0"), sum);
  EXPECT_EQ(graph.node("fc").find_quantization("data_out_0"), nullptr) << "the result is float";
  EXPECT_EQ(graph.node("fc").find_quantization("bias"), nullptr) << "its scale follows from the others";
  EXPECT_EQ(graph.requantization(), Requantization::kFloat);
}

TEST(StaticQuantize, RangesAreThoseOfTheSamples) {
  PassBench bench(residual_network());
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 20);
  const auto [low, high] = std::ranges::minmax(inputs.values<float>());
  bench.run_passes(kQuantizeOptions);
  const CodeType type = type_of(bench.graph, "conv1", "data_in_0");
  EXPECT_FLOAT_EQ(type.scale, (high - low) / 255);
  EXPECT_NEAR(type.value(type.low), low, type.scale);
  const auto weights = bench.graph.node("conv1").find_parameter("weight")->tensor.values<float>();
  float largest = 0;
  for (size_t i = 0; i < 27; ++i) largest = std::max(largest, std::fabs(weights[i]));
  ASSERT_EQ(weight_of(bench.graph, "conv1").scale.size(), 4U);
  EXPECT_FLOAT_EQ(weight_of(bench.graph, "conv1").scale[0], largest / 127);
}

TEST(StaticQuantize, NamesTheLayerWhoseWeightsAreNotFinite) {
  for (const char* calibrator : {"min_max", "mse"}) {
    PassBench bench(residual_network());
    const auto weights = bench.graph.node("fc").find_parameter("weight")->tensor.values<float>();
    weights[7] = std::numeric_limits<float>::quiet_NaN();
    weights[9] = std::numeric_limits<float>::infinity();
    EXPECT_THAT(
        error_of([&] {
          bench.run_passes(fmt::format("{}weight_calibrator = \"{}\"\n", kQuantizeOptions, calibrator));
        }),
        HasSubstr("weight of \"fc\": 2 of 720 values are NaN or infinite (`detent quantize"));
  }
}

TEST(StaticQuantize, TheScaleOfOneRowIsThatOfTheTable) {
  GraphBuilder builder("one_row");
  const NodeInput zeros = builder.call("mul", {builder.input("x", {3}), NodeInput::of_constant(0.0)});
  const NodeInput index = builder.call("cast", {zeros}, {{"dtype", "int64"}});
  const NodeInput rows = builder.layer("embedding", "types", {index}, {{"weight", {1, 4}}});
  PassBench bench(builder.finish(builder.linear("fc", rows, 4, 2)));
  bench.run_passes(kQuantizeOptions);
  const QuantSpec* spec = bench.graph.node("types").find_quantization("weight");
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(spec->granularity, Granularity::kTensor);
  EXPECT_EQ(std::get<Affine>(spec->format).scale.size(), 1U);
}

TEST(StaticQuantize, ElementwiseOperandsMayBeWider) {
  PassBench bench(residual_network());
  bench.run_passes(std::string(kQuantizeOptions) + "weights = \"int4\"\nactivations = \"uint4\"");
  const Graph& graph = bench.graph;
  EXPECT_EQ(weight_of(graph, "conv2").width, 4);
  EXPECT_EQ(type_of(graph, "conv2", "data_in_0").size(), 16);
  EXPECT_EQ(type_of(graph, "add", "data_in_1").size(), 256);
  EXPECT_EQ(type_of(graph, "conv1", "data_out_0").size(), 256) << "the widest that is read";
  EXPECT_EQ(type_of(graph, "fc", "data_in_0").size(), 16);
}

TEST(StaticQuantize, EdgesMayDiffer) {
  PassBench eight(residual_network());
  eight.run_passes(std::string(kQuantizeOptions) +
                   "weights = \"int3\"\nactivations = \"uint4\"\nedge_layers = \"eight_bits\"");
  EXPECT_EQ(weight_of(eight.graph, "conv1").width, 8);
  EXPECT_EQ(weight_of(eight.graph, "conv2").width, 3);
  EXPECT_EQ(weight_of(eight.graph, "fc").width, 8);
  EXPECT_EQ(type_of(eight.graph, "fc", "data_in_0").size(), 256);
  PassBench in_float(residual_network());
  in_float.run_passes(std::string(kQuantizeOptions) + "first_last_layers = \"float\"");
  EXPECT_TRUE(in_float.graph.node("conv1").quantization.empty());
  EXPECT_TRUE(in_float.graph.node("fc").quantization.empty());
  EXPECT_NE(in_float.graph.node("conv2").find_quantization("weight"), nullptr);
  EXPECT_THAT(in_float.reported, HasSubstr("in float: 1 x conv2d (not quantized): conv1\n"));
}

TEST(StaticQuantize, NodesMayHaveWidthsOfTheirOwn) {
  PassBench bench(residual_network());
  bench.run_passes(std::string(kQuantizeOptions) +
                   "weights = \"int8\"\nelementwise = \"uint10\"\n"
                   "[passes.static_quantize.bits]\n'conv2' = 5\n'conv.*' = \"4/6\"\n"
                   "add = { activations = 12 }\nfc = { weights = \"int3\", activations = \"int7\" }\n");
  const Graph& graph = bench.graph;
  EXPECT_EQ(weight_of(graph, "conv2").width, 5) << "the first entry that matches counts";
  EXPECT_EQ(type_of(graph, "conv2", "data_in_0").size(), 256) << "what it leaves open is as elsewhere";
  EXPECT_EQ(weight_of(graph, "conv1").width, 4);
  EXPECT_EQ(type_of(graph, "conv1", "data_in_0").size(), 64);
  EXPECT_EQ(type_of(graph, "add", "data_in_0").size(), 4096);
  EXPECT_EQ(type_of(graph, "conv1", "data_out_0").size(), 4096) << "the widest that is read";
  EXPECT_EQ(weight_of(graph, "fc").width, 3);
  EXPECT_EQ(type_of(graph, "fc", "data_in_0").low, -64) << "signed";
}

TEST(StaticQuantize, TextSaysTheSameAsTheTable) {
  PassBench table(residual_network());
  table.run_passes(std::string(kQuantizeOptions) +
                   "[passes.static_quantize.bits]\n'conv[1,2]' = \"4/int6\"\nadd = \"/12\"");
  PassBench text(residual_network());
  text.run_passes(std::string(kQuantizeOptions) + "bits = 'conv[1,2]=4/int6,add=/12'");
  for (const Node& node : text.graph.nodes()) {
    EXPECT_EQ(node.quantization, table.graph.node(node.name).quantization) << node.name;
  }
  EXPECT_EQ(weight_of(text.graph, "conv1").width, 4);
}

/// keep_float comes before bits, bits before first_last_layers.
TEST(StaticQuantize, WidthsOfNodesComeBetweenKeepFloatAndEdges) {
  PassBench eight(residual_network());
  eight.run_passes(std::string(kQuantizeOptions) +
                   "weights = \"int3\"\nedge_layers = \"eight_bits\"\nbits = \"conv1=5\"");
  EXPECT_EQ(weight_of(eight.graph, "conv1").width, 5);
  EXPECT_EQ(weight_of(eight.graph, "fc").width, 8);
  PassBench edges(residual_network());
  edges.run_passes(std::string(kQuantizeOptions) + "first_last_layers = \"float\"\nbits = \"fc=5\"");
  EXPECT_TRUE(edges.graph.node("conv1").quantization.empty());
  EXPECT_EQ(weight_of(edges.graph, "fc").width, 5);
  PassBench kept(residual_network());
  kept.run_passes(std::string(kQuantizeOptions) + "keep_float = [\"conv1\"]\nbits = \"conv.*=5\"");
  EXPECT_TRUE(kept.graph.node("conv1").quantization.empty());
  EXPECT_EQ(weight_of(kept.graph, "conv2").width, 5);
}

Graph deep_network() {
  GraphBuilder b("deep");
  NodeInput x = b.convolution("first", b.input("x", {3, 6, 6}), 3, 16, {3, 3});
  x = b.convolution("second", x, 16, 16, {3, 3});
  x = b.convolution("depthwise", x, 16, 16, {1, 1}, {{"groups", int64_t{16}}});
  x = b.convolution("named", x, 16, 16, {1, 1});
  return b.finish(b.linear("fc", b.call("flatten", {x}, {{"start_dim", 1}}), 64, 4));
}

/// Blocks run along what a layer sums over, where that is long enough.
TEST(StaticQuantize, WeightsMayTakeABlockFormat) {
  PassBench bench(deep_network());
  bench.run_passes(
      "[passes.static_quantize]\nnum_samples = 4\nweights = \"mx_e2m1\"\n"
      "bits = \"named=5\"");
  const auto text = [&](const char* node) {
    return quant_spec_text(bench.graph.node(node).quantization.at("weight")->spec);
  };
  EXPECT_THAT(text("second"), AllOf(HasSubstr("mx:"), HasSubstr("element=e2m1"), HasSubstr("block_axis=1")));
  EXPECT_THAT(text("fc"), HasSubstr("mx:"));
  EXPECT_THAT(text("first"), HasSubstr("affine:"));
  EXPECT_THAT(text("depthwise"), HasSubstr("affine:"));
  EXPECT_THAT(text("named"), HasSubstr("width=5"));
  EXPECT_THAT(bench.reported, HasSubstr("5 nodes compute in integers"));
}

bool rounds_inputs(const Node& node) {
  return std::ranges::any_of(node.quantization,
                             [](const auto& entry) { return entry.first.starts_with("data_"); });
}

TEST(StaticQuantize, WeightsAloneNeedNoSamples) {
  const std::string alone = std::string(kQuantizeOptions) + "activations = \"float32\"\n";
  for (const char* weights : {"int4", "nvfp4", "codebook16", "fp8_e4m3fn"}) {
    PassBench bench(residual_network());
    const Graph unquantized = bench.graph;
    bench.context.open_calibration = []() -> std::unique_ptr<CalibrationSet> {
      ADD_FAILURE() << "asks for samples";
      return nullptr;
    };
    bench.run_passes(alone + fmt::format("weights = \"{}\"\n", weights));
    for (const char* layer : {"conv1", "conv2", "fc"})
      EXPECT_NE(bench.graph.node(layer).find_quantizer("weight"), nullptr) << weights;
    EXPECT_TRUE(std::ranges::none_of(bench.graph.nodes(), rounds_inputs)) << weights;
    const std::vector<float> exact = bench.outputs(unquantized);
    const std::vector<float> rounded = bench.outputs(bench.graph);
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      signal += std::pow(double{exact[i]}, 2);
      noise += std::pow(double{rounded[i]} - double{exact[i]}, 2);
    }
    EXPECT_GT(noise, 0) << weights;
    EXPECT_LT(noise, 0.1 * signal) << weights;
  }
}

TEST(StaticQuantize, NodesMayStayInFloatOnEitherSide) {
  PassBench bench(residual_network());
  bench.run_passes(std::string(kQuantizeOptions) +
                   "activations = \"float32\"\nbits = \"fc=4/8,conv1=float32,conv2=8/float32\"\n");
  EXPECT_TRUE(rounds_inputs(bench.graph.node("fc")));
  EXPECT_FALSE(rounds_inputs(bench.graph.node("conv2")));
  EXPECT_NE(bench.graph.node("conv2").find_quantizer("weight"), nullptr);
  EXPECT_EQ(bench.graph.node("conv1").find_quantizer("weight"), nullptr);
  const NodeBits bits = NodeBits::from_value(Value("a=float32,b=4/float32,c=/float32"), "t");
  EXPECT_EQ(bits.to_value(), Value("a=float32,b=4/float32,c=/float32"));
}

TEST(StaticQuantize, RefusesWidthsThatNoNodeTakes) {
  PassBench bench(residual_network());
  const auto refusal = [&](const std::string& bits) {
    return bench.error_of(std::string(kQuantizeOptions) + "keep_float = [\"conv1\"]\nbits = '" + bits + "'");
  };
  EXPECT_THAT(refusal("convo2=4"), AllOf(HasSubstr("key \"bits\": \"convo2\" matches no node"),
                                         HasSubstr("did you mean \"conv2\"?")));
  EXPECT_THAT(refusal("cnv.*=4"), HasSubstr("did you mean \"conv1\"?"));
  EXPECT_THAT(refusal("relu=/4"),
              AllOf(HasSubstr("\"relu\" matches only relu, which move or compare integers"),
                    HasSubstr("(nodes with widths: add, conv2, fc)")));
  EXPECT_THAT(refusal("add=4"), HasSubstr("\"add=/4\" is for its quantized inputs"));
  EXPECT_THAT(refusal("fc=1"), HasSubstr("\"fc\": got \"1\", expected 2 to 16 bits"));
  EXPECT_THAT(refusal("fc=uint4"), HasSubstr("\"fc\": got uint4 for weights, expected a signed type"));
  EXPECT_THAT(refusal("fc=float"), HasSubstr("(keep_float leaves nodes in float)"));
  EXPECT_THAT(refusal("fc"), HasSubstr("got \"fc\", expected PATTERN=WEIGHTS"));
  EXPECT_THAT(refusal("fc["), HasSubstr("got \"fc[\", expected PATTERN=WEIGHTS"));
  EXPECT_THAT(refusal("(=4"), HasSubstr("\"(\" is no regular expression"));
  EXPECT_THAT(bench.error_of(std::string(kQuantizeOptions) + "bits = 4"),
              HasSubstr("expected a table of patterns"));
  EXPECT_THAT(
      bench.error_of(std::string(kQuantizeOptions) + "[passes.static_quantize.bits]\nfc = { weight = 4 }"),
      HasSubstr("did you mean \"weights\"?"));
  EXPECT_THAT(
      bench.error_of(std::string(kQuantizeOptions) + "activations = \"int8\"\nelementwise = \"int8\"\n"
                                                     "symmetric_activations = true\nbits = \"fc=4/uint8\""),
      HasSubstr("unsigned activations for \"fc\""));
  EXPECT_EQ(refusal("conv.*=4,conv2=8,conv1=3"), "");
  EXPECT_THAT(
      bench.reported,
      AllOf(HasSubstr("\"conv2\" matches only nodes that earlier entries match, and the first counts"),
            HasSubstr("\"conv1\" matches only nodes that stay in float")));
}

TEST(StaticQuantize, EveryCalibratorWorks) {
  for (const char* calibrator : {"min_max", "percentile", "average_range", "n_sigma", "mse", "entropy"}) {
    PassBench bench(residual_network());
    bench.run_passes(
        fmt::format("{}calibrator = \"{}\"\nscale_form = \"power_of_two\"", kQuantizeOptions, calibrator));
    const float scale = type_of(bench.graph, "add", "data_out_0").scale;
    EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale) << calibrator;
  }
}

class FixedSamples final : public CalibrationSet {
 public:
  explicit FixedSamples(Tensor samples) : samples_(std::move(samples)) {}
  int64_t size() const override { return samples_.dim(0); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {samples_.rows(begin, end)};
  }
  uint64_t fingerprint() const override { return 2; }

 private:
  Tensor samples_;
};

/// A model of decision trees is hundreds of nodes.
TEST(StaticQuantize, CountsTheOperatorsOfNetworksWithoutLayers) {
  GraphBuilder builder("shares");
  NodeInput x = builder.input("x", {4});
  for (int i = 0; i < 6; ++i) x = builder.call("softmax", {x}, {{"dim", -1}});
  PassBench bench(builder.finish(x));
  EXPECT_THAT(bench.error_of(kQuantizeOptions),
              HasSubstr("left to quantize: in float are 6 x softmax, which have no integer form"));
}

TEST(StaticQuantize, RefusesWhatCannotWork) {
  PassBench bench(residual_network());
  const Graph before = bench.graph;
  EXPECT_THAT(
      bench.error_of(std::string(kQuantizeOptions) + "weights = \"int17\""),
      AllOf(HasSubstr("key \"weights\""), HasSubstr("got 17 bits, expected at least 2 and at most 16")));
  EXPECT_THAT(bench.error_of(std::string(kQuantizeOptions) + "keep_float = [\"conv9\"]"),
              HasSubstr("\"conv9\" matches no node"));
  EXPECT_THAT(
      bench.error_of(std::string(kQuantizeOptions) + "keep_float = [\"conv.*\", \"fc\"]"),
      HasSubstr("no linear layer or convolution is left to quantize: keep_float holds conv1 (conv2d)"));
  EXPECT_THAT(bench.error_of(std::string(kQuantizeOptions) + "weights = \"int16\"\nactivations = \"uint16\""),
              HasSubstr("beyond the 32 bits of an accumulator"));

  Tensor samples = RandomSamples(bench.sample_shape()).samples(0, 4);
  samples.values<float>()[7] = NAN;
  bench.context.open_calibration = [&] { return std::make_unique<FixedSamples>(samples); };
  EXPECT_THAT(bench.error_of(kQuantizeOptions), AllOf(HasSubstr("node \"conv1\", operand \"data_in_0\""),
                                                      HasSubstr("of the calibration values are NaN")));
  bench.context.open_calibration = [] {
    return std::make_unique<FixedSamples>(Tensor(DType::kFloat32, {0, 3, 6, 6}));
  };
  EXPECT_THAT(bench.error_of(kQuantizeOptions), HasSubstr("no value reached"));
  bench.context.open_calibration = [] {
    return std::make_unique<FixedSamples>(Tensor(DType::kFloat32, {4, 2, 6, 6}));
  };
  EXPECT_THAT(bench.error_of(kQuantizeOptions),
              HasSubstr("input \"x\": got float32 of shape [4, 2, 6, 6], expected float32 [N, 3, 6, 6]"));
  for (const Node& node : bench.graph.nodes()) {
    EXPECT_TRUE(node.quantization.empty()) << "a failure leaves the network alone";
  }
  bench.graph.node("fc").quantization["weight"] = parse_quant_spec_text("fixed:width=8,frac_width=4");
  EXPECT_THAT(bench.error_of(kQuantizeOptions), HasSubstr("node \"fc\" is quantized already"));
}

/// An LSTM in both directions whose last states, side by side, are what a linear layer takes.
Graph recurrent_network() {
  GraphBuilder builder("recurrent");
  const NodeInput x = builder.input("x", {7, 6});
  const NodeInput weights = builder.parameter("input_weights", {2, 32, 6});
  const NodeInput states = builder.parameter("state_weights", {2, 32, 8});
  NodeInput last = builder.call("lstm", {x, weights, states},
                                {{"hidden_size", 8},
                                 {"direction", "bidirectional"},
                                 {"activations", "sigmoid tanh tanh sigmoid tanh tanh"},
                                 {"batch_first", true}});
  last.result = 1;
  return builder.finish(builder.linear("fc", builder.call("flatten", {last}), 16, 5));
}

/// The network whose constants are what their quantizers make of them.
Graph with_rounded_constants(Graph graph) {
  for (Node& node : graph.nodes()) {
    const Quantizer* quantizer = node.find_quantizer("value");
    if (quantizer == nullptr) continue;
    Tensor& value = node.find_parameter("value")->tensor;
    value = fake_quantize(*quantizer, value);
    node.quantization.erase("value");
  }
  return graph;
}

/// Constants of nodes in float are stored as codes, and all that runs the network reads their values.
TEST(StaticQuantize, WeightsOfRecurrentLayersHaveEveryFormat) {
  for (const char* format : {"int8", "int4_g4", "fp8_e4m3fn", "mx:block_size=2", "nvfp4", "ternary",
                             "codebook16", "block_fp:width=6,block_size=2", "log:width=4", "binary"}) {
    SCOPED_TRACE(format);
    PassBench bench(recurrent_network());
    const Graph network = bench.graph;
    bench.run_passes(fmt::format("{}weights = \"{}\"\n", kQuantizeOptions, format));
    for (const char* name : {"input_weights", "state_weights"})
      EXPECT_NE(bench.graph.node(name).find_quantizer("value"), nullptr) << name;
    const std::vector<float> outputs = bench.outputs(bench.graph);
    EXPECT_EQ(outputs, bench.outputs(with_rounded_constants(bench.graph)));
    const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 5);
    const Tensor plain = IntegerExecutor().compile(bench.graph)->run(std::span(&inputs, 1)).front();
    EXPECT_TRUE(std::ranges::equal(plain.values<float>(), outputs));
  }
}

TEST(StaticQuantize, WeightsOfRecurrentLayersThatAMethodLeavesAloneAreNamed) {
  PassBench bench(recurrent_network());
  bench.run_passes(std::string(kQuantizeOptions) + "[passes.gptq]\n");
  EXPECT_THAT(bench.reported, HasSubstr("gptq]: weights of recurrent layers are rounded to nearest: lstm"));
}

TEST(StaticQuantize, WeightsOfRecurrentLayersHaveScalesOfRowsAndWidthsByName) {
  PassBench bench(recurrent_network());
  bench.run_passes(std::string(kQuantizeOptions) + "bits = \"lstm=4\"\n");
  const QuantSpec spec = *bench.graph.node("state_weights").find_quantization("value");
  EXPECT_EQ(std::get<Affine>(spec.format).width, 4);
  EXPECT_EQ(std::get<Affine>(spec.format).scale.size(), 32U);
  PassBench in_float(recurrent_network());
  in_float.run_passes(std::string(kQuantizeOptions) + "keep_float = [\"lstm\"]\n");
  EXPECT_EQ(in_float.graph.node("state_weights").find_quantization("value"), nullptr);
}

/// A network of nothing but recurrent layers has no layer that computes in integers, and weights.
TEST(StaticQuantize, TakesNetworksOfRecurrentLayersAlone) {
  GraphBuilder builder("recurrent");
  const NodeInput x = builder.input("x", {7, 6});
  const NodeInput weights = builder.parameter("input_weights", {1, 24, 6});
  const NodeInput states = builder.parameter("state_weights", {1, 24, 8});
  PassBench bench(
      builder.finish(builder.call("gru", {x, weights, states}, {{"hidden_size", 8}, {"batch_first", true}})));
  bench.run_passes(std::string(kQuantizeOptions) + "weights = \"int4\"\n[passes.bias_correction]\n");
  EXPECT_NE(bench.graph.node("input_weights").find_quantizer("value"), nullptr);
  EXPECT_THAT(bench.reported, HasSubstr("bias_correction: no linear layer or convolution is quantized"));
  EXPECT_THAT(bench.error_of("[passes.gptq]"), HasSubstr("recurrent layers) are rounded to nearest"));
}

}  // namespace
}  // namespace detent
