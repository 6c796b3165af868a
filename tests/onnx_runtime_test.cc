#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "detent/files/array_files.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/models/model.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"
#include "detent/passes/pass_bench_for_test.h"

// Models that are written, in other programs: ONNX Runtime, where node and the package onnxruntime-node are
// at hand, in the folder that the environment's ORT_DIR names (scripts/compare_with_onnxruntime.sh).

namespace detent {
namespace {

constexpr int64_t kSamples = 8;

class OnnxRuntime : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ORT_DIR") == nullptr) GTEST_SKIP() << "ORT_DIR is not set";
    if (std::system("node --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no node";
  }

  /// The only output, of a graph with one input.
  Tensor run(const Graph& graph, const OnnxExportOptions& options, const Tensor& input,
             bool optimized) const {
    const std::filesystem::path model = folder_.get().parent_path() / "model.onnx";
    const std::filesystem::path array = folder_.get().parent_path() / "input.npy";
    export_onnx(graph, model, options);
    write_npy(array, input);
    std::filesystem::remove_all(folder_.get());
    const std::string command =
        fmt::format("node {}/scripts/run_onnxruntime.mjs {} {} {} {}={} > /dev/null", DETENT_SOURCE_DIR,
                    model.string(), folder_.get().string(), optimized ? "" : "--no-optimization",
                    graph.input_names().front(), array.string());
    EXPECT_EQ(std::system(command.c_str()), 0) << graph.name();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.get()))
      return read_npy(entry.path());
    return {};
  }

 private:
  TemporaryPath folder_{"outputs"};
};

Tensor result(const Graph& graph, const Tensor& input) {
  return IntegerExecutor().compile(graph)->run(std::span(&input, 1)).front();
}

/// The largest difference, over the largest magnitude.
float relative_difference(const Tensor& expected, const Tensor& actual) {
  EXPECT_EQ(expected.shape(), actual.shape());
  float largest = 0;
  float difference = 0;
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    largest = std::max(largest, std::fabs(expected.values<float>()[i]));
    difference = std::max(difference, std::fabs(expected.values<float>()[i] - actual.values<float>()[i]));
  }
  return difference / largest;
}

TEST_F(OnnxRuntime, RunsEveryBuiltInModel) {
  for (const std::string& name : model_names()) {
    const ModelInfo& model = find_model(name);
    const PassBench bench(model.build(model.sample_shape, model.class_count));
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
    const Tensor expected = result(bench.graph, input);
    for (const bool optimized : {false, true})
      EXPECT_LT(relative_difference(expected, run(bench.graph, {}, input, optimized)), 1e-4F) << name;
  }
}

/// How many of the outputs are other codes.
size_t different_codes(const Tensor& expected, const Tensor& actual, float scale) {
  EXPECT_EQ(expected.shape(), actual.shape());
  size_t count = 0;
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    const auto code = [&](const Tensor& tensor) { return std::lround(tensor.values<float>()[i] / scale); };
    if (code(expected) != code(actual)) ++count;
  }
  return count;
}

struct Quantization {
  const char* name;
  const char* keys;
};

class OnnxRuntimeCodes : public OnnxRuntime, public testing::WithParamInterface<Quantization> {};

/// The last node whose results are codes, in front of the first mean over windows: sums are divided in
/// integers here, in float there, where a mean that lies in the middle of two codes goes to either.
std::string last_of_codes(const Graph& graph) {
  const auto types = result_types(graph);
  std::string last;
  for (const Node& node : graph.nodes()) {
    if (is_pooling(node, Pooling::Of::kMean)) break;
    if (types.contains(node.name)) last = node.name;
  }
  return last;
}

Graph with_output(Graph graph, const std::string& node) {
  Node& output = graph.node(graph.nodes().back().name);
  output.inputs = {NodeInput::of(node)};
  output.source_names.clear();
  return graph;
}

