#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/connections.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/training/trainer.h"

// LogicNets: networks with few inputs an output, trained, and as truth tables.

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int draw(int low, int high) { return *rc::gen::inRange(low, high + 1); }

const char* draw_format() {
  return *rc::gen::element("fixed:width=2,frac_width=1", "fixed:width=1,frac_width=0,signed=false",
                           "affine:width=2,scale=0.37,signed=false",
                           "affine:width=3,scale=0.4,symmetric=true", "binary:bipolar=true,scaling=none",
                           "fp4_e2m1", "codebook:values=-1.5x-0.25x0.5x0.75",
                           "minifloat_ieee:width=4,exponent_width=2,exponent_bias=1");
}

/// Keeps `fan_in` weights of each row of the layers, or fewer.
void draw_connections(Graph& graph, int64_t fan_in) {
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    Tensor& weight = node.find_parameter("weight")->tensor;
    const int64_t row = weight.numel() / weight.dim(0);
    for (int64_t o = 0; o < weight.dim(0); ++o) {
      std::set<int64_t> kept;
      for (int64_t k = 0; k < fan_in; ++k) kept.insert(draw(0, static_cast<int>(row) - 1));
      for (int64_t i = 0; i < row; ++i) {
        if (!kept.contains(i)) weight.values<float>()[static_cast<size_t>(o * row + i)] = 0;
      }
    }
  }
}

/// Layers of rows, or convolutions in front of one; a norm or activation, or both, after each.
Graph draw_network() {
  GraphBuilder builder("network");
  const int dims = draw(0, 2);
  int64_t channels = 2 * draw(1, 3);
  Shape shape = {channels};
  for (int d = 0; d < dims; ++d) shape.push_back(draw(3, 6));
  NodeInput x = builder.input("x", shape);
  const auto norm = [&](const std::string& name, size_t rank) {
    x = builder.batch_norm(rank < 4 ? "batch_norm1d" : "batch_norm2d", name, x, channels);
  };
  const auto behind = [&](const std::string& name, size_t rank) {
    if (draw(0, 2) > 0) norm(name, rank);
    if (draw(0, 2) > 0)
      x = builder.call(*rc::gen::element<const char*>("relu", "relu6", "hardsigmoid", "tanh"), {x});
  };
  if (dims == 0 && draw(0, 1) == 1) norm("head", 2);
  if (dims > 0) {
    const int64_t out = 2 * draw(1, 3);
    const Table attributes = {{"padding", draw(0, 1)}, {"stride", draw(1, 2)}, {"groups", draw(1, 2)}};
    x = builder.convolution("conv", x, channels, out, Shape(static_cast<size_t>(dims), 2), attributes,
                            draw(0, 1) == 1);
    channels = out;
    behind("conv_norm", static_cast<size_t>(dims) + 2);
    x = builder.call("flatten", {x});
    Graph probe = GraphBuilder(builder).finish(x);
    channels = infer_shapes(probe).at(x.node).shape[1];
  }
  for (const char* name : {"fc1", "fc2"}) {
    const int64_t out = draw(1, 6);
    x = builder.linear(name, x, channels, out, draw(0, 1) == 1);
    channels = out;
    behind(std::string(name) + "_norm", 2);
  }
  return builder.finish(x);
}

/// Every layer's inputs, those of a head in front of it, and the outputs.
void draw_roundings(Graph& graph) {
  for (Node& node : graph.nodes()) {
    const bool has_head = node.name == "fc1" && graph.find("head") != nullptr;
    if ((is_weighted_sum(node) && !has_head) || node.name == "head")
      node.quantization["data_in_0"] = parse_quant_spec_text(draw_format());
  }
  graph.node(graph.nodes().back().inputs[0].node).quantization["data_out_0"] =
      parse_quant_spec_text(draw_format());
}

RC_GTEST_PROP(LogicNets, TablesAreTheNetworkBitForBit, ()) {
  Graph drawn = draw_network();
  draw_roundings(drawn);
  PassBench bench(std::move(drawn), static_cast<uint64_t>(draw(0, 1000)));
  draw_connections(bench.graph, draw(1, 3));
  const Graph network = bench.graph.deep_copy();
  bench.run_passes("[passes.logicnets_fusion]\n");
  RC_LOG() << bench.reported;
  for (const Node& node : bench.graph.nodes()) RC_ASSERT(!is_weighted_sum(node) && !is_batch_norm(node));
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(3, 20);
  const Tensor before = bench.executor.run(network, std::span(&inputs, 1));
  const Tensor expected = bench.executor.run(bench.graph, std::span(&inputs, 1));
  // Small floats have two zeros, codes have one.
  RC_ASSERT(std::ranges::equal(before.values<float>(), expected.values<float>()));
  RC_ASSERT(IntegerProgram(bench.graph).run(std::span(&inputs, 1)).front().equals(expected));
  RC_ASSERT(FastProgram(bench.graph).run(std::span(&inputs, 1)).front().equals(expected));
}

