#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "detent/engine/fast_executor.h"
#include "detent/files/temporary_file_test.h"
#include "detent/files/toml.h"
#include "detent/formats/verbs.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/code_type.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"
#include "detent/passes/pass_bench_for_test.h"

// Layers in the bodies of loops: calibrated over all iterations, quantized, and the same numbers everywhere.

namespace detent {
namespace {

using testing::HasSubstr;

constexpr int64_t kSize = 8;

Tensor count_of(int64_t value) { return Tensor::from<int64_t>({}, std::vector{value}); }

/// Rows of eight numbers; as many iterations for all.
class RepeatedRows final : public CalibrationSet {
 public:
  explicit RepeatedRows(int64_t count) : count_(count) {}
  int64_t size() const override { return 20; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {varied_numbers({size(), kSize}, 3).rows(begin, end), count_of(count_)};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  int64_t count_;
};

/// A loop around random layers, which carries rows of eight numbers.
class RandomLoop {
 public:
  explicit RandomLoop(unsigned seed) : random_(seed) {
    model_.constant<int64_t>("as_rows", {2}, {-1, kSize});
    model_.constant<int64_t>("as_channels", {3}, {-1, 2, kSize / 2});
    model_.input("x", {-1, kSize});
    model_.input("count", {}, kOnnxInt64);
    model_.output("y");
    model_.output("all");
    weight("before.weight", {kSize, kSize});
    model_.node("MatMul", {"x", "before.weight"}, {"begin"});
    std::string value = "v";
    const int layers = 1 + static_cast<int>(random_() % 4);
    for (int i = 0; i < layers; ++i) value = random_layer(value);
    const std::string next = value + "_next";
    add("Tanh", {value}, next);
    model_.node("Loop", {"count", "", "begin"}, {"end", "all"},
                {{"body", onnx_body({"i", "go", "v"}, nodes_, {"go", next, value})}});
    model_.node("Relu", {"end"}, {"y"});
  }

  Graph imported() const { return import_onnx(model_.write()); }

 private:
  void weight(const std::string& name, const std::vector<int64_t>& dims) {
    const Tensor numbers = varied_numbers(dims, static_cast<int>(random_() % 7000));
    model_.constant<float>(name, dims, {numbers.values<float>().begin(), numbers.values<float>().end()});
  }

  void add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
           const std::vector<OnnxAttribute>& attributes = {}) {
    nodes_.push_back(onnx_node(op, inputs, {output}, attributes));
  }

  /// On rows, or on two channels of half as many numbers each.
  std::string random_layer(const std::string& value) {
    const std::string name = fmt::format("v{}", nodes_.size());
    switch (random_() % 5) {
      case 0:
        weight(name + ".weight", {kSize, kSize});
        weight(name + ".bias", {kSize});
        add("Gemm", {value, name + ".weight", name + ".bias"}, name, {{"transB", 1}});
        break;
      case 1:
        weight(name + ".weight", {2, 2, 3});
        add("Reshape", {value, "as_channels"}, name + "_in");
        add("Conv", {name + "_in", name + ".weight"}, name + "_out", {{"pads", std::vector<int64_t>{1, 1}}});
        add("Reshape", {name + "_out", "as_rows"}, name);
        break;
      case 2:
        add("Add", {value, "x"}, name);
        break;
      case 3:
        add("Relu", {value}, name);
        break;
      default:
        weight(name + ".weight", {kSize, kSize});
        add("MatMul", {value, name + ".weight"}, name);
    }
    return name;
  }

  std::mt19937 random_;
  OnnxModelForTest model_{17};
  std::vector<onnx::NodeProto> nodes_;
};

class Quantizing {
 public:
  explicit Quantizing(int64_t count = 3) : count_(count) {
    context_.open_calibration = [this] { return std::make_unique<RepeatedRows>(count_); };
    context_.executor = [this]() -> Executor& { return executor_; };
    context_.report = [this](const std::string& text) { reported += text; };
    context_.warn = [this](const std::string& text) { reported += text + "\n"; };
    context_.output_dir = testing::TempDir() + "detent_quantized_loops_" + std::to_string(getpid());
  }

  Graph quantized(Graph graph, const std::string& options = "") {
    const std::string toml = "[passes.static_quantize]\nreport = false\n" + options;
    run_pipeline(graph, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context_);
    return graph;
  }

  std::string reported;

 private:
  int64_t count_;
  FastExecutor executor_;
  PassContext context_;
};

const Graph& body_of(const Graph& graph) {
  return *std::ranges::find(graph.nodes(), "loop", &Node::op)->body;
}

int64_t quantized_layers(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) {
    return node.find_quantizer("weight") != nullptr && node.find_quantizer("data_in_0") != nullptr;
  });
}

std::vector<Tensor> inputs_of(int64_t rows, int64_t count) {
  return {varied_numbers({rows, kSize}, 11), count_of(count)};
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual, const char* what) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(expected[i].equals(actual[i])) << what << i;
}

/// By reference and engine, as stored, and as exported and imported again.
void expect_same_everywhere(const Graph& graph) {
  const TemporaryPath stored("quantized.mz");
  const TemporaryPath exported("quantized.onnx");
  EXPECT_THAT(write_packed_graph(stored.get(), graph), testing::IsEmpty());
  export_onnx(graph, exported.get(), {.style = OnnxStyle::kQdq});
  const Graph read = read_graph(stored.get());
  const Graph again = import_onnx(exported.get());
  for (const auto& [rows, count] : {std::pair(1, 1), std::pair(3, 4), std::pair(5, 0)}) {
    const std::vector<Tensor> inputs = inputs_of(rows, count);
    const std::vector<Tensor> expected = IntegerExecutor().compile(graph)->run(inputs);
    expect_equal(expected, FastProgram(graph).run(inputs), "engine");
    expect_equal(expected, FastProgram(read).run(inputs), "stored");
    expect_equal(expected, IntegerExecutor().compile(again)->run(inputs), "exported, in the reference");
    expect_equal(expected, FastProgram(again).run(inputs), "exported");
  }
}

