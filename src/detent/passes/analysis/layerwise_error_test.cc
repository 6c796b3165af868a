#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/parallel.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/analysis/output_gain.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

NodeError entry(const LayerwiseErrors& errors, const std::string& node) {
  return *std::ranges::find(errors.nodes, node, &NodeError::node);
}

/// Two layers of 8 bits, of which one gets weights of 2 bits.
TEST(LayerwiseErrors, TellsWhoIsToBlame) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20");
  Node& poor = bench.graph.node("seq_blocks_2");
  poor.quantization["weight"] = parse_quant_spec_text("affine:width=2,scale=0.1");
  const auto errors = analyze_layerwise_error(reference, bench.graph, 20, bench.context);
  ASSERT_EQ(errors.nodes.size(), 3U);
  EXPECT_EQ(errors.nodes[0].node, "seq_blocks_2") << "worst first";
  EXPECT_LT(errors.nodes[0].alone.sqnr_db(), 20);
  EXPECT_LT(errors.nodes[0].weight->sqnr_db(), 15);
  const NodeError first = entry(errors, "seq_blocks_0");
  EXPECT_GT(first.alone.sqnr_db(), 30);
  EXPECT_NEAR(first.together.sqnr_db(), first.alone.sqnr_db(), 1e-9) << "nothing before it is quantized";
  const NodeError last = entry(errors, "seq_blocks_4");
  EXPECT_GT(last.alone.sqnr_db(), 30) << "by itself it is fine";
  EXPECT_LT(last.together.sqnr_db(), last.alone.sqnr_db() - 10) << "it inherits the error";
  EXPECT_GT(errors.nodes[0].output_gain, 10);
  EXPECT_LT(errors.nodes[1].output_gain, 1);
}

TEST(LayerwiseErrors, AreTheSameForAnyNumberOfThreads) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20");
  const auto text = [&](int threads) {
    set_thread_count(threads);
    const auto errors = analyze_layerwise_error(reference, bench.graph, 20, bench.context);
    return json_text(layerwise_errors_value(errors)) + outputs_table(errors).to_csv();
  };
  const int usual = thread_count();
  const std::string of_one = text(1);
  for (const int threads : {2, 3}) EXPECT_EQ(text(threads), of_one) << threads;
  set_thread_count(usual);
}

/// SQNR of a network's logits, over the samples of the analysis.
double output_sqnr(PassBench& bench, const Graph& reference, const Graph& graph) {
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 16);
  const auto a = compared_values(reference, 0, bench.executor.run(reference, std::span(&inputs, 1)));
  const auto b = compared_values(graph, 0, bench.executor.run(graph, std::span(&inputs, 1)));
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    signal += a[i] * a[i];
    noise += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return 10 * std::log10(signal / noise);
}

TEST(LayerwiseErrors, LogitsLogProbabilitiesAndProbabilitiesAreTheSame) {
  const auto centred = [](const char* op, const std::vector<float>& output) {
    GraphBuilder builder("g");
    NodeInput x = builder.linear("fc", builder.input("x", {2}), 2, 3);
    if (std::string(op) != "linear") x = builder.call(op, {x}, {{"dim", 1}});
    return compared_values(builder.finish(x), 0, Tensor::from<float>({1, 3}, output));
  };
  const std::vector<double> expected = {-1, 0, 1};
  const double sum = std::log(std::exp(4) + std::exp(5) + std::exp(6));
  const auto shifted = [&](double x) { return static_cast<float>(x - sum); };
  const auto logits = centred("linear", {4, 5, 6});
  const auto logs = centred("log_softmax", {shifted(4), shifted(5), shifted(6)});
  const auto shares = centred("softmax", {std::exp(shifted(4)), std::exp(shifted(5)), std::exp(shifted(6))});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(logits[i], expected[i]);
    EXPECT_NEAR(logs[i], expected[i], 1e-6);
    EXPECT_NEAR(shares[i], expected[i], 1e-6);
  }
}

/// Runs from a node on are runs of the whole network, and leaving a node in float is giving it many bits.
TEST(LayerwiseErrors, OutputGainIsThatOfTheWholeNetwork) {
  const struct {
    const char* model;
    Shape sample;
    std::vector<std::string> nodes;
  } cases[] = {{"toy_convnet", {3, 32, 32}, {"block_1_0", "block_3_0", "linear"}},
               {"digits_cnn", {1, 8, 8}, {"stem_conv", "block_conv1", "block_conv2", "add", "fc"}},
               {"resnet20", {3, 32, 32}, {"layer2_0_conv1", "layer3_0_conv2", "linear"}}};
  for (const auto& test : cases) {
    const std::string quantize =
        "[passes.static_quantize]\nreport = false\nnum_samples = 16\nweights = \"int3\"\n"
        "activations = \"uint4\"\nelementwise = \"uint4\"\n";
    PassBench bench(build_model(test.model, test.sample, 10));
    bench.run_passes("[passes.fuse_batch_norm]\n");
    const Graph reference = bench.graph.deep_copy();
    bench.run_passes(quantize);
    const auto errors = analyze_layerwise_error(reference, bench.graph, 16, bench.context);
    const double all = output_sqnr(bench, reference, bench.graph);
    EXPECT_NEAR(errors.output_sqnr_db, all, 1e-9) << test.model;
    for (const std::string& name : test.nodes) {
      const auto position = static_cast<size_t>(&bench.graph.node(name) - bench.graph.nodes().data());
      const Variant variant = variant_with_float_node(reference, bench.graph, position);
      const double gain = entry(errors, name).output_gain.value();
      const double expected = output_sqnr(bench, reference, variant.graph) - all;
      EXPECT_NEAR(gain, expected, 1e-9) << test.model << " " << name;
      PassBench wide(reference.deep_copy());
      wide.graph = reference.deep_copy();
      const bool weighted = name != "add";
      wide.run_passes(quantize + fmt::format("bits = \"{}={}\"", name, weighted ? "10/12" : "/14"));
      EXPECT_NEAR(gain, output_sqnr(bench, reference, wide.graph) - all, 0.5) << test.model << " " << name;
    }
  }
}

