#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/workflows/quantize_network.h"
#include "detent/workflows/quantize_passes.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kWidth = 64;
constexpr int64_t kPlaces = 12;

/// Distances of features to places b, from products of [-2 x, |x|^2, 1] and [b, 1, |b|^2].
Graph distances() {
  GraphBuilder b("distances");
  const NodeInput x = b.linear("features", b.input("x", {kWidth}), kWidth, kWidth);
  const NodeInput last = NodeInput::of_constant(Value(std::vector<int64_t>{1}));
  const NodeInput norm = b.call("sum", {b.call("mul", {x, x}), last}, {{"keepdim", true}});
  const NodeInput one = b.call(
      "add", {b.call("mul", {norm, NodeInput::of_constant(Value(0.0))}), NodeInput::of_constant(Value(1.0))});
  const NodeInput twice = b.call("mul", {x, NodeInput::of_constant(Value(-2.0))});
  const NodeInput all = b.call("cat", {twice, norm, one}, {{"dim", 1}});
  return b.finish(b.linear("squares", all, kWidth + 2, kPlaces, false));
}

void set_places(Graph& graph) {
  const std::span<float> weight = graph.node("squares").find_parameter("weight")->tensor.values<float>();
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(0, 8);
  for (size_t place = 0; place < kPlaces; ++place) {
    const std::span<float> row = weight.subspan(place * (kWidth + 2), kWidth + 2);
    for (size_t i = 0; i < kWidth; ++i) row[i] = normal(generator);
    row[kWidth] = 1;
    row[kWidth + 1] = kWidth * 64;
  }
}

TEST(SpoiltLayers, StayInFloatWhereOutputsAreOfNoUse) {
  PassBench bench(distances());
  set_places(bench.graph);
  const auto analyzed = [&](const Table& options) {
    QuantizedGraphs graphs =
        quantize_network(bench.graph, quantize_passes({.options = options}), bench.context);
    const QuantizationAnalysis analysis = analyze_quantization(graphs, bench.context);
    return std::pair(std::move(graphs), analysis);
  };
  const auto [graphs, analysis] = analyzed({});
  EXPECT_THAT(bench.reported,
              HasSubstr("quantized again with those nodes in float whose rounding costs most: "
                        "squares"));
  EXPECT_TRUE(graphs.quantized.node("squares").quantization.empty());
  EXPECT_GT(analysis.errors.output_sqnr_db, 10);
  EXPECT_EQ(noise_warning(analysis), "");

  const auto [few_graphs, few] = analyzed({{"weights", "int4"}});
  EXPECT_FALSE(few_graphs.quantized.node("squares").quantization.empty()) << "as it was asked for";
  EXPECT_THAT(noise_warning(few),
              AllOf(HasSubstr("too little to be of use; what costs most: squares (linear: "),
                    HasSubstr("`detent quantize ")));
}

/// x + k - k: where the difference is in float, codes of the sum still take steps of k.
TEST(SpoiltLayers, LargeConstantsThatAreTakenAwayAgainCostNothing) {
  GraphBuilder b("large");
  const NodeInput x = b.linear("first", b.input("x", {kWidth}), kWidth, kWidth);
  const NodeInput large = NodeInput::of_constant(Value(1e4));
  const NodeInput back = b.call("sub", {b.call("add", {x, large}), large});
  PassBench bench(b.finish(b.linear("last", b.call("relu", {back}), kWidth, kPlaces)));
  QuantizedGraphs graphs = quantize_network(bench.graph, quantize_passes({}), bench.context);
  const QuantizationAnalysis analysis = analyze_quantization(graphs, bench.context);
  EXPECT_GT(analysis.errors.output_sqnr_db, 25);
  EXPECT_THAT(bench.reported, HasSubstr("those nodes in float whose rounding costs most: add"));
  EXPECT_FALSE(graphs.quantized.node("first").quantization.empty());
  EXPECT_FALSE(graphs.quantized.node("last").quantization.empty());
}