TEST(QuantizedLoops, RandomBodiesComputeOnCodes) {
  constexpr unsigned kNetworks = 40;
  int64_t layers = 0;
  for (unsigned seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Quantizing quantizing;
    const Graph graph =
        quantizing.quantized(RandomLoop(seed).imported(), seed % 2 == 0 ? "" : "weights = \"int4\"\n");
    layers += quantized_layers(body_of(graph));
    expect_same_everywhere(graph);
  }
  EXPECT_GT(layers, kNetworks / 2);
}

/// x W before a loop and in it, or in a loop within it, as often as the outer one has iterations.
Graph multiplying_loops(bool are_nested = false) {
  OnnxModelForTest model(17);
  for (const auto& [name, seed] : {std::pair("before.weight", 5), std::pair("inner.weight", 9)}) {
    const Tensor numbers = varied_numbers({kSize, kSize}, seed);
    model.constant<float>(name, {kSize, kSize},
                          {numbers.values<float>().begin(), numbers.values<float>().end()});
  }
  model.input("x", {-1, kSize});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  model.output("all");
  model.node("MatMul", {"x", "before.weight"}, {"begin"});
  const onnx::NodeProto layer = onnx_node("MatMul", {"v", "inner.weight"}, {"w"});
  const auto inner =
      onnx_body({"j", "stay", "u"}, {onnx_node("MatMul", {"u", "inner.weight"}, {"m"})}, {"stay", "m"});
  const onnx::NodeProto loop = onnx_node("Loop", {"count", "", "v"}, {"w"}, {{"body", inner}});
  model.node("Loop", {"count", "", "begin"}, {"y", "all"},
             {{"body", onnx_body({"i", "go", "v"}, {are_nested ? loop : layer}, {"go", "w", "w"})}});
  return import_onnx(model.write());
}

float input_scale(const Graph& graph, const char* layer) {
  return executed_type(graph.node(layer), "data_in_0")->scale;
}

TEST(QuantizedLoops, AreCalibratedOverAllIterations) {
  const Graph once = Quantizing(1).quantized(multiplying_loops());
  const Graph often = Quantizing(5).quantized(multiplying_loops());
  EXPECT_EQ(input_scale(once, "begin_node"), input_scale(often, "begin_node"));
  EXPECT_LT(2 * input_scale(body_of(once), "w_node"), input_scale(body_of(often), "w_node"))
      << "the values grow with each iteration";
}

TEST(QuantizedLoops, AreQuantizedWithinLoops) {
  const Graph graph = Quantizing().quantized(multiplying_loops(true));
  EXPECT_EQ(quantized_layers(body_of(body_of(graph))), 1);
  expect_same_everywhere(graph);
}

/// Integers of 12 bits need opset 21, also where none but a body has them.
TEST(QuantizedLoops, AreExportedInTheOpsetOfTheirFormats) {
  const Graph graph =
      Quantizing().quantized(multiplying_loops(true), "keep_float = [\"begin_node\"]\nweights = \"int12\"\n");
  EXPECT_EQ(quantized_layers(graph), 0);
  EXPECT_EQ(quantized_layers(body_of(body_of(graph))), 1);
  expect_same_everywhere(graph);
}

TEST(QuantizedLoops, AreNamedByOptions) {
  Quantizing quantizing;
  const auto weight_bits = [](const Graph& graph, const char* layer) {
    return integer_codes(graph.node(layer).find_quantization("weight")->format)->width;
  };
  const Graph narrow = quantizing.quantized(multiplying_loops(), "bits = \"y_node.w_node=4\"\n");
  EXPECT_EQ(weight_bits(narrow, "begin_node"), 8);
  EXPECT_EQ(weight_bits(body_of(narrow), "w_node"), 4);
  expect_same_everywhere(narrow);
  EXPECT_THAT(error_of([&] { quantizing.quantized(multiplying_loops(), "bits = \"y_node.v_node=4\"\n"); }),
              HasSubstr("did you mean \"y_node.w_node\"?"));
  for (const char* kept : {"y_node", "y_node.w_node"}) {
    const Graph partly =
        quantizing.quantized(multiplying_loops(), fmt::format("keep_float = [\"{}\"]\n", kept));
    EXPECT_EQ(quantized_layers(partly), 1);
    EXPECT_EQ(quantized_layers(body_of(partly)), 0);
    EXPECT_THAT(quantizing.reported, HasSubstr("y_node: its body stays in float: no layers to quantize"));
  }
}

TEST(QuantizedLoops, ThatNoSampleRunsStayInFloat) {
  Quantizing quantizing(0);
  const Graph graph = quantizing.quantized(multiplying_loops());
  EXPECT_EQ(quantized_layers(body_of(graph)), 0);
  EXPECT_THAT(quantizing.reported,
              HasSubstr("y_node: its body stays in float: no sample makes the loop run"));
  expect_same_everywhere(graph);
}

TEST(QuantizedLoops, KeepWeightsThatAPassDoesNotReach) {
  Quantizing quantizing;
  const Graph graph = quantizing.quantized(multiplying_loops(), "[passes.gptq]\n");
  EXPECT_THAT(quantizing.reported, HasSubstr("stay as they are, in bodies of loops: y_node.w_node"));
  expect_same_everywhere(graph);
}

}  // namespace
}  // namespace detent