/// The result with only one node quantized, the slow way: a run of the network with the others in float.
TEST(LayerwiseErrors, AloneIsARunWithTheOthersInFloat) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nweights = \"int4\"\nactivations = \"uint4\"");
  const auto errors = analyze_layerwise_error(reference, bench.graph, 16, bench.context);
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 8);
  const Tensor more = RandomSamples(bench.sample_shape()).samples(8, 16);
  for (const std::string name : {"block_3_0", "linear"}) {
    Graph alone = reference;
    alone.set_requantization(bench.graph.requantization());
    alone.node(name).quantization = bench.graph.node(name).quantization;
    Distortion expected;
    for (const Tensor* batch : {&inputs, &more}) {
      const auto result_of = [&](const Graph& graph) {
        Tensor result;
        bench.executor.run(graph, std::span(batch, 1),
                           {[&](const Node& node, std::string_view operand, const Tensor& value) {
                             if (node.name == name && operand == "data_out_0") result = value.clone();
                           }});
        if (name != "linear") {
          for (float& x : result.values<float>()) x = std::max(x, 0.0F);
        }
        return result;
      };
      const bool is_output = name == "linear";  // centred over the classes, as outputs are compared
      const auto compared = [&](const Graph& graph) {
        return is_output ? compared_tensor(reference, 0, result_of(graph)) : result_of(graph);
      };
      expected.update(compared(reference), compared(alone));
    }
    EXPECT_DOUBLE_EQ(entry(errors, name).alone.sqnr_db(), expected.sqnr_db()) << name;
    EXPECT_LT(expected.sqnr_db(), 40) << name;
  }
}

TEST(LayerwiseErrors, IsWrittenAsTableJsonAndCsv) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  bench.run_passes(
      "[passes.static_quantize]\nnum_samples = 20\n[passes.layerwise_error_analysis]\nnum_samples = 4");
  EXPECT_THAT(bench.reported, HasSubstr("| seq_blocks_4 | linear |"));
  const std::filesystem::path folder = bench.context.output_dir / "layerwise_error_analysis";
  EXPECT_THAT(read_file(folder / "layerwise_error.csv"), HasSubstr("node,op,output gain,SQNR alone"));
  EXPECT_THAT(read_file(folder / "layerwise_error.json"), HasSubstr("\"sqnr_db\""));
}

TEST(LayerwiseErrors, ThePassIsFoundByItsFormerName) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  bench.run_passes(
      "[passes.static_quantize]\nedge_layers = \"eight_bits\"\nnum_samples = "
      "20\n[passes.account_quantization]\n");
  EXPECT_TRUE(std::filesystem::exists(bench.context.output_dir / "layerwise_error_analysis"));
  EXPECT_THAT(pass_names(), testing::Not(testing::Contains("account_quantization")));
}

TEST(LayerwiseErrors, CountsWhatSaturates) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  const Graph reference = bench.graph.deep_copy();
  bench.graph.node("seq_blocks_0").quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.001");
  const auto errors = analyze_layerwise_error(reference, bench.graph, 20, bench.context);
  ASSERT_EQ(errors.nodes.size(), 1U);
  EXPECT_GT(errors.nodes[0].saturated_share, 0.8);
  EXPECT_LT(errors.nodes[0].saturated_share, 1);
}

/// Nodes are compared on few samples where these have many values, outputs on all.
TEST(LayerwiseErrors, ComparesLargeNodesOnFewSamples) {
  GraphBuilder b("large");
  const NodeInput x = b.convolution("conv", b.input("x", {1, 512, 512}), 1, 16, {1, 1}, {});
  PassBench bench(
      b.finish(b.linear("fc", b.call("amax", {x, NodeInput::of_constant(List{Value(2), Value(3)})}), 16, 3)));
  const Graph reference = bench.graph;
  bench.run_passes("[passes.static_quantize]\nnum_samples = 2\nreport = false\n");
  const LayerwiseErrors errors = analyze_layerwise_error(reference, bench.graph, 10, bench.context);
  EXPECT_EQ(errors.samples, 10);
  EXPECT_EQ(errors.node_samples, 5);  // of 17 MB
  EXPECT_GT(errors.nodes.front().together.sqnr_db(), 20);
}

}  // namespace
}  // namespace detent
