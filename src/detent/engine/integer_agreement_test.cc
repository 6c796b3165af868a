#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <map>
#include <random>

#include "detent/engine/compared_executions_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "detent/inference/plan.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

// The plain reference and the engine are the same numbers, and close to the float network.

namespace detent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Agreement : public testing::TestWithParam<const char*> {};

TEST_P(Agreement, OnBuiltInNetworks) {
  const struct {
    const char* model;
    Shape sample;
    size_t operands;
  } cases[] = {
      {"toy_convnet", {3, 32, 32}, 12}, {"mnist_cnn", {1, 28, 28}, 8}, {"resnet20", {3, 32, 32}, 60}};
  for (const auto& test : cases) {
    PassBench bench(build_model(test.model, test.sample, 10));
    bench.run_passes(fmt::format("[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\n{}\n",
                                 GetParam()));
    const Tensor inputs = RandomSamples(bench.sample_shape()).samples(3, 8);
    const Comparison comparison = compare_executions(bench.graph, inputs);
    EXPECT_THAT(comparison.disagreements, IsEmpty()) << test.model;
    EXPECT_GE(comparison.operands, test.operands) << test.model;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Agreement,
    testing::Values(
        "", "requantization = \"fixed_point\"", "weights = \"int4\"\nactivations = \"uint4\"",
        "activations = \"int8\"\nelementwise = \"int8\"\nsymmetric_activations = true",
        "activations = \"int16\"\nelementwise = \"int16\"\nweights = \"int6\"",
        "weight_granularity = \"tensor\"\ncalibrator = \"percentile\"", "weights = \"mx_e2m1\"",
        "weights = \"nvfp4\"\nactivations = \"int16\"\nelementwise = \"int16\"",
        "weights = \"int4_g16\"\nactivations = \"fp8_e4m3fn\"\nformats = \"(fc2|linear)=int8/int8\"",
        "weights = \"int4\"\n"
        "bits = \"(fc2|linear)=int8/int6,.*2.*=3/6,(block|conv|layer).*=7/uint5\""));

TEST(IntegerExecution, SavedGraphsRunTheSame) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nrequantization = \"fixed_point\"");
  const TemporaryPath file("agreement.mz");
  const std::string path = file.get().string();
  write_graph(path, bench.graph);
  const Graph loaded = read_graph(path);
  EXPECT_EQ(loaded.requantization(), Requantization::kFixedPoint);
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 3);
  IntegerProgram before(bench.graph);
  IntegerProgram after(loaded);
  EXPECT_TRUE(before.run(std::span(&inputs, 1)).front().equals(after.run(std::span(&inputs, 1)).front()));
  std::remove(path.c_str());
}

/// A quantized network must stay close to the float one, else both executions could be wrong together.
TEST(IntegerExecution, SixteenBitsAreCloseToFloat) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 4);
  const Tensor expected = bench.executor.run(bench.graph, std::span(&inputs, 1));
  bench.run_passes(
      "[passes.static_quantize]\nnum_samples = 20\nweights = \"int12\"\nactivations = \"uint14\"\n"
      "elementwise = \"uint16\"");
  IntegerProgram integers(bench.graph);
  const Tensor actual = integers.run(std::span(&inputs, 1)).front();
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    EXPECT_NEAR(actual.values<float>()[i], expected.values<float>()[i], 2e-3F) << i;
  }
}