Graph two_layers() {
  GraphBuilder builder("two_layers");
  NodeInput x = builder.linear("fc1", builder.input("x", {8}), 8, 6);
  x = builder.call("relu", {builder.batch_norm("batch_norm1d", "norm", x, 6)});
  return builder.finish(builder.linear("fc2", x, 6, 3));
}

/// With 2 bits everywhere and three inputs an output.
std::unique_ptr<PassBench> sparse_bench(const char* quantize = "") {
  auto bench = std::make_unique<PassBench>(two_layers());
  for (Node& node : bench->graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    Tensor& weight = node.find_parameter("weight")->tensor;
    for (int64_t i = 0; i < weight.numel(); ++i) {
      if ((i + i / weight.dim(1)) % 2 == 1) weight.values<float>()[static_cast<size_t>(i)] = 0;
    }
  }
  if (*quantize != 0) bench->run_passes(quantize);
  return bench;
}

constexpr const char* kTwoBits = R"(
[passes.quantize]
by = "name"
report = false
[passes.quantize.fc1.config]
name = "logicnets"
data_in_width = 2
data_in_frac_width = 1
data_out_width = 2
data_out_frac_width = 0
additional_layers_outputs = ["norm", "relu"]
[passes.quantize.fc2.config]
name = "logicnets"
data_in_width = 3
data_in_frac_width = 0
data_out_width = 4
data_out_frac_width = 2
additional_layers_outputs = ["output"]
)";

TEST(LogicNets, QuantizeTakesMasesKeys) {
  const auto bench = sparse_bench(kTwoBits);
  EXPECT_EQ(bench->graph.node("fc1").quantization.size(), 1U) << "weights stay in float";
  EXPECT_EQ(quant_spec_text(*bench->graph.node("relu").find_quantization("data_out_0")),
            quant_spec_text(parse_quant_spec_text("fixed:width=2,frac_width=0")));
  const Graph network = bench->graph.deep_copy();
  bench->run_passes(
      "[passes.logicnets_fusion.fc1.config]\nadditional_layers_outputs = [\"norm\", \"relu\"]\n"
      "[passes.logicnets_fusion.fc2.config]\n");
  EXPECT_THAT(bench->reported, AllOf(HasSubstr("2 layers became truth tables"), HasSubstr("norm relu"),
                                     HasSubstr("0 of 60 outputs differ")));
  EXPECT_EQ(bench->graph.node_names(), (std::vector<std::string>{"x", "fc1", "fc2", "output"}));
  const TableLayerView fc1 = table_layer_view(bench->graph.node("fc1"));
  EXPECT_EQ(fc1.entries, 4 * 4 * 4 * 4);
  EXPECT_EQ(fc1.output_values.size(), 4U);
  EXPECT_EQ(bench->outputs(network), bench->outputs(bench->graph));
}

TEST(LogicNets, OutputsWithoutInputsAreConstants) {
  const auto bench = sparse_bench(kTwoBits);
  to_torch(bench->graph.node("fc1").find_parameter("weight")->tensor).select(0, 2).zero_();
  const Graph network = bench->graph.deep_copy();
  bench->run_passes("[passes.logicnets_fusion]\n");
  const TableLayerView fc1 = table_layer_view(bench->graph.node("fc1"));
  EXPECT_THAT(fc1.table_of(2, 0), testing::Each(fc1.table_of(2, 0)[0]));
  EXPECT_EQ(bench->outputs(network), bench->outputs(bench->graph));
}

TEST(LogicNets, RefusesWhatHasNoTables) {
  const std::string fusion = "[passes.logicnets_fusion]\n";
  EXPECT_THAT(sparse_bench()->error_of(fusion),
              AllOf(HasSubstr("no layer can become tables"), HasSubstr("nothing rounds what fc1 takes in")));
  EXPECT_THAT(sparse_bench(kTwoBits)->error_of(fusion + "max_address_bits = 7\n"),
              HasSubstr("[passes.logicnets_fusion]: node \"fc1\": 4 connections of 4 values are 8 bits of "
                        "address, expected at most 7 (key \"max_address_bits\"): 6 tables of 256 entries"));
  EXPECT_THAT(sparse_bench(kTwoBits)->error_of(
                  "[passes.logicnets_fusion.fc2.config]\nadditional_layers_inputs = [\"norm\"]\n"),
              HasSubstr("node \"norm\" is not between \"fc2\" and the roundings around it"));
  const auto derived = sparse_bench();
  derived->graph.node("fc1").quantization["data_in_0"] = parse_quant_spec_text("affine:width=2");
  EXPECT_THAT(derived->error_of(fusion), HasSubstr("the input of fc1 has a format without a finite list"));
  const auto bench = sparse_bench(kTwoBits);
  bench->run_passes(fusion);
  EXPECT_THAT(bench->error_of(fusion + "layers = [\"fc1\"]\n"),
              HasSubstr("node \"fc1\" (lut) is a truth table already"));
  EXPECT_THAT(bench->error_of(fusion), HasSubstr("there is no linear, conv1d or conv2d"));
}

