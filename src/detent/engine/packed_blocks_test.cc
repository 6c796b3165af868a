#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "detent/engine/observed_values_for_test.h"
#include "detent/engine/packed_blocks.h"
#include "detent/engine/random_networks_for_test.h"
#include "detent/formats/groups/given_parameters.h"

// Layers whose weights share scales in blocks, against the plain reference, on every instruction set.

namespace detent {
namespace {

using testing::StartsWith;

struct Layer {
  int64_t inputs, outputs;
  std::string weight, input, output;
  bool has_bias;
};

/// With the scales that the weights lead to.
QuantSpec weight_rounding(const std::string& text, const Tensor& weight) {
  const QuantSpec spec = parse_quant_spec_text(text);
  return spec.granularity == Granularity::kGroup ? with_given_parameters(spec, weight) : spec;
}

Graph network(const Layer& layer, std::mt19937& generator) {
  GraphBuilder builder("blocks");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {3, layer.inputs}), layer.inputs,
                                              layer.outputs, layer.has_bias));
  Node& node = graph.node("fc");
  std::normal_distribution<float> normal;
  for (auto& [name, parameter] : node.parameters) {
    for (float& value : parameter->tensor.values<float>())
      value = normal(generator) * std::ldexp(1.0F, static_cast<int>(generator() % 9) - 4);
  }
  node.quantization["data_in_0"] = parse_quant_spec_text(layer.input);
  node.quantization["weight"] = weight_rounding(layer.weight, node.find_parameter("weight")->tensor);
  if (!layer.output.empty()) node.quantization["data_out_0"] = parse_quant_spec_text(layer.output);
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

/// Groups that hold all weights of a channel, which layers compute on as they do on scales by channel.
bool has_whole_channels(const Node& node) {
  const QuantSpec rounding = *node.rounding("weight");
  return rounding.granularity == Granularity::kGroup &&
         *rounding.group_size >= node.find_parameter("weight")->tensor.dim(1);
}

using PackedBlocksTest = EngineTargetTest;

const char* among(Draw& draw, std::initializer_list<const char*> texts) {
  return *(texts.begin() + draw.of(0, std::ssize(texts) - 1));
}

/// Every value in codes of one type, of 8 bits or more, all weights in blocks.
void quantize_blocks(Draw& draw, Graph& graph) {
  const bool is_wide = draw.coin();
  const auto codes = [&](double range) {
    const int64_t width = is_wide ? draw.among({16, 16, 12, 9}) : 8;
    const int64_t zero = draw.coin() ? 0 : draw.of(-100, 100);
    return parse_quant_spec_text(fmt::format("affine:width={},scale={},zero_point={}", width,
                                             2 * range / static_cast<double>(int64_t{1} << width), zero));
  };
  std::map<std::string, QuantSpec> types;
  for (Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kOutput) break;
    if (role == OperatorRole::kInput) {
      types[node.name] = codes(8);
      continue;
    }
    const bool keeps = moves_codes(node);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!keeps) node.quantization[fmt::format("data_in_{}", i)] = types.at(node.inputs[i].node);
    if (keeps) {
      types[node.name] = types.at(node.inputs[0].node);
      continue;
    }
    if (is_weighted_sum(node)) {
      for (auto& [name, parameter] : node.parameters) {
        const Tensor drawn = draw.tensor(parameter->tensor.shape());
        std::ranges::copy(drawn.values<float>(), parameter->tensor.values<float>().begin());
      }
      const char* const format =
          among(draw, {"mx:element=e2m1,block_axis=1", "mx:element=int8,block_axis=1", "nvfp4:block_axis=1",
                       "block_fp:width=5,block_size=20,block_axis=1", "int4_g32"});
      node.quantization["weight"] = weight_rounding(format, node.find_parameter("weight")->tensor);
    }
    types[node.name] = codes(is_weighted_sum(node) ? 20 * std::sqrt(fan_in(node)) : 40);
    node.quantization["data_out_0"] = types[node.name];
  }
  graph.set_requantization(Requantization::kFloat);
}

