// Quantizers whose scale is a parameter of the network: in training, in integers, in files and under passes
// they are what quantizers with a given scale are.

#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/safetensors.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

/// conv - relu - conv, the input of the second added to its result, then relu6 and a linear layer.
Graph owned_residual_network() {
  GraphBuilder builder("residual");
  NodeInput x = builder.convolution("conv1", builder.input("x", {3, 6, 6}), 3, 4, {3, 3}, {{"padding", 1}});
  x = builder.call("relu", {x});
  const NodeInput y = builder.convolution("conv2", x, 4, 4, {3, 3}, {{"padding", 1}});
  x = builder.call("relu6", {builder.call("add", {y, x})});
  x = builder.call("flatten", {x});
  return builder.finish(builder.linear("fc", x, 4 * 6 * 6, 5));
}

std::set<const Quantizer*> quantizers_of(const Graph& graph) {
  std::set<const Quantizer*> result;
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) result.insert(&*quantizer);
  }
  return result;
}

/// The scales that static_quantize gave become parameters of the same values.
void own_scales(Graph& graph) {
  for (Node& node : graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      if (!quantizer->parameters.empty()) continue;  // shared
      const std::vector<float>& scale = std::get<Affine>(quantizer->spec.format).scale;
      const bool is_one = quantizer->spec.granularity == Granularity::kTensor;
      const Shape shape = is_one ? Shape() : Shape{std::ssize(scale)};
      quantizer->parameters.emplace_back("scale", Parameter{Tensor::from<float>(shape, scale)});
      quantizer->spec.scale_rule = ScaleRule::kLearned;
    }
  }
}

/// The same values with scales that are given.
Graph with_given_scales(const Graph& graph) {
  Graph result = graph;
  for (Node& node : result.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {
      if (!quantizer->parameters.empty()) *quantizer = quantizer->effective_spec().value();
    }
  }
  return result;
}

/// Some steps of gradient descent.
void train(Graph& graph, const Tensor& inputs) {
  Interpreter interpreter(graph);
  const std::vector<at::Tensor> leaves = interpreter.trainable_parameters();
  for (int step = 0; step < 5; ++step) {
    interpreter.run(to_torch(inputs)).sub(1).pow(2).mean().backward();
    for (const at::Tensor& leaf : leaves) {
      leaf.detach().sub_(leaf.grad(), 0.01);
      leaf.mutable_grad() = at::Tensor();
    }
  }
}

class OwnedScales : public testing::Test {
 protected:
  explicit OwnedScales(const char* options = "") : bench_(owned_residual_network()) {
    bench_.run_passes(std::string("[passes.static_quantize]\nreport = false\nnum_samples = 20\n") + options);
    given_ = bench_.graph;
    own_scales(bench_.graph);
    inputs_ = RandomSamples(bench_.sample_shape()).samples(0, 8);
  }
  ~OwnedScales() override { std::remove(path_.c_str()); }

  Tensor simulated(const Graph& graph) const { return FastExecutor().run(graph, {&inputs_, 1}); }
  Tensor in_integers(const Graph& graph) const { return IntegerProgram(graph).run({&inputs_, 1}).front(); }

  const std::string path_ = testing::TempDir() + "detent_owned_scales_" + std::to_string(getpid()) + ".mz";
  PassBench bench_;
  Graph given_;
  Tensor inputs_;
};

TEST_F(OwnedScales, AreAsGivenOnes) {
  verify(bench_.graph);
  EXPECT_TRUE(simulated(bench_.graph).equals(simulated(given_)));
  EXPECT_TRUE(in_integers(bench_.graph).equals(in_integers(given_)));
}

TEST_F(OwnedScales, TrainedComputeInIntegersWhatIsSimulated) {
  const std::string operand = "data_out_0";
  const Tensor& scale = bench_.graph.node("conv1").find_quantizer(operand)->find_parameter("scale")->tensor;
  const float before = scale.values<float>()[0];
  train(bench_.graph, inputs_);
  EXPECT_NE(scale.values<float>()[0], before);
  for (const Requantization way : {Requantization::kFloat, Requantization::kFixedPoint}) {
    bench_.graph.set_requantization(way);
    const Tensor integers = in_integers(bench_.graph);
    EXPECT_TRUE(simulated(bench_.graph).equals(integers));
    EXPECT_FALSE(in_integers(given_).equals(integers));
    EXPECT_TRUE(in_integers(with_given_scales(bench_.graph)).equals(integers));
  }
}

TEST_F(OwnedScales, TrainedArePackedAndGiveEqualResults) {
  train(bench_.graph, inputs_);
  EXPECT_THAT(write_packed_graph(path_, bench_.graph), IsEmpty());
  EXPECT_EQ(packed_parameter_count(path_), 3);
  const Graph packed = read_graph(path_);
  EXPECT_TRUE(simulated(packed).equals(simulated(bench_.graph)));
  EXPECT_TRUE(in_integers(packed).equals(in_integers(bench_.graph)));
  EXPECT_EQ(packed.parameter_count(), bench_.graph.parameter_count());
}

