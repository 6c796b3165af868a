#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "detent/autograd/interpreter.h"
#include "detent/autograd/table_sums.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

// Layers of signs that become layers of tables.

namespace detent {
namespace {

using testing::HasSubstr;

/// sum over t of the polynomial of Lagrange, of signs [elements, columns] and tables [outputs, t, 1, 2^K].
at::Tensor lagrange_sums(const at::Tensor& signs, const at::Tensor& inputs, const at::Tensor& values) {
  const int64_t fan_in = inputs.size(2);
  std::vector<at::Tensor> outputs;
  for (int64_t o = 0; o < inputs.size(0); ++o) {
    at::Tensor sum = at::zeros({signs.size(1)});
    for (int64_t t = 0; t < inputs.size(1); ++t) {
      if (inputs[o][t][0].item<int64_t>() < 0) continue;
      for (int64_t address = 0; address < values.size(3); ++address) {
        at::Tensor product = values[o][t][0][address].expand({signs.size(1)});
        for (int64_t k = 0; k < fan_in; ++k) {
          const at::Tensor x = signs[inputs[o][t][k].item<int64_t>()];
          product = product * ((address >> k & 1) != 0 ? 1 + x : 1 - x) / 2;
        }
        sum = sum + product;
      }
    }
    outputs.push_back(sum);
  }
  return at::stack(outputs);
}

TEST(TableSums, AreThoseOfThePolynomialWithItsGradients) {
  at::manual_seed(1);
  for (int64_t fan_in = 1; fan_in <= kMostTableInputs; ++fan_in) {
    const at::Tensor signs = (at::randint(0, 2, {1, 9, 40}) * 2 - 1).to(at::kFloat).set_requires_grad(true);
    at::Tensor inputs = at::randint(0, 9, {3, 4, fan_in}, at::kLong);
    inputs[1][2][0] = kNoTable;
    const at::Tensor values = at::randn({3, 4, 1, int64_t{1} << fan_in}).set_requires_grad(true);
    const at::Tensor weights = at::randn({3, 40});
    const at::Tensor expected = lagrange_sums(signs[0], inputs, values);
    (expected * weights).sum().backward();
    const at::Tensor of_signs = signs.grad().clone();
    const at::Tensor of_values = values.grad().clone();
    signs.mutable_grad().zero_();
    values.mutable_grad().zero_();
    const at::Tensor actual = table_sums(signs, inputs, values, 2);
    (actual[0] * weights).sum().backward();
    EXPECT_TRUE(actual[0].allclose(expected, 1e-4, 1e-5)) << fan_in;
    EXPECT_TRUE(signs.grad().allclose(of_signs, 1e-4, 1e-4)) << fan_in;
    EXPECT_TRUE(values.grad().allclose(of_values, 1e-4, 1e-4)) << fan_in;
  }
}

TEST(ResidualSigns, PassGradientsAsTheFormatDoes) {
  const at::Tensor x = (at::randn({50}) * 2).set_requires_grad(true);
  const at::Tensor gamma = at::tensor({1.0F, 0.5F, 0.25F});
  const at::Tensor signs = residual_signs(x, gamma);
  const at::Tensor sum = (signs * gamma.unsqueeze(1)).sum(0);
  sum.sum().backward();
  const at::Tensor inside = x.detach().abs().le(1.75);
  EXPECT_TRUE(x.grad().allclose(inside.to(at::kFloat)));
  EXPECT_TRUE((sum - x).detach().abs().masked_select(inside).le(0.2501).all().item<bool>());
}

/// One layer of signs between two norms.
Graph linear_network() {
  GraphBuilder builder("signs");
  NodeInput x = builder.input("x", {7});
  x = builder.batch_norm("batch_norm1d", "norm", x, 7);
  return builder.finish(builder.linear("layer", x, 7, 5));
}

Graph convolution_network(size_t dims, const Table& attributes) {
  GraphBuilder builder("signs");
  const Shape window = dims == 1 ? Shape{3} : Shape{3, 2};
  NodeInput x = builder.input("x", dims == 1 ? Shape{4, 9} : Shape{4, 7, 6});
  x = builder.batch_norm(fmt::format("batch_norm{}d", dims), "norm", x, 4);
  return builder.finish(builder.convolution("layer", x, 4, 6, window, attributes));
}

std::string signs_of(int levels, const std::string& weights) {
  return fmt::format(
      "[passes.quantize]\nby = \"name\"\nreport = false\n[passes.quantize.layer.config]\n"
      "name = \"{}\"\n{}bias_name = \"NA\"\ndata_in_name = \"binary_residual\"\ndata_in_levels = {}\n"
      "data_in_gamma = {}\n",
      weights, weights == "binary" ? "weight_width = 1\n" : "weight_levels = 2\nweight_gamma = [0.5, 0.25]\n",
      levels,
      levels == 1   ? "[1]"
      : levels == 2 ? "[1, 0.5]"
      : levels == 3 ? "[1, 0.5, 0.25]"
                    : "[1, 0.5, 0.25, 0.125]");
}

std::string table_options(int inputs, double prune = 0, int width = 0) {
  return fmt::format("[passes.lutnet]\ninputs = {}\nprune = {}\namplitude_width = {}\n", inputs, prune,
                     width);
}

void expect_the_same(const Graph& network, const std::string& weights, int levels, int inputs) {
  PassBench bench(network);
  bench.run_passes(signs_of(levels, weights));
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes(table_options(inputs));
  ASSERT_TRUE(trained_tables(bench.graph.node("layer")));
  expect_close(expected, bench.outputs(bench.graph));
}

TEST(Lutnet, ComputesWhatTheSignsDid) {
  for (const char* weights : {"binary", "binary_residual"}) {
    for (int levels = 1; levels <= kMostLevels; ++levels) {
      for (int inputs = 1; inputs <= kMostTableInputs; ++inputs) {
        SCOPED_TRACE(fmt::format("{}, {} levels, {} inputs", weights, levels, inputs));
        expect_the_same(linear_network(), weights, levels, inputs);
        expect_the_same(convolution_network(1, {{"stride", 2}}), weights, levels, inputs);
        expect_the_same(convolution_network(2, {{"dilation", 2}}), weights, levels, inputs);
      }
    }
  }
}

TEST(Lutnet, PaddingCountsNothing) {
  for (int inputs = 1; inputs <= kMostTableInputs; ++inputs) {
    expect_the_same(convolution_network(1, {{"padding", 1}}), "binary", 2, inputs);
    expect_the_same(convolution_network(2, {{"padding", 1}, {"groups", 2}}), "binary", 2, inputs);
  }
}

TEST(Lutnet, LeavesOutTheSmallestWeights) {
  PassBench bench(linear_network());
  const Tensor weight = bench.graph.node("layer").find_parameter("weight")->tensor.clone();
  bench.run_passes(signs_of(1, "binary"));
  bench.run_passes(table_options(2, 0.5) + "keep_pruned = false\n");
  EXPECT_THAT(bench.reported, HasSubstr("17 of 35 XNORs are tables of 2 inputs"));
  std::vector<float> magnitudes;
  for (const float value : weight.values<float>()) magnitudes.push_back(std::fabs(value));
  std::ranges::sort(magnitudes);
  const Node& layer = bench.graph.node("layer");
  const Tensor& inputs = layer.find_parameter("inputs")->tensor;
  int64_t kept = 0;
  for (int64_t o = 0; o < 5; ++o) {
    for (int64_t t = 0; t < inputs.dim(1); ++t) {
      const int64_t own = inputs.values<int64_t>()[static_cast<size_t>((o * inputs.dim(1) + t) * 2)];
      if (own < 0) continue;
      ++kept;
      EXPECT_GE(std::fabs(weight.values<float>()[static_cast<size_t>(o * 7 + own)]), magnitudes[18]);
    }
  }
  EXPECT_EQ(kept, 17);
}

TEST(Lutnet, TablesOfRealNumbersBeginTheSameAndBecomeSigns) {
  PassBench bench(linear_network());
  bench.run_passes(signs_of(2, "binary"));
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes(table_options(3) + "binarize = false\n");
  expect_close(expected, bench.outputs(bench.graph));
  EXPECT_FALSE(trained_tables(bench.graph.node("layer"))->binarized);
  bench.run_passes(table_options(3));
  EXPECT_TRUE(trained_tables(bench.graph.node("layer"))->binarized);
  expect_close(expected, bench.outputs(bench.graph));
}

TEST(Lutnet, DrawsTheSameInputsFromTheSameSeed) {
  const auto inputs_of = [](const std::string& seed) {
    PassBench bench(linear_network());
    bench.run_passes(signs_of(1, "binary"));
    bench.run_passes(table_options(4) + seed);
    return bench.graph.node("layer").find_parameter("inputs")->tensor;
  };
  EXPECT_TRUE(inputs_of("seed = 1\n").equals(inputs_of("seed = 1\n")));
  EXPECT_FALSE(inputs_of("seed = 1\n").equals(inputs_of("seed = 2\n")));
}

TEST(Lutnet, RefusesWhatIsNotBinary) {
  PassBench bench(linear_network());
  EXPECT_THAT(bench.error_of(table_options(2)), HasSubstr("no layer has binary or residual binary weights"));
  EXPECT_THAT(bench.error_of(table_options(2) + "layers = [\"layer\"]\n"),
              HasSubstr("node \"layer\" cannot become tables: its weights are not binary"));
  EXPECT_THAT(bench.reported, HasSubstr("lutnet: layer stays: its weights are not binary"));
  EXPECT_THAT(bench.error_of("[passes.lutnet]\ninputs = 7\n"), HasSubstr("at most 6"));
}

TEST(Lutnet, SaysHowLargeTablesWouldBe) {
  GraphBuilder builder("wide");
  const NodeInput x = builder.input("x", {4096});
  PassBench bench(builder.finish(builder.linear("layer", x, 4096, 4096, false)));
  std::string signs = signs_of(1, "binary");
  const std::string bias = "bias_name = \"NA\"\n";
  signs.erase(signs.find(bias), bias.size());
  bench.run_passes(signs);
  EXPECT_THAT(bench.error_of(table_options(6) + "layers = [\"layer\"]\n"),
              HasSubstr("16777216 tables of 64 entries would take 4.29 GB, expected at most 4"));
}

/// Layers of signs with norms between them: rows, or windows with pooling and a last layer of rows.
Graph deep_tables(size_t dims, bool padded) {
  GraphBuilder builder("deep");
  if (dims == 0) {
    NodeInput x = builder.input("x", {7});
    x = builder.batch_norm("batch_norm1d", "norm0", x, 7);
    x = builder.batch_norm("batch_norm1d", "norm1", builder.linear("layer1", x, 7, 9), 9);
    x = builder.batch_norm("batch_norm1d", "norm2", builder.linear("layer2", x, 9, 8, false), 8);
    return builder.finish(builder.linear("layer3", x, 8, 5));
  }
  const std::string norm = fmt::format("batch_norm{}d", dims);
  const Shape window(dims, 3);
  const Table attributes = {{"padding", padded ? 1 : 0}};
  NodeInput x = builder.input("x", dims == 1 ? Shape{2, 12} : Shape{2, 12, 11});
  x = builder.batch_norm(norm, "norm0", x, 2);
  x = builder.batch_norm(norm, "norm1", builder.convolution("layer1", x, 2, 5, window, attributes), 5);
  x = builder.call(fmt::format("max_pool{}d", dims), {x}, {{"kernel_size", 2}});
  x = builder.batch_norm(norm, "norm2", builder.convolution("layer2", x, 5, 4, window, attributes, false), 4);
  x = builder.call("flatten", {builder.call("relu6", {x})});
  const int64_t features = dims == 1 ? (padded ? 24 : 12) : (padded ? 4 * 6 * 5 : 4 * 3 * 2);
  return builder.finish(builder.linear("layer3", x, features, 5));
}

std::string signs_of_layers(int levels) {
  std::string text = signs_of(levels, "binary");
  const size_t entry = text.find("[passes.quantize.layer");
  const std::string config = text.substr(entry);
  text.resize(entry);
  for (const char* layer : {"layer1", "layer2", "layer3"}) {
    std::string one = config;
    one.replace(one.find("layer"), 5, layer);
    const std::string bias = "bias_name = \"NA\"\n";
    if (layer == std::string("layer2")) one.erase(one.find(bias), bias.size());
    text += one;
  }
  return text;
}

/// Tables, norms and biases as a training might leave them, falling norms among them.
void shuffle_parameters(Graph& graph) {
  at::manual_seed(3);
  for (Node& node : graph.nodes()) {
    if (is_batch_norm(node)) to_torch(node.find_parameter("weight")->tensor).sub_(1);
    if (trained_tables(node)) to_torch(node.find_parameter("tables")->tensor).normal_();
    if (Parameter* bias = node.find_parameter("bias")) to_torch(bias->tensor).normal_();
    if (Parameter* amplitude = node.find_parameter("amplitude")) to_torch(amplitude->tensor).add_(0.3);
  }
}

void expect_the_same_tables(PassBench& bench, bool all_tables) {
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes("[passes.finish_lutnet]\n");
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 5);
  const Tensor simulated = bench.executor.run(bench.graph, {&inputs, 1});
  EXPECT_TRUE(std::ranges::equal(expected, simulated.values<float>()));
  for (const Node& node : bench.graph.nodes()) {
    EXPECT_FALSE(trained_tables(node)) << node.name;
    EXPECT_FALSE(all_tables && is_batch_norm(node)) << node.name;
  }
  for (const PlannedNode& node : integer_plan(bench.graph))
    EXPECT_FALSE(all_tables && node.engine == NodeEngine::kFloat) << node.node << ": " << node.why;
  if (!all_tables) return;
  EXPECT_TRUE(IntegerProgram(bench.graph).run({&inputs, 1}).front().equals(simulated));
  EXPECT_TRUE(FastProgram(bench.graph).run({&inputs, 1}).front().equals(simulated));
  const TemporaryPath path("lutnet.mz");
  write_graph(path.get(), bench.graph);
  EXPECT_TRUE(IntegerProgram(read_graph(path.get())).run({&inputs, 1}).front().equals(simulated));
}

TEST(FinishLutnet, TruthTablesComputeWhatWasTrained) {
  for (size_t dims = 0; dims <= 2; ++dims) {
    for (int levels = 1; levels <= kMostLevels; ++levels) {
      for (const bool padded : {false, true}) {
        if (dims == 0 && padded) continue;
        for (const bool listed : {false, true}) {
          SCOPED_TRACE(fmt::format("{} dims, {} levels{}{}", dims, levels, padded ? ", padded" : "",
                                   listed ? ", listed" : ""));
          PassBench bench(deep_tables(dims, padded));
          bench.run_passes(signs_of_layers(levels));
          if (listed)
            bench.graph.node("norm0").quantization["data_in_0"] =
                Quantizer(parse_quant_spec_text("fixed:width=5,frac_width=2"));
          bench.run_passes(table_options(2 + levels % 2, 0.4, 3));
          shuffle_parameters(bench.graph);
          expect_the_same_tables(bench, listed);
        }
      }
    }
  }
}

TEST(FinishLutnet, RoundsAmplitudesThatTrainingLeft) {
  PassBench bench(deep_tables(0, false));
  bench.run_passes(signs_of_layers(2));
  bench.run_passes(table_options(3, 0.5, 0));
  bench.run_passes("[passes.finish_lutnet]\namplitude_width = 4\n");
  EXPECT_THAT(bench.reported, HasSubstr("0 of 100 outputs differ"));
}

TEST(FinishLutnet, RefusesTablesOfRealNumbers) {
  PassBench bench(deep_tables(0, false));
  EXPECT_THAT(bench.error_of("[passes.finish_lutnet]\n"), HasSubstr("no layer of trained tables"));
  bench.run_passes(signs_of_layers(1));
  bench.run_passes(table_options(2) + "binarize = false\n");
  EXPECT_THAT(bench.error_of("[passes.finish_lutnet]\n"), HasSubstr("the tables are no signs yet"));
}

TEST(QuantizeLutnet, TakesTheKeysOfMase) {
  PassBench bench(deep_tables(0, false));
  bench.run_passes(signs_of_layers(2));
  const std::vector<float> expected = bench.outputs(bench.graph);
  const std::string keys =
      "data_in_width = 8\ndata_in_frac_width = 4\ndata_in_binarization_level = 1\n"
      "data_in_input_expanded = true\ndata_in_k = 2\ndata_in_levels = 2\ndata_in_dim = [1]\n"
      "weight_width = 16\nweight_frac_width = 4\nweight_binarization_level = 1\n"
      "weight_input_expanded = true\nweight_k = 2\nweight_in_dim = [1]\n";
  bench.run_passes("[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"lutnet\"\n" +
                   keys);
  for (const char* layer : {"layer1", "layer2", "layer3"})
    EXPECT_EQ(trained_tables(bench.graph.node(layer))->fan_in, 2);
  EXPECT_THAT(bench.reported, HasSubstr("nothing depends on data_in_dim, data_in_width"));
  const std::vector<float> actual = bench.outputs(bench.graph);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-3);
}

TEST(QuantizeLutnet, RefusesWhatDoesNotFit) {
  PassBench bench(deep_tables(0, false));
  const std::string entry =
      "[passes.quantize]\nby = \"name\"\n[passes.quantize.layer1.config]\nname = \"lutnet\"\n";
  EXPECT_THAT(bench.error_of(entry), HasSubstr("node \"layer1\" cannot become tables"));
  bench.run_passes(signs_of_layers(2));
  EXPECT_THAT(bench.error_of(entry + "data_in_levels = 3\n"), HasSubstr("got 3, expected 2"));
  EXPECT_THAT(bench.error_of(entry + "data_in_k = 3\ninputs = 2\n"), HasSubstr("say 2 and 3"));
  EXPECT_THAT(bench.error_of(entry + "data_in_ks = 3\n"), HasSubstr("ks"));
  EXPECT_THAT(bench.error_of(entry + "data_in_k = 7\n"), HasSubstr("at most 6"));
  bench.run_passes(entry + "inputs = 2\n");
  EXPECT_THAT(bench.error_of(entry + "inputs = 2\n"), HasSubstr("node \"layer1\" cannot become tables"));
}

}  // namespace
}  // namespace detent
