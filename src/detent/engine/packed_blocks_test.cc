#include "detent/engine/packed_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "detent/core/parallel.h"
#include "detent/engine/engine_target_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/runtime/integer_executor.h"

// Layers whose weights share scales in blocks, against the plain reference, on every instruction set.

namespace detent {
namespace {

using testing::StartsWith;

struct Layer {
  int64_t inputs, outputs;
  std::string weight, input, output;
  bool has_bias;
};

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
  node.quantization["weight"] = parse_quant_spec_text(layer.weight);
  if (!layer.output.empty()) node.quantization["data_out_0"] = parse_quant_spec_text(layer.output);
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

using PackedBlocksTest = EngineTargetTest;

/// Ours and the reference's results and, on observed runs, those of the weights that were unpacked.
void expect_equal_to_reference(const Graph& graph, const Tensor& x) {
  const Tensor wanted = IntegerProgram(graph).run(std::span(&x, 1)).front();
  const auto ignore = [](const Node&, std::string_view, const Tensor&) {};
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    const FastProgram program(graph);
    std::vector<std::string> kernels;
    for (const StepProfile& step : program.profile(std::span(&x, 1), 1)) kernels.push_back(step.kernel);
    EXPECT_THAT(kernels, testing::Contains(StartsWith("blocks of"))) << target;
    EXPECT_TRUE(program.run(std::span(&x, 1), ignore).front().equals(wanted)) << target << ", unpacked";
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
                                                      "nvfp4:tensor_scale=0.3"};
  const std::initializer_list<const char*> types = {"affine:scale=0.1",
                                                    "affine:signed=false,scale=0.1,zero_point=0",
                                                    "affine:scale=0.1,width=4",
                                                    "affine:signed=false,scale=0.1,zero_point=100",
                                                    "affine:scale=0.1,zero_point=-77",
                                                    "affine:signed=false,scale=0.1,zero_point=255",
                                                    "binary"};
  const std::initializer_list<const char*> results = {"", "affine:scale=0.3",
                                                      "affine:signed=false,width=5,scale=2,zero_point=9"};
  constexpr int kLayers = 150;
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
    expect_equal_to_reference(graph, x);
    if (HasFailure()) break;
  }
  EXPECT_GT(computed, kLayers * 3 / 4);
}

TEST_F(PackedBlocksTest, TakeFourBitsWhereSixteenNumbersDo) {
  std::mt19937 generator(2);
  const auto packed = [&](const char* weight) {
    const Graph graph = network({64, 32, weight, "affine:scale=0.1", "", false}, generator);
    return packed_blocks(*block_sum_form(graph.node("fc")), kernel_set());
  };
  const PackedBlocks narrow = packed("mx:element=e2m1");
  EXPECT_TRUE(narrow.nibbles);
  EXPECT_EQ(narrow.byte_size(), 64 * 32 / 2 + 64 * 32 / 32);  // codes and scales
  EXPECT_FALSE(packed("mx:element=int8").nibbles);
  const PackedBlocks scaled = packed("nvfp4");
  EXPECT_TRUE(scaled.nibbles);
  EXPECT_EQ(scaled.byte_size(), 64 * 32 / 2 + 2 * 64 * 32 / 16);
}

}  // namespace
}  // namespace detent
