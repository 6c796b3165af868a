// Graphs beyond one float32 result a node: several results, outputs and inputs, element types, named
// dimensions, absent operands, tied weights; in execution, in files and under passes.

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/datasets/dataset.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/array_files.h"
#include "detent/files/safetensors.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Graph saved_and_read(const Graph& graph) {
  const std::string path = testing::TempDir() + "detent_values_" + std::to_string(getpid()) + ".mz";
  write_graph(path, graph);
  Graph read = read_graph(path);
  std::remove(path.c_str());
  return read;
}

Tensor first_samples(const Dataset& dataset, int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i);
  return dataset.batch(indices).inputs.front();
}

/// x [N, 6] -> linear -> split into 2 and 4 -> both, and their joined reverse, are outputs.
Graph split_network() {
  GraphBuilder builder("parts");
  const NodeInput x = builder.linear("fc", builder.input("x", {6}), 6, 6);
  const NodeInput first = builder.call("split", {x}, {{"sizes", List{2, 4}}, {"dim", 1}});
  const NodeInput second = NodeInput::of(first.node, 1);
  const NodeInput joined = builder.call("cat", {second, first}, {{"dim", 1}});
  Graph graph = builder.finish({first, second, joined});
  initialize_parameters(graph);
  return graph;
}

TEST(GraphValues, NodesMayHaveSeveralResultsAndNetworksSeveralOutputs) {
  const Graph graph = split_network();
  const at::Tensor x = at::randn({3, 6});
  const std::vector<at::Tensor> outputs = torch_outputs(graph, {x});
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_EQ(outputs[0].sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(outputs[1].sizes(), at::IntArrayRef({3, 4}));
  EXPECT_TRUE(outputs[2].slice(1, 4).equal(outputs[0]));
  EXPECT_TRUE(outputs[2].slice(1, 0, 4).equal(outputs[1]));
  const std::vector<at::Tensor> again = torch_outputs(saved_and_read(graph), {x});
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i].equal(again[i])) << i;
}

TEST(GraphValues, EachResultHasItsOwnFormat) {
  Graph graph = split_network();
  graph.node("split").quantization["data_out_1"] = parse_quant_spec_text("affine:width=2,scale=0.5");
  const at::Tensor x = at::randn({5, 6});
  const std::vector<at::Tensor> outputs = torch_outputs(graph, {x});
  EXPECT_TRUE(outputs[1].div(0.5).round().mul(0.5).equal(outputs[1]));
  EXPECT_FALSE(outputs[0].div(0.5).round().mul(0.5).equal(outputs[0]));
  EXPECT_TRUE(outputs[2].slice(1, 0, 4).equal(outputs[1]));
}

TEST(GraphValues, PassesFollowEveryResult) {
  PassBench bench(split_network());
  bench.run_passes(
      "[passes.profile_statistics]\nby = \"name\"\ntarget_activation_nodes = [\"split\", \"cat\"]\n"
      "profile_output_activation = true\nnum_samples = 20\n"
      "[passes.profile_statistics.activation_statistics.range_min_max]\n");
  const NodeStatistics& split = bench.graph.node("split").statistics;
  ASSERT_NE(split.find("data_out_1"), nullptr);
  EXPECT_NE(*split.find("data_out_0"), *split.find("data_out_1"));
  EXPECT_EQ(*split.find("data_out_1"), *bench.graph.node("cat").statistics.find("data_in_0"));
  bench.run_passes(
      "[passes.static_quantize]\nnum_samples = 20\n[passes.bias_correction]\nnum_samples = 20\n");
  EXPECT_THAT(bench.reported, Not(HasSubstr("in float:")));
  const auto types = result_types(bench.graph);
  EXPECT_TRUE(types.contains("split:1"));
  EXPECT_EQ(types.at("split:1"), types.at("split"));
}

/// tokens int64 [N, sequence] -> embedding -> linear -> logits against the embedding's own rows.
Graph tied_network() {
  GraphBuilder builder("tied");
  const NodeInput tokens = builder.input("tokens", TensorType{DType::kInt64, {kBatchName, "sequence"}});
  const NodeInput rows = builder.layer("embedding", "embed", {tokens}, {{"weight", {11, 4}}});
  const NodeInput mixed = builder.linear("mix", rows, 4, 4);
  Graph graph = builder.finish(builder.tied_layer("linear", "head", {mixed}, "weight", rows));
  initialize_parameters(graph);
  return graph;
}