/// Signs of layers, what a rectifier and a border make of them, and weights that share scales in blocks.
TEST(IntegerExecution, AgreesOnSignsAndOnBlocksOfWeights) {
  GraphBuilder builder("signs");
  NodeInput x = builder.input("x", {3, 8, 8});
  x = builder.convolution("first", x, 3, 20, {3, 3}, {{"padding", int64_t{1}}}, true);
  x = builder.convolution("second", x, 20, 12, {3, 3}, {{"padding", int64_t{1}}}, true);
  x = builder.call("max_pool2d", {x}, {{"kernel_size", int64_t{2}}});
  x = builder.call("relu", {x});
  x = builder.convolution("third", x, 12, 16, {3, 3}, {}, true);
  x = builder.linear("fc", builder.call("flatten", {x}, {{"start_dim", int64_t{1}}}), 64, 10, true);
  Graph graph = builder.finish(x);
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  const auto quantize = [&](const char* name, const char* input, const char* weight, const char* output) {
    Node& node = graph.node(name);
    for (auto& [key, parameter] : node.parameters) {
      for (float& value : parameter->tensor.values<float>()) value = normal(generator);
    }
    node.quantization["data_in_0"] = parse_quant_spec_text(input);
    node.quantization["weight"] = parse_quant_spec_text(weight);
    if (output != nullptr) node.quantization["data_out_0"] = parse_quant_spec_text(output);
  };
  quantize("first", "affine:scale=0.03", "affine:symmetric=true,scale=0.02", "binary");
  quantize("second", "binary", "binary", "binary");
  quantize("third", "binary", "affine:narrow_range=true,width=2,scale=0.5", "affine:scale=0.1");
  quantize("fc", "affine:scale=0.1", "mx:element=e2m1", nullptr);
  graph.set_requantization(Requantization::kFloat);
  Tensor inputs(DType::kFloat32, {5, 3, 8, 8});
  for (float& value : inputs.values<float>()) value = normal(generator);
  const Comparison comparison = compare_executions(graph, inputs);
  EXPECT_THAT(comparison.disagreements, IsEmpty());
  EXPECT_GE(comparison.operands, 14U);
}

/// Sums beyond 2^24, which float32 does not hold.
TEST(IntegerExecution, AgreesOnLargeSums) {
  GraphBuilder images("images");
  NodeInput x =
      images.convolution("conv", images.input("x", {256, 6, 6}), 256, 256, {3, 3}, {{"padding", 1}});
  x = images.layer("convtranspose2d", "transposed", {x}, {{"weight", {256, 8, 3, 3}}, {"bias", {8}}});
  GraphBuilder rows("rows");
  const NodeInput row = rows.linear("fc", rows.input("x", {2048}), 2048, 4);
  for (const Graph& network : {images.finish(x), rows.finish(row)}) {
    PassBench bench(network);
    for (Node& node : bench.graph.nodes()) {
      Parameter* weight = node.find_parameter("weight");
      if (weight == nullptr) continue;
      for (float& value : weight->tensor.values<float>()) value = 1 + value;
    }
    bench.run_passes("[passes.static_quantize]\nnum_samples = 16\n");
    const IntegerProgram integers(bench.graph);
    for (const Node& node : bench.graph.nodes()) {
      if (node.find_parameter("weight") == nullptr) continue;
      EXPECT_GT(integers.sum_bound(node.name), 1 << 24) << node.name;
    }
    const Comparison comparison =
        compare_executions(bench.graph, RandomSamples(bench.sample_shape()).samples(3, 8));
    EXPECT_THAT(comparison.disagreements, IsEmpty()) << network.name();
  }
}

// ---- Random networks.

int drawn(int low, int high) { return *rc::gen::inRange(low, high + 1); }

struct Image {
  NodeInput node;
  int64_t channels, height, width;
};

/// Numbers about 1 that the network owns.
NodeInput table(GraphBuilder& builder, const std::string& name, const Shape& shape) {
  return builder.call("exp", {builder.parameter(name, shape)});
}