TEST_F(OwnedScales, HaveOneEntryWhereAnEdgeSharesThem) {
  const size_t count = quantizers_of(bench_.graph).size();
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : state_dict(bench_.graph)) {
    if (key.ends_with("_scale")) keys.push_back(key);
  }
  EXPECT_EQ(keys.size(), count);
  EXPECT_THAT(keys, Contains("conv1.data_out_0_scale"));
  EXPECT_THAT(keys, Contains("conv1.weight_scale"));
  EXPECT_THAT(keys, Not(Contains("conv2.data_in_0_scale"))) << "it is that of conv1's result";

  const Interpreter interpreter(bench_.graph);
  std::vector<std::string> trained;
  for (const auto& [key, leaf] : interpreter.named_trainable_parameters()) {
    if (key.ends_with("_scale")) trained.push_back(key);
  }
  EXPECT_EQ(trained, keys);

  write_graph(path_, bench_.graph);
  std::vector<std::string> stored;
  for (const auto& [key, tensor] : read_safetensors(path_).tensors) {
    if (key.ends_with("_scale")) stored.push_back(key);
  }
  EXPECT_THAT(stored, testing::UnorderedElementsAreArray(keys));
  const Graph read = read_graph(path_);
  EXPECT_EQ(quantizers_of(read).size(), count);
  for (const Node& node : read.nodes())
    EXPECT_EQ(node.quantization, bench_.graph.node(node.name).quantization);
  EXPECT_TRUE(in_integers(read).equals(in_integers(bench_.graph)));

  Graph other = bench_.graph.deep_copy();
  train(other, inputs_);
  load_state_dict(other, state_dict(bench_.graph), "test");
  EXPECT_TRUE(in_integers(other).equals(in_integers(bench_.graph)));
}

TEST_F(OwnedScales, OfAnEdgeGetTheGradientOfOneRounding) {
  const auto gradient = [&](const Graph& graph) {
    const Interpreter interpreter(graph);
    interpreter.outputs({to_torch(inputs_)}).front().pow(2).sum().backward();
    for (const auto& [key, leaf] : interpreter.named_trainable_parameters()) {
      if (key == "conv1.data_out_0_scale") return leaf.grad().item<float>();
    }
    return 0.0F;
  };
  Graph once = bench_.graph;
  once.node("conv2").quantization.erase("data_in_0");
  once.node("add").quantization.erase("data_in_1");
  const float expected = gradient(once);
  EXPECT_NE(expected, 0);
  EXPECT_NEAR(gradient(bench_.graph), expected, 1e-3F * std::fabs(expected));
}

TEST_F(OwnedScales, OfAnOperandThatIsQuantizedAnewAreItsOwn) {
  const QuantizerRef edge = bench_.graph.node("conv1").quantization.at("data_out_0");
  bench_.run_passes(
      "[passes.quantize]\nby = \"name\"\nreport = false\nrequantize = true\n"
      "[passes.quantize.conv2.config]\nname = \"affine\"\ndata_in_width = 4\n"
      "data_in_scale_rule = \"learned\"\n");
  const Quantizer& given = *bench_.graph.node("conv1").find_quantizer("data_out_0");
  const Quantizer& read = *bench_.graph.node("conv2").find_quantizer("data_in_0");
  EXPECT_EQ(given, *edge);
  EXPECT_TRUE(read.find_parameter("scale")->tensor.equals(given.find_parameter("scale")->tensor));
  EXPECT_NE(read.find_parameter("scale")->tensor.bytes().data(),
            given.find_parameter("scale")->tensor.bytes().data());
  EXPECT_EQ(std::get<Affine>(read.spec.format).width, 4);
}

TEST_F(OwnedScales, AreSeenByPassesAsGivenOnes) {
  train(bench_.graph, inputs_);
  const Graph given = with_given_scales(bench_.graph);
  Graph reference = bench_.graph;
  for (Node& node : reference.nodes()) node.quantization.clear();
  reference.set_requantization(std::nullopt);
  const auto owned_errors = analyze_layerwise_error(reference, bench_.graph, 8, bench_.context);
  const auto given_errors = analyze_layerwise_error(reference, given, 8, bench_.context);
  ASSERT_EQ(owned_errors.nodes.size(), given_errors.nodes.size());
  for (size_t i = 0; i < owned_errors.nodes.size(); ++i) {
    EXPECT_EQ(owned_errors.nodes[i].alone.sqnr_db(), given_errors.nodes[i].alone.sqnr_db());
    EXPECT_EQ(owned_errors.nodes[i].saturated_share, given_errors.nodes[i].saturated_share);
    ASSERT_EQ(owned_errors.nodes[i].weight.has_value(), given_errors.nodes[i].weight.has_value());
  }
  Graph rounded = given;
  for (Graph* graph : {&rounded, &bench_.graph}) {
    PassBench bench(owned_residual_network());
    bench.graph = *graph;
    bench.run_passes("[passes.gptq]\nnum_samples = 20\n[passes.bias_correction]\nnum_samples = 20\n");
    *graph = bench.graph;
  }
  EXPECT_TRUE(in_integers(bench_.graph).equals(in_integers(rounded)));
}

}  // namespace
}  // namespace detent