TEST(LogicNets, DenseLayersAreTablesToo) {
  PassBench bench(build_model("jsc_tiny", {5}, 3));
  bench.run_passes(R"(
[passes.quantize]
by = "name"
report = false
[passes.quantize.seq_blocks_2.config]
name = "logicnets"
data_in_width = 2
data_in_frac_width = 0
data_out_width = 5
data_out_frac_width = 3
additional_layers_inputs = ["seq_blocks_0", "seq_blocks_1"]
additional_layers_outputs = ["seq_blocks_3"]
[passes.logicnets_fusion]
)");
  EXPECT_EQ(bench.graph.node_names(), (std::vector<std::string>{"x", "seq_blocks_2", "output"}));
  EXPECT_THAT(bench.reported, HasSubstr("0 of 60 outputs differ"));
}

struct Trained {
  Graph graph;
  std::vector<EpochReport> reports;
};

Trained train_sparse(const TrainingOptions& options, const char* loaded = nullptr) {
  const auto training_set = make_dataset("digits", Split::kTrain);
  const auto validation_set = make_dataset("digits", Split::kTest);
  seed_everything(0);
  Trained run{build_model("digits_logicnet", {1, 8, 8}, 10), {}};
  initialize_parameters(run.graph);
  if (loaded != nullptr)
    to_torch(run.graph.node(loaded).find_parameter("weight")->tensor).narrow(1, 3, 60).zero_();
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { run.reports.push_back(report); };
  train(run.graph, *training_set, *validation_set, options, hooks);
  return run;
}

Connections connections(const Graph& graph, const char* layer) {
  return Connections(graph.node(layer).find_parameter("weight")->tensor);
}

class FanIn : public testing::TestWithParam<ConnectionChoice> {};

TEST_P(FanIn, IsWhatTrainingLeaves) {
  TrainingOptions options;
  options.max_epochs = 20;
  options.learning_rate = 1e-2;
  options.fan_in = {5, 3, 3, 0};
  options.connections = GetParam();
  const Trained run = train_sparse(options);
  for (const auto& [layer, fan_in] : {std::pair("layers_0", 5), {"layers_3", 3}, {"layers_6", 3}}) {
    const Connections kept = connections(run.graph, layer);
    EXPECT_EQ(kept.most(), fan_in) << layer;
    EXPECT_EQ(kept.total(), fan_in * kept.outputs()) << layer;
  }
  EXPECT_EQ(connections(run.graph, "layers_9").most(), 120);
  EXPECT_GT(run.reports.back().validation.accuracy(), 0.5);
  EXPECT_EQ(run.reports.front().is_best, GetParam() != ConnectionChoice::kGradual) << "too many inputs";
}

INSTANTIATE_TEST_SUITE_P(Choices, FanIn,
                         testing::Values(ConnectionChoice::kGradual, ConnectionChoice::kRandom,
                                         ConnectionChoice::kMagnitude));

TEST(LogicNets, GivenConnectionsStay) {
  TrainingOptions options;
  options.max_epochs = 1;
  options.connections = ConnectionChoice::kGiven;
  const Trained run = train_sparse(options, "layers_0");
  const Connections kept = connections(run.graph, "layers_0");
  EXPECT_EQ(kept.most(), 4);
  for (const auto& [index, weight] : kept.of(7)) EXPECT_TRUE(index < 3 || index == 63);
  options.fan_in = {4, 4};
  EXPECT_THAT(error_of([&] { train_sparse(options); }),
              HasSubstr("fan_in: got 2 numbers, expected one, or one for each of the 4 layers"));
}

/// Where training stops does not show: the connections are in the weights.
TEST(LogicNets, GradualPruningResumes) {
  const auto training_set = make_dataset("digits", Split::kTrain);
  TrainingOptions options;
  options.max_epochs = 4;
  options.fan_in = {4};
  seed_everything(0);
  Graph whole = build_model("digits_logicnet", {1, 8, 8}, 10);
  initialize_parameters(whole);
  Graph resumed = whole.deep_copy();
  const TemporaryPath path("state");
  constexpr int64_t kMiddle = 17;
  TrainingHooks hooks;
  hooks.save_every = kMiddle;
  hooks.save = [&](const TrainingState& state) {
    if (state.progress.global_step == kMiddle) write_training(path.get(), {state, {}, {}});
  };
  train(whole, *training_set, *training_set, options, hooks);
  const SavedTraining middle = read_training(path.get());
  hooks = {};
  hooks.resume = &middle.state;
  hooks.resume_source = "state";
  train(resumed, *training_set, *training_set, options, hooks);
  EXPECT_TRUE(whole.node("layers_3")
                  .find_parameter("weight")
                  ->tensor.equals(resumed.node("layers_3").find_parameter("weight")->tensor));
}

}  // namespace
}  // namespace detent