/// Functions and products, some of which have no integer form.
Image grown_by_function(GraphBuilder& builder, const Image& x, const std::string& name) {
  Image y = x;
  switch (drawn(0, 7)) {
    case 0:
      y.node = builder.call("prelu", {x.node, table(builder, name + "_slope", {x.channels, 1, 1})});
      return y;
    case 1: {
      constexpr const char* kPairs[] = {"add", "sub", "mul", "div"};
      const NodeInput number = NodeInput::of_constant(Value(0.37));
      const int operation = drawn(0, 3);
      const bool is_first = operation < 3 && drawn(0, 1) == 1;
      y.node = builder.call(kPairs[operation],
                            is_first ? std::vector{number, x.node} : std::vector{x.node, number});
      return y;
    }
    case 2:
      y.node = builder.call(drawn(0, 1) == 0 ? "softmax" : "log_softmax", {x.node}, {{"dim", drawn(1, 3)}});
      return y;
    case 3:
      y.node = builder.layer("layer_norm", name, {x.node}, {{"weight", {x.width}}, {"bias", {x.width}}},
                             {{"normalized_shape", List{Value(x.width)}}});
      return y;
    case 4:
      y.node = builder.batch_norm("batch_norm2d", name, x.node, x.channels);
      return y;
    case 5: {
      const NodeInput turned = builder.call("transpose", {x.node}, {{"dim0", 2}, {"dim1", 3}});
      y.node = builder.call("matmul", {x.node, turned});
      y.width = y.height;
      return y;
    }
    case 6: {
      const NodeInput divisor = table(builder, name + "_divisor", {1, 1, x.width});
      y.node = builder.call("div", {x.node, divisor});
      return y;
    }
    default: {
      y.node = builder.call("matmul", {x.node, table(builder, name + "_table", {x.channels, x.width, 3})});
      y.width = 3;
      return y;
    }
  }
}

Image grown_by_movement(GraphBuilder& builder, const Image& x) {
  Image y = x;
  if (drawn(0, 1) == 0 || x.channels < 2) {
    y.node = builder.call("permute", {x.node}, {{"dims", List{Value(0), Value(3), Value(1), Value(2)}}});
    return {y.node, x.width, x.channels, x.height};
  }
  const NodeInput parts =
      builder.call("split", {x.node}, {{"dim", 1}, {"sizes", List{Value(1), Value(x.channels - 1)}}});
  const NodeInput rest = NodeInput::of(parts.node, 1);
  if (drawn(0, 1) == 0) {
    y.node = builder.call("cat", {rest, parts}, {{"dim", 1}});
    return y;
  }
  y.channels -= 1;
  y.node = builder.call("mul", {rest, parts});
  return y;
}