TEST(GraphValues, InputsMayBeIntegersOfNamedSizes) {
  const Graph graph = tied_network();
  Interpreter interpreter(graph);
  for (const int64_t sequence : {1, 7}) {
    const at::Tensor tokens = at::arange(2 * sequence).remainder(11).view({2, sequence});
    EXPECT_EQ(interpreter.run({tokens}).sizes(), at::IntArrayRef({2, sequence, 11}));
  }
  EXPECT_EQ(infer_shapes(graph, {{kBatchName, 3}, {"sequence", 5}}).at("head").shape, (Shape{3, 5, 11}));
  EXPECT_THAT(error_of([&] {
                interpreter.run({at::randn({2, 3})});
              }),
              HasSubstr("input \"tokens\": got float32 of shape [2, 3], expected int64 [N, sequence]"));
  EXPECT_THAT(error_of([&] { interpreter.run({at::arange(3)}); }), HasSubstr("expected int64 [N, sequence]"));
}

TEST(GraphValues, TiedWeightsAreOneParameter) {
  Graph graph = tied_network();
  EXPECT_EQ(graph.parameter_count(), 11 * 4 + 4 * 4 + 4);
  const Interpreter training(graph);
  EXPECT_EQ(training.trainable_parameters().size(), 3U);
  const at::Tensor tokens = at::arange(6).view({2, 3});
  training.outputs({tokens}).front().sum().backward();
  const at::Tensor gradient = training.trainable_parameters().front().grad();
  EXPECT_GT(gradient[10].abs().sum().item<float>(), 0) << "the head reads all rows, the embedding only six";

  for (Graph* copy : {&graph}) {
    const Graph copies[] = {*copy, copy->deep_copy(), saved_and_read(*copy)};
    for (const Graph& other : copies) {
      EXPECT_EQ(other.node("embed").find_parameter("weight"), other.node("head").find_parameter("weight"));
      EXPECT_NE(other.node("embed").find_parameter("weight"), graph.node("embed").find_parameter("weight"));
      EXPECT_EQ(other.parameter_count(), graph.parameter_count());
    }
  }
}

TEST(GraphValues, TiedWeightsInCheckpoints) {
  Graph graph = tied_network();
  StateDict state = state_dict(graph);
  ASSERT_EQ(state.size(), 4U);
  EXPECT_EQ(state[0].first, "embed.weight");
  EXPECT_EQ(state[1].first, "head.weight");
  StateDict one_key = {state[1], state[2], state[3]};  // as files leave duplicates out
  load_state_dict(graph, one_key, "f");
  state[1].second = state[1].second.clone();
  state[1].second.values<float>()[0] += 1;
  EXPECT_THAT(error_of([&] { load_state_dict(graph, state, "f"); }),
              HasSubstr("\"embed.weight\" and \"head.weight\" differ, and are one weight of the network"));
}

TEST(GraphValues, OperandsMayBeAbsent) {
  GraphBuilder builder("bounded");
  const NodeInput x = builder.input("x", {4});
  const NodeInput above = builder.call("clamp", {x, constant(0), NodeInput::absent()});
  const NodeInput below = builder.call("clamp", {x, NodeInput::absent(), constant(1)});
  const Graph graph = saved_and_read(
      builder.finish({above, below, builder.call("clamp", {x, NodeInput::absent(), NodeInput::absent()})}));
  const at::Tensor values = at::randn({8, 4}).mul(3);
  const std::vector<at::Tensor> outputs = torch_outputs(graph, {values});
  EXPECT_TRUE(outputs[0].equal(values.clamp_min(0)));
  EXPECT_TRUE(outputs[1].equal(values.clamp_max(1)));
  EXPECT_TRUE(outputs[2].equal(values));
}

TEST(GraphValues, ElementTypesArePropagatedAndChecked) {
  GraphBuilder builder("types");
  const NodeInput x = builder.input("x", {4});
  const NodeInput whole = builder.call("cast", {x}, {{"dtype", "int32"}});
  const NodeInput sum = builder.call("add", {whole, constant(2)});
  const NodeInput back = builder.call("cast", {sum}, {{"dtype", "float32"}});
  Graph graph = builder.finish({sum, back});
  EXPECT_EQ(infer_shapes(graph).at("add").dtype, DType::kInt32);
  const at::Tensor values = at::randn({2, 4}).mul(5);
  const std::vector<at::Tensor> outputs = torch_outputs(graph, {values});
  EXPECT_EQ(outputs[0].scalar_type(), at::kInt);
  EXPECT_TRUE(outputs[1].equal(values.trunc().add(2)));

  Graph mixed = graph;
  mixed.node("add").inputs[1] = NodeInput::of("x");
  EXPECT_THAT(error_of([&] { verify(mixed); }),
              HasSubstr("node \"add\" (add): input 1 is float32, expected int32"));
  graph.node("add").quantization["data_in_0"] = parse_quant_spec_text("fixed");
  EXPECT_THAT(error_of([&] { verify(graph); }),
              HasSubstr("operand \"data_in_0\" is quantized, and is int32, expected a float32 tensor"));
}