/// Two convolutions, with a branch, what one of them is followed by, and a mean; and the shape of its input.
/// nullopt where a window does not fit.
std::optional<std::pair<Graph, Shape>> random_convolutions(Draw& draw) {
  const int64_t dims = draw.among({1, 2, 2, 2, 3});
  const int64_t groups = draw.among({1, 1, 1, 2});
  const int64_t in = groups * draw.among({2, 3, 8, 32, 40});
  const int64_t out = groups * draw.among({2, 9, 16, 36, 70});
  const auto sizes = [&](int64_t low, int64_t high) {
    List list;
    for (int64_t d = 0; d < dims; ++d) list.emplace_back(draw.of(low, high));
    return Value(list);
  };
  Shape sample = {in};
  for (int64_t d = 0; d < dims; ++d) sample.push_back(draw.of(3, 8));
  GraphBuilder builder("blocks");
  NodeInput x = builder.input("x", sample);
  const std::vector<int64_t> kernel(static_cast<size_t>(dims), draw.of(1, 3));
  const std::vector<int64_t> one(static_cast<size_t>(dims), 1);
  x = builder.convolution("first", x, in, out, kernel,
                          {{"stride", sizes(1, 2)}, {"padding", sizes(0, 2)}, {"groups", groups}},
                          draw.coin());
  if (draw.coin()) x = builder.call("relu", {x});
  const int64_t way = draw.of(0, 3);
  const std::string pool = fmt::format("max_pool{}d", dims);
  const std::string mean = fmt::format("avg_pool{}d", dims);
  if (way == 0) x = builder.call(pool, {x}, {{"kernel_size", sizes(1, 2)}, {"stride", sizes(1, 2)}});
  if (way == 1) x = builder.call("add", {x, builder.convolution("branch", x, out, out, one)});
  if (way == 2) x = builder.call("cat", {x, x}, {{"dim", 2}});
  if (way == 3) x = builder.call("relu6", {x});
  x = builder.call(mean, {x}, {{"kernel_size", sizes(1, 2)}, {"stride", int64_t{1}}});
  x = builder.convolution("last", x, out, 5, one);
  std::optional<Graph> graph;
  try {
    graph = builder.finish(builder.call("flatten", {x}, {{"start_dim", 1}}));
    static_cast<void>(infer_shapes(*graph));
  } catch (const Error&) {
    return std::nullopt;
  }
  quantize_blocks(draw, *graph);
  sample.insert(sample.begin(), draw.of(1, 2));
  return std::pair(std::move(*graph), sample);
}

/// Ours, by the kernel, and the reference's results and, on observed runs, those of the weights that were
/// unpacked.
void expect_kernel(const Graph& graph, const Tensor& x, const char* kernel) {
  const Tensor wanted = IntegerProgram(graph).run(std::span(&x, 1)).front();
  const ObservedFloats before = values_before_rounding(IntegerProgram(graph), x);
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    const FastProgram program(graph);
    std::vector<std::string> kernels;
    for (const StepProfile& step : program.profile(std::span(&x, 1), 1)) kernels.push_back(step.kernel);
    EXPECT_THAT(kernels, testing::Contains(StartsWith(kernel))) << target;
    EXPECT_EQ(values_before_rounding(program, x), before) << target << ", unpacked";
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      EXPECT_TRUE(program.run(std::span(&x, 1)).front().equals(wanted)) << target << ", " << threads;
    }
  }
}