TEST(SpoiltLayers, TheFirstNodeThatIsNotFiniteIsFound) {
  GraphBuilder b("logarithms");
  const NodeInput x = b.call("sigmoid", {b.input("x", {8})});
  PassBench bench(b.finish(b.linear("fc", b.call("log", {x}), 8, 2)));
  Graph quantized = bench.graph;
  quantized.node("log").quantization["data_in_0"] =
      QuantizerRef(Quantizer(parse_quant_spec_text("affine:scale=4,zero_point=0")));
  EXPECT_THAT(first_nonfinite(bench.graph, quantized, bench.context), ElementsAre("log", "sigmoid"));
  EXPECT_THAT(first_nonfinite(bench.graph, bench.graph, bench.context), ElementsAre());
}

/// Shares of exponentials that are summed in groups: those of a group may all round to 0.
Graph shares(bool as_classes) {
  constexpr int64_t kFew = 8;
  GraphBuilder b("shares");
  const NodeInput scores = b.linear("scores", b.input("x", {kFew}), kFew, kFew, false);
  const auto number = [](double value) { return NodeInput::of_constant(Value(value)); };
  const NodeInput parts = b.call("exp", {b.call("mul", {scores, number(40)})});
  const NodeInput pairs =
      b.call("view", {parts, NodeInput::of_constant(Value(int64_t{-1})),
                      NodeInput::of_constant(Value(kFew / 2)), NodeInput::of_constant(Value(int64_t{2}))});
  const NodeInput sums =
      b.call("sum", {pairs, NodeInput::of_constant(Value(std::vector<int64_t>{2}))}, {{"keepdim", true}});
  const NodeInput shares = b.call("flatten", {b.call("div", {pairs, sums})});
  return b.finish(as_classes ? shares : b.linear("o", shares, kFew, 3, false));
}

TEST(SpoiltLayers, NodesWhoseCodesGiveNaNStayInFloat) {
  PassBench bench(shares(false));
  QuantizedGraphs graphs =
      quantize_network(bench.graph, {{"static_quantize", Value(Table{{"report", false}})}}, bench.context);
  const QuantizationAnalysis analysis = analyze_quantization(graphs, bench.context);
  EXPECT_THAT(bench.reported, HasSubstr("quantized again with it and what comes before it in float: div, "));
  EXPECT_FALSE(graphs.quantized.node("o").quantization.empty());
  EXPECT_TRUE(graphs.quantized.node("div").quantization.empty());
  EXPECT_GT(analysis.errors.output_sqnr_db, 10);
}

/// The SQNR of classes counts NaN as noise without bound.
TEST(SpoiltLayers, NodesThatGiveNaNAsClassesStayInFloat) {
  PassBench bench(shares(true));
  QuantizedGraphs graphs =
      quantize_network(bench.graph, {{"static_quantize", Value(Table{{"report", false}})}}, bench.context);
  const QuantizationAnalysis analysis = analyze_quantization(graphs, bench.context);
  EXPECT_THAT(bench.reported, HasSubstr("quantized again with it and what comes before it in float: div, "));
  EXPECT_FALSE(graphs.quantized.node("scores").quantization.empty());
  EXPECT_GT(analysis.errors.output_sqnr_db, 10);
}

TEST(SpoiltLayers, TheNetworkIsTheSameWithoutAnalysis) {
  for (const Graph& network : {shares(false), shares(true), distances()}) {
    PassBench bench(network);
    if (network.name() == "distances") set_places(bench.graph);
    QuantizedGraphs analyzed = quantize_network(bench.graph, quantize_passes({}), bench.context);
    QuantizedGraphs settled = analyzed;
    const std::string before = value_text(Value(analyzed.passes));
    analyze_quantization(analyzed, bench.context);
    settle_quantization(settled, bench.context);
    EXPECT_NE(value_text(Value(analyzed.passes)), before) << network.name();
    EXPECT_EQ(value_text(Value(settled.passes)), value_text(Value(analyzed.passes))) << network.name();
    for (const Node& node : analyzed.quantized.nodes())
      EXPECT_EQ(settled.quantized.node(node.name).quantization.size(), node.quantization.size()) << node.name;
  }
}

}  // namespace
}  // namespace detent