TEST(GraphValues, QuantizersAreSharedByAllWhoReadAValue) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\n");
  const auto shared = [](const Graph& graph) {
    size_t count = 0;
    for (const Node& node : graph.nodes()) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const auto read = node.quantization.find(fmt::format("data_in_{}", i));
        if (read == node.quantization.end()) continue;
        const Node& giver = graph.node(node.inputs[i].node);
        const auto given = giver.quantization.find("data_out_0");
        if (given == giver.quantization.end()) continue;
        EXPECT_TRUE(given->second.is(read->second)) << giver.name << " " << node.name;
        ++count;
      }
    }
    return count;
  };
  const size_t count = shared(bench.graph);
  EXPECT_GT(count, 0U);
  EXPECT_EQ(shared(saved_and_read(bench.graph)), count);
  const Graph copy = bench.graph;
  EXPECT_EQ(shared(copy), count);
  for (const Node& node : copy.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization)
      EXPECT_FALSE(quantizer.is(bench.graph.node(node.name).quantization.at(operand)))
          << "a copy has its own";
  }
}

/// As the README beside the files says.
void expect_recorded_outputs(const std::string& folder) {
  for (const auto& [name, dataset] :
       {std::pair("digits_int8", "digits"), std::pair("toy_learned_scale", "toy_tiny")}) {
    SCOPED_TRACE(name);
    const Graph graph = read_graph(folder + name + ".mz");
    const Tensor expected = read_npy(folder + name + "_logits.npy");
    const Tensor inputs = first_samples(*make_dataset(dataset, Split::kTest, {}), expected.dim(0));
    const auto expect_equal = [&](const Tensor& actual, float tolerance) {
      ASSERT_EQ(actual.shape(), expected.shape());
      for (size_t i = 0; i < expected.values<float>().size(); ++i)
        EXPECT_NEAR(actual.values<float>()[i], expected.values<float>()[i], tolerance) << i;
    };
    // In float, the last bits depend on the processor.
    const float tolerance = graph.requantization() ? 0 : 1e-6F;
    expect_equal(FastExecutor().run(graph, {&inputs, 1}), tolerance);
    expect_equal(FastExecutor().run(saved_and_read(graph), {&inputs, 1}), tolerance);
    if (graph.requantization()) expect_equal(IntegerProgram(graph).run({&inputs, 1}).front(), 0);
  }
  const Graph measured = read_graph(folder + "toy_learned_scale.mz");
  EXPECT_TRUE(
      std::ranges::any_of(measured.nodes(), [](const Node& node) { return !node.statistics.empty(); }));
}

TEST(GraphValues, GraphsOfEarlierVersionsGiveEqualOutputs) {
  for (const char* version : {"2", "3"}) {
    SCOPED_TRACE(version);
    expect_recorded_outputs(std::string(DETENT_SOURCE_DIR "/tests/data/graphs_of_version_") + version + "/");
  }
}

/// Learned scales keep the keys that checkpoints have for them, and their order.
TEST(GraphValues, LearnedScalesOfEarlierVersionsBelongToQuantizers) {
  for (const char* version : {"2", "3"}) {
    SCOPED_TRACE(version);
    const std::string path =
        std::string(DETENT_SOURCE_DIR "/tests/data/graphs_of_version_") + version + "/toy_learned_scale.mz";
    const Graph graph = read_graph(path);
    const StateDict stored = read_safetensors(path).tensors;
    const StateDict state = state_dict(graph);
    ASSERT_EQ(state.size(), 4U);
    EXPECT_EQ(state.back().first, "l1.weight_scale");
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(state[i].first, stored[i].first);
      EXPECT_TRUE(state[i].second.equals(stored[i].second)) << state[i].first;
    }
    EXPECT_EQ(graph.node("l1").parameters.size(), 2U);
    EXPECT_NE(graph.node("l1").find_quantizer("weight")->find_parameter("scale"), nullptr);
  }
}

TEST(GraphValues, ProgramsDoNotSeeLaterChanges) {
  Graph graph = split_network();
  const std::unique_ptr<const Program> program = IntegerExecutor().compile(graph);
  const Tensor x = from_torch(at::randn({2, 6}));
  const Tensor before = program->run({&x, 1}).front();
  graph.node("fc").find_parameter("weight")->tensor = Tensor(DType::kFloat32, {6, 6});
  EXPECT_TRUE(program->run({&x, 1}).front().equals(before));
  EXPECT_FALSE(IntegerExecutor().run(graph, {&x, 1}).equals(before));
}

}  // namespace
}  // namespace detent