TEST_F(PackedBlocksTest, AreEqualToTheReference) {
  std::mt19937 generator(1);
  const auto among = [&](const auto& list) { return *(list.begin() + generator() % list.size()); };
  const std::initializer_list<int64_t> inputs = {1, 31, 32, 33, 100, 256, 999};
  const std::initializer_list<int64_t> outputs = {1, 16, 17, 70, 150};
  const std::initializer_list<const char*> weights = {"mx:element=e2m1",
                                                      "mx:element=e2m3",
                                                      "mx:element=int8",
                                                      "mx:element=e2m1,block_size=16",
                                                      "block_fp:width=4",
                                                      "block_fp:width=8,block_size=20",
                                                      "mx:element=e2m1,block_size=-1",
                                                      "nvfp4",
                                                      "nvfp4:tensor_scale=0.3",
                                                      "int4_g32",
                                                      "int8_g64",
                                                      "uint4_g16",
                                                      "int3_g1000",
                                                      "uint5_g20"};
  const std::initializer_list<const char*> types = {"affine:scale=0.1",
                                                    "affine:signed=false,scale=0.1,zero_point=0",
                                                    "affine:scale=0.1,width=4",
                                                    "affine:signed=false,scale=0.1,zero_point=100",
                                                    "affine:scale=0.1,zero_point=-77",
                                                    "affine:signed=false,scale=0.1,zero_point=255",
                                                    "affine:width=16,scale=0.001",
                                                    "affine:width=16,signed=false,scale=0.001,zero_point=0",
                                                    "affine:width=11,scale=0.01,zero_point=1000",
                                                    "binary"};
  const std::initializer_list<const char*> results = {"", "affine:scale=0.3",
                                                      "affine:signed=false,width=5,scale=2,zero_point=9",
                                                      "affine:width=14,scale=0.01,zero_point=-7"};
  constexpr int kLayers = 220;
  int computed = 0;
  for (int i = 0; i < kLayers; ++i) {
    const Layer layer{among(inputs), among(outputs), among(weights),
                      among(types),  among(results), generator() % 2 == 0};
    SCOPED_TRACE(fmt::format("{}: {} x {}, {}, {}, {}", i, layer.outputs, layer.inputs, layer.weight,
                             layer.input, layer.output));
    const Graph graph = network(layer, generator);
    if (!block_sum_form(graph.node("fc"))) continue;  // blocks too long to add exactly
    ++computed;
    Tensor x(DType::kFloat32, {2, 3, layer.inputs});
    std::normal_distribution<float> normal(0, 5);
    for (float& value : x.values<float>()) value = normal(generator);
    expect_kernel(graph, x, has_whole_channels(graph.node("fc")) ? "linear" : "blocks of");
    if (HasFailure()) break;
  }
  EXPECT_GT(computed, kLayers * 3 / 4);
}

/// Convolutions of one to three dimensions between nodes that move, pool and add codes of 8 bits or more.
TEST_F(PackedBlocksTest, ConvolutionsAreEqualToTheReference) {
  constexpr uint32_t kNetworks = 120;
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(900 + seed);
    const auto network = random_convolutions(draw);
    if (!network) continue;
    expect_equal_to_reference(network->first, draw.tensor(network->second, 3), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["blocks"], 125);
  EXPECT_GT(kernels["convolution"], 12) << "in float, where blocks are short";
  EXPECT_GT(kernels["addition"] + kernels["pairs"], 12);
  EXPECT_GT(kernels["mean"], 12);
  EXPECT_GT(kernels["largest"], 12);
  EXPECT_EQ(kernels["reference"], 0);
}

TEST_F(PackedBlocksTest, TakeFourBitsWhereSixteenNumbersDo) {
  std::mt19937 generator(2);
  const auto packed = [&](const char* weight) {
    const Graph graph = network({64, 32, weight, "affine:scale=0.1", "", false}, generator);
    return packed_blocks(*block_sum_form(graph.node("fc")), graph.node("fc"), kernel_set());
  };
  const PackedBlocks narrow = packed("mx:element=e2m1");
  EXPECT_TRUE(narrow.nibbles);
  EXPECT_EQ(narrow.byte_size(), 64 * 32 / 2 + 64 * 32 / 32);  // codes and scales
  EXPECT_FALSE(packed("mx:element=int8").nibbles);
  const PackedBlocks scaled = packed("nvfp4");
  EXPECT_TRUE(scaled.nibbles);
  EXPECT_EQ(scaled.byte_size(), 64 * 32 / 2 + 2 * 64 * 32 / 16);
  const PackedBlocks grouped = packed("int4_g32");
  EXPECT_TRUE(grouped.nibbles);
  EXPECT_EQ(grouped.byte_size(), 64 * 32 / 2 + 4 * 64 * 32 / 32);
}

/// -128, which a scale that follows from the largest magnitude never gives.
TEST_F(PackedBlocksTest, TakeTheLeastWeightOfEightBits) {
  std::mt19937 generator(3);
  Graph graph = network({64, 8, "int8_g32", "affine:scale=0.1", "", false}, generator);
  Node& node = graph.node("fc");
  node.quantization["weight"] =
      parse_quant_spec_text("affine:granularity=group,group_size=32,scale=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1");
  node.find_parameter("weight")->tensor.values<float>()[5] = -128;
  Draw draw(4);
  expect_kernel(graph, draw.tensor({2, 3, 64}, 5), "blocks of");
}

}  // namespace
}  // namespace detent