/// ONNX Runtime adds products of dequantized values in float32 where it has no kernel for integers, so that a
/// sum next to the middle of two codes may go to the other one.
TEST_P(OnnxRuntimeCodes, AreThose) {
  for (const char* name : {"toy_convnet", "digits_cnn"}) {
    const ModelInfo& model = find_model(name);
    PassBench bench(model.build(model.sample_shape, model.class_count));
    bench.run_passes(fmt::format(
        "[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\nreport = false\n{}\n",
        GetParam().keys));
    const Tensor input = RandomSamples(bench.sample_shape()).samples(3, 3 + kSamples);
    const std::string last = last_of_codes(bench.graph);
    const Graph codes = with_output(bench.graph, last);
    const float scale = result_types(bench.graph).at(last).scale;
    const Tensor expected = result(codes, input);
    for (const bool optimized : {false, true}) {
      const Tensor actual = run(codes, {.style = OnnxStyle::kQdq}, input, optimized);
      EXPECT_LE(different_codes(expected, actual, scale), static_cast<size_t>(optimized ? 0 : 1))
          << name << ": of " << expected.numel() << " codes of " << last << ", optimizations " << optimized;
    }
    // QLinearAdd may round a sum in the middle between two codes to the other one, which windows after it
    // read.
    const Tensor on_codes = run(codes, {.style = OnnxStyle::kQOperator}, input, true);
    const auto most = static_cast<size_t>(expected.numel() / 100);
    EXPECT_LE(different_codes(expected, on_codes, scale), most) << name << " of operators on codes";
  }
}

/// Products of rows with a bias, and softmaxes.
TEST_F(OnnxRuntime, CodesOfAnAttentionAreThose) {
  constexpr int64_t kTokens = 48;
  constexpr int64_t kWidth = 64;
  GraphBuilder b("attention");
  NodeInput x = b.input("x", {kTokens, kWidth});
  for (const std::string layer : {"first", "second"}) {
    const auto linear = [&](const char* name) { return b.linear(layer + name, x, kWidth, kWidth); };
    const NodeInput keys = b.call("transpose", {linear("_key")}, {{"dim0", 1}, {"dim1", 2}});
    const NodeInput scores = b.call("matmul", {linear("_query"), keys});
    const NodeInput shares = b.call("softmax", {scores}, {{"dim", -1}});
    x = b.linear(layer + "_out", b.call("matmul", {shares, linear("_value")}), kWidth, kWidth);
  }
  PassBench bench(b.finish(x));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nreport = false\n");
  const Tensor input = RandomSamples(bench.sample_shape()).samples(3, 3 + kSamples);
  const std::string last = last_of_codes(bench.graph);
  const Graph codes = with_output(bench.graph, last);
  const float scale = result_types(bench.graph).at(last).scale;
  for (const OnnxStyle style : {OnnxStyle::kQdq, OnnxStyle::kQOperator})
    EXPECT_EQ(different_codes(result(codes, input), run(codes, {.style = style}, input, true), scale), 0);
}

/// A recurrent layer written as a Scan along an open length.
Graph scanned_layer() {
  constexpr int64_t kWidth = 8;
  OnnxModelForTest model(17);
  for (const auto& [name, seed] :
       {std::pair("first", 5), std::pair("of_input", 9), std::pair("of_state", 2)}) {
    const Tensor numbers = varied_numbers({kWidth, kWidth}, seed);
    model.constant<float>(name, {kWidth, kWidth},
                          {numbers.values<float>().begin(), numbers.values<float>().end()});
  }
  model.input("x", {-1, -2, kWidth});
  model.output("y");
  model.node("ReduceMean", {"x"}, {"mean"}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", 0}});
  model.node("MatMul", {"mean", "first"}, {"begin"});
  const auto body = onnx_body(
      {"before", "part"},
      {onnx_node("MatMul", {"before", "of_state"}, {"a"}), onnx_node("MatMul", {"part", "of_input"}, {"b"}),
       onnx_node("Add", {"a", "b"}, {"sum"}), onnx_node("Tanh", {"sum"}, {"after"})},
      {"after"});
  model.node("Scan", {"begin", "x"}, {"end"},
             {{"body", body}, {"num_scan_inputs", 1}, {"scan_input_axes", std::vector<int64_t>{1}}});
  model.node("Relu", {"end"}, {"y"});
  return import_onnx(model.write());
}

TEST_F(OnnxRuntime, CodesOfTheBodyOfALoopAreThose) {
  PassBench bench(scanned_layer());
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nreport = false\n");
  const Tensor input = RandomSamples({1, 7, 8}).samples(0, 3);
  const Tensor expected = result(bench.graph, input);
  for (const bool optimized : {false, true}) {
    const Tensor actual = run(bench.graph, {.style = OnnxStyle::kQdq}, input, optimized);
    EXPECT_LT(relative_difference(expected, actual), 1e-6F) << "optimizations " << optimized;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, OnnxRuntimeCodes,
    testing::Values(Quantization{"Default", ""}, Quantization{"PerTensor", "weight_granularity = \"tensor\""},
                    Quantization{"FourBits", "weights = \"int4\"\nactivations = \"uint4\""},
                    Quantization{"Symmetric",
                                 "activations = \"int8\"\nelementwise = \"int8\"\n"
                                 "symmetric_activations = true"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace detent