Image grown_by_convolution(GraphBuilder& builder, const Image& x, const std::string& name) {
  const int64_t kernel = drawn(1, 3);
  const int64_t dilation = drawn(1, 2);
  const int64_t stride = drawn(1, 2);
  const int64_t padding = drawn(0, 2);
  const int64_t groups = x.channels % 2 == 0 ? drawn(1, 2) : 1;
  const int64_t channels = int64_t{2} * drawn(1, 4);
  const auto size = [&](int64_t in) { return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; };
  if (x.height + 2 * padding < dilation * (kernel - 1) + 1) return x;
  if (x.width + 2 * padding < dilation * (kernel - 1) + 1) return x;
  const Table attributes = {
      {"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
  return {
      builder.convolution(name, x.node, x.channels, channels, {kernel, kernel}, attributes, drawn(0, 1) == 1),
      channels, size(x.height), size(x.width)};
}

/// One more operation on an image.
Image grown(GraphBuilder& builder, const Image& x, int index) {
  const std::string name = fmt::format("layer{}", index);
  switch (drawn(0, 15)) {
    case 0:
    case 1:
    case 2:
      return grown_by_convolution(builder, x, name);
    case 3:
      return {builder.call("relu", {x.node}), x.channels, x.height, x.width};
    case 4: {
      constexpr const char* kFunctions[] = {"relu6", "tanh", "sigmoid", "silu", "hardswish", "gelu", "clamp"};
      const char* const function = kFunctions[drawn(0, 6)];
      std::vector<NodeInput> operands = {x.node};
      if (std::string_view(function) == "clamp")
        operands.insert(operands.end(),
                        {NodeInput::of_constant(Value(-0.5)), NodeInput::of_constant(Value(0.75))});
      return {builder.call(function, operands), x.channels, x.height, x.width};
    }
    case 5: {
      if (x.height < 3 || x.width < 3) return x;
      const char* op = drawn(0, 1) == 0 ? "max_pool2d" : "avg_pool2d";
      const Table attributes = {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}};
      return {builder.module(op, name, x.node, attributes), x.channels, (x.height - 1) / 2 + 1,
              (x.width - 1) / 2 + 1};
    }
    case 6: {
      constexpr const char* kPairs[] = {"add", "sub", "mul"};
      const NodeInput other = builder.convolution(name, x.node, x.channels, x.channels, {1, 1}, {});
      return {builder.call(kPairs[drawn(0, 2)], {other, x.node}), x.channels, x.height, x.width};
    }
    case 7: {
      const NodeInput other = builder.convolution(name, x.node, x.channels, 2, {1, 1}, {});
      return {builder.call("cat", {x.node, other}, {{"dim", 1}}), x.channels + 2, x.height, x.width};
    }
    case 8: {
      const List border = {Value(drawn(0, 2)), Value(1), Value(0), Value(drawn(0, 1))};
      return {builder.call("pad", {x.node}, {{"pad", border}}), x.channels,
              x.height + *border[3].get_if<int64_t>(), x.width + *border[0].get_if<int64_t>() + 1};
    }
    case 9:
    case 10:
    case 11:
    case 12:
      return grown_by_function(builder, x, name);
    case 13:
    case 14:
      return grown_by_movement(builder, x);
    default: {
      const NodeInput up = builder.layer("convtranspose2d", name, {x.node},
                                         {{"weight", {x.channels, 2, 2, 2}}, {"bias", {2}}}, {{"stride", 2}});
      if (x.height > 8 || x.width > 8) return x;
      return {up, 2, 2 * x.height, 2 * x.width};
    }
  }
}

Graph random_network() {
  GraphBuilder builder("random");
  Image x{{}, drawn(1, 4), drawn(3, 9), drawn(3, 9)};
  x.node = builder.input("x", {x.channels, x.height, x.width});
  x = {builder.convolution("first", x.node, x.channels, 4, {1, 1}, {}), 4, x.height, x.width};
  const int count = drawn(0, 6);
  for (int i = 0; i < count; ++i) x = grown(builder, x, i);
  if (drawn(0, 1) == 0) return builder.finish(x.node);
  const NodeInput flat = builder.call("flatten", {x.node});
  return builder.finish(builder.linear("last", flat, x.channels * x.height * x.width, 3));
}

struct Volume {
  NodeInput node;
  int64_t channels;
  Shape size;  // of the three spatial dimensions
};

/// One more operation on a volume.
Volume grown(GraphBuilder& builder, const Volume& x, int index) {
  const std::string name = fmt::format("layer{}", index);
  switch (drawn(0, 4)) {
    case 0:
    case 1: {
      Volume y{{}, int64_t{2} * drawn(1, 3), {}};
      Shape kernel;
      List stride;
      List padding;
      List dilation;
      for (const int64_t in : x.size) {
        const int64_t border = drawn(0, 1);
        const int64_t taps = drawn(1, static_cast<int>(std::min<int64_t>(3, in)));
        const int64_t distance = in + 2 * border > 2 * (taps - 1) ? drawn(1, 2) : 1;
        const int64_t step = drawn(1, 2);
        kernel.push_back(taps);
        stride.emplace_back(step);
        padding.emplace_back(border);
        dilation.emplace_back(distance);
        y.size.push_back((in + 2 * border - distance * (taps - 1) - 1) / step + 1);
      }
      const Table attributes = {{"stride", stride},
                                {"padding", padding},
                                {"dilation", dilation},
                                {"groups", x.channels % 2 == 0 ? drawn(1, 2) : 1}};
      y.node =
          builder.convolution(name, x.node, x.channels, y.channels, kernel, attributes, drawn(0, 1) == 1);
      return y;
    }
    case 2:
      return {builder.call(drawn(0, 1) == 0 ? "relu" : "silu", {x.node}), x.channels, x.size};
    case 3: {
      if (std::ranges::min(x.size) < 2) return x;
      const char* op = drawn(0, 1) == 0 ? "max_pool3d" : "avg_pool3d";
      Shape halves;
      for (const int64_t in : x.size) halves.push_back(in / 2 + 1);
      return {builder.module(op, name, x.node, {{"kernel_size", 2}, {"padding", 1}}), x.channels, halves};
    }
    default: {
      const char* op = drawn(0, 1) == 0 ? "adaptive_max_pool3d" : "adaptive_avg_pool3d";
      const List sizes = {Value(drawn(1, 3)), Value(2), Value(drawn(1, 3))};
      return {builder.module(op, name, x.node, {{"output_size", sizes}}),
              x.channels,
              {*sizes[0].get_if<int64_t>(), 2, *sizes[2].get_if<int64_t>()}};
    }
  }
}

Graph random_network_of_volumes() {
  GraphBuilder builder("volumes");
  Volume x{{}, drawn(1, 3), {drawn(2, 5), drawn(2, 5), drawn(2, 5)}};
  x.node = builder.input("x", {x.channels, x.size[0], x.size[1], x.size[2]});
  x = {builder.convolution("first", x.node, x.channels, 4, {2, 1, 2}, {}),
       4,
       {x.size[0] - 1, x.size[1], x.size[2] - 1}};
  const int count = drawn(0, 4);
  for (int i = 0; i < count; ++i) x = grown(builder, x, i);
  return builder.finish(x.node);
}

/// Widths of their own for some of the nodes that have any.
std::string random_bits(const Graph& graph) {
  std::string bits;
  for (const Node& node : graph.nodes()) {
    const bool weighted = is_weighted_sum(node);
    if (!weighted && trait<PairOperation>(node) == nullptr && trait<MatrixProduct>(node) == nullptr &&
        node.op != "cat")
      continue;
    if (drawn(0, 1) == 0) continue;
    const std::string weights = weighted && drawn(0, 2) > 0 ? std::to_string(drawn(2, 8)) : "";
    const bool activations = weights.empty() || drawn(0, 1) == 1;
    bits += fmt::format("{}{}={}", bits.empty() ? "" : ",", node.name, weights);
    if (activations) bits += fmt::format("/{}", drawn(2, 10));
  }
  return bits.empty() ? "" : fmt::format("bits = \"{}\"\n", bits);
}

std::string random_options() {
  constexpr const char* kRequantizations[] = {"float", "fixed_point"};
  constexpr const char* kGranularities[] = {"tensor", "channel"};
  const bool is_signed = drawn(0, 1) == 1;
  const int width = drawn(2, 8);
  const std::string prefix = is_signed ? "int" : "uint";
  return fmt::format(
      "[passes.static_quantize]\nnum_samples = 8\nreport = false\nweights = \"int{}\"\nactivations = "
      "\"{}{}\"\n"
      "elementwise = \"{}{}\"\nsymmetric_activations = {}\nweight_granularity = \"{}\"\nrequantization = "
      "\"{}\"\n",
      drawn(2, 8), prefix, width, prefix, drawn(2, 8), is_signed && drawn(0, 1) == 1,
      kGranularities[drawn(0, 1)], kRequantizations[drawn(0, 1)]);
}

void expect_agreement(Graph network) {
  PassBench bench(std::move(network), static_cast<uint64_t>(drawn(0, 1000)));
  const std::string options = random_options() + random_bits(bench.graph);
  RC_LOG() << options;
  for (const Node& node : bench.graph.nodes()) RC_LOG() << node.name << " (" << node.op << ")\n";
  try {
    bench.run_passes(options);
  } catch (const Error& error) {
    // A normalization of values that are nearly constant leaves steps so small that a bias is beyond 2^31 of
    // them, which is refused; nothing is left to compare.
    const bool is_refused =
        std::string(error.what()).find("it does not fit into 32 bits") != std::string::npos;
    if (is_refused) RC_DISCARD("a bias is refused");
    throw;
  }
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(2, 5);
  const Comparison comparison = compare_executions(bench.graph, inputs);
  RC_ASSERT(comparison.operands > size_t{1});
  RC_ASSERT(comparison.disagreements == std::vector<std::string>());
}

RC_GTEST_PROP(IntegerExecution, AgreesOnRandomNetworks, ()) {
  for (int i = 0; i < 2; ++i) expect_agreement(random_network());  // of 200 networks
}

RC_GTEST_PROP(IntegerExecution, AgreesOnRandomNetworksOfVolumes, ()) {
  expect_agreement(random_network_of_volumes());
}

#ifdef DETENT_KERNELS_AVX512_VNNI
/// ONNX Runtime sets its shapes once a thread.
TEST(IntegerExecution, LeavesTileRegistersAsOthersHaveThem) {
  if (engine_targets().front() != "AMX") GTEST_SKIP() << "the processor has no AMX";
  GraphBuilder builder("g");
  PassBench bench(builder.finish(builder.linear("fc", builder.input("x", {100, 96}), 96, 40)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 4\nreport = false\n");
  alignas(64) std::array<uint8_t, 64> others = {1};  // the palette
  others[16] = 64;                                   // bytes a row of register 0
  others[48] = 7;                                    // its rows
  const auto program = FastExecutor().compile(bench.graph);
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 1);
  avx512_vnni::load_tile_shapes(others.data());
  static_cast<void>(program->run(std::span(&input, 1)));
  alignas(64) std::array<uint8_t, 64> found = {};
  avx512_vnni::store_tile_shapes(found.data());
  EXPECT_EQ(found, others);
}
#endif

// ---- What is refused.

TEST(IntegerExecution, NamesWhatStaysInFloat) {
  GraphBuilder builder("g");
  NodeInput x = builder.linear("fc1", builder.input("x", {8}), 8, 8);
  x = builder.layer("layer_norm", "norm", {x}, {{"weight", {8}}, {"bias", {8}}},
                    {{"normalized_shape", List{Value(8)}}});
  PassBench bench(builder.finish(builder.linear("fc2", x, 8, 4)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 4");
  EXPECT_THAT(bench.reported, HasSubstr("in float: 1 x layer_norm (no integer form): norm"));
}

/// As in a transformer: queries and keys from one layer, a product, softmax, a normalization.
Graph attention_network() {
  GraphBuilder b("attention");
  const NodeInput x = b.linear("both", b.input("x", {5, 8}), 8, 16);
  const NodeInput parts = b.call("split", {x}, {{"dim", 2}, {"sizes", List{Value(8), Value(8)}}});
  const NodeInput keys = b.call("transpose", {NodeInput::of(parts.node, 1)}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput scores = b.call("matmul", {parts, keys});
  const NodeInput scaled = b.call("div", {scores, NodeInput::of_constant(Value(2.8284271247461903))});
  const NodeInput shares = b.call("softmax", {scaled}, {{"dim", -1}});
  const NodeInput mixed = b.call("matmul", {shares, x});
  const NodeInput norm = b.layer("layer_norm", "norm", {mixed}, {{"weight", {16}}, {"bias", {16}}},
                                 {{"normalized_shape", List{Value(16)}}});
  return b.finish({b.linear("last", norm, 16, 4), b.call("log_softmax", {mixed}, {{"dim", 1}})});
}

TEST(IntegerExecution, ComputesInFloatWhatHasNoIntegerForm) {
  for (const char* options :
       {"", "requantization = \"fixed_point\"", "keep_float = [\"matmul\"]",
        "weight_granularity = \"group\"\nweight_group_size = 4", "elementwise = \"uint16\""}) {
    SCOPED_TRACE(options);
    PassBench bench(attention_network());
    bench.run_passes(fmt::format("[passes.static_quantize]\nnum_samples = 20\n{}\n", options));
    const Tensor inputs = RandomSamples(bench.sample_shape()).samples(3, 8);
    const Comparison comparison = compare_executions(bench.graph, inputs);
    EXPECT_THAT(comparison.disagreements, IsEmpty());
    EXPECT_GT(comparison.operands, 20U);
  }
}

TEST(IntegerExecution, PlansWhatIsComputedWhere) {
  PassBench bench(attention_network());
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20\n");
  std::map<std::string, PlannedNode> plan;
  for (const PlannedNode& node : integer_plan(bench.graph)) plan[node.node] = node;
  for (const char* node : {"both", "matmul", "div", "matmul_1", "last"})
    EXPECT_EQ(plan.at(node).engine, NodeEngine::kCodes) << node;
  for (const char* node : {"split", "transpose"}) EXPECT_EQ(plan.at(node).engine, NodeEngine::kMoves) << node;
  for (const char* node : {"softmax", "norm", "log_softmax"}) {
    EXPECT_EQ(plan.at(node).engine, NodeEngine::kFloat) << node;
    EXPECT_EQ(plan.at(node).dequantized, std::vector<std::string>{"data_in_0"}) << node;
  }
  EXPECT_EQ(plan.at("x").quantized, std::vector<std::string>{"data_out_0"});
  EXPECT_EQ(plan.at("matmul_1").quantized, std::vector<std::string>{"data_in_0"});
  EXPECT_EQ(plan.at("last").quantized, std::vector<std::string>{"data_in_0"});
}

/// As exported with a batch of one that its shapes are made for.
TEST(IntegerExecution, TakesNetworksOfOneSample) {
  GraphBuilder b("one");
  const NodeInput x = b.linear("first", b.input("x", TensorType{DType::kFloat32, {1, 4, 6}}), 6, 8);
  const NodeInput windows = b.call("view", {x, constant(2), constant(2), constant(8)});
  const NodeInput mixed = b.call("softmax", {b.linear("mix", windows, 8, 8)}, {{"dim", 2}});
  PassBench bench(b.finish(b.linear("last", b.call("view", {mixed, constant(1), constant(32)}), 32, 3)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20\n[passes.layerwise_error_analysis]\n");
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(3, 4);
  EXPECT_THAT(compare_executions(bench.graph, inputs).disagreements, IsEmpty());
}

/// Sizes that follow from integers of the network are computed where these are, beside the codes.
TEST(IntegerExecution, TakesNetworksOfIndices) {
  GraphBuilder b("words");
  const NodeInput words = b.input("words", TensorType{DType::kInt64, {kBatchName, 3}});
  const NodeInput rows = b.layer("embedding", "table", {words}, {{"weight", {7, 6}}});
  Graph graph = b.finish(b.linear("fc", rows, 6, 2));
  draw_parameters(graph);
  graph.node("fc").quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.02");
  graph.node("fc").quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.01");
  graph.set_requantization(Requantization::kFloat);
  const Tensor inputs = Tensor::from<int64_t>({2, 3}, std::vector<int64_t>{0, 6, 2, 3, 3, 1});
  EXPECT_THAT(compare_executions(graph, inputs).disagreements, IsEmpty());
}

TEST(IntegerExecution, RefusesGraphsThatAreNotQuantizedForIt) {
  Graph graph = build_model("toy_convnet", {3, 32, 32}, 10);
  graph.nodes()[1].quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.1");
  EXPECT_THAT(error_of([&] { check_integer_execution(graph); }),
              HasSubstr("is not ready for integer execution"));
}

TEST(IntegerExecution, RefusesNaN) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 4");
  Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 1);
  inputs.values<float>()[5] = NAN;
  IntegerProgram integers(bench.graph);
  try {
    integers.run(std::span(&inputs, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("element 5 of its input is NaN"));
  }
}

}  // namespace
}  // namespace detent
