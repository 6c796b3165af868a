#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "detent/formats/measure/distortion.h"
#include "detent/graph/builder.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/passes/post_training/exact_values.h"

// Values that integers, logarithms and quotients follow from, quantized: as exact as they need be.

namespace detent {
namespace {

using testing::HasSubstr;

constexpr const char* kQuantizes = "[passes.static_quantize]\nreport = false\nnum_samples = 20\n";
constexpr int64_t kRows = 6;
constexpr int64_t kColumns = 16;

NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }

/// Reduces each row.
NodeInput reduced(GraphBuilder& b, const char* by, const NodeInput& of) {
  return b.call(by, {of, NodeInput::of_constant(Value(std::vector<int64_t>{2}))}, {{"keepdim", true}});
}

/// The first columns as categories, whose rows are looked up, beside the others.
Graph categories_network(bool joined) {
  GraphBuilder b("categories");
  NodeInput x = b.input("x", {kRows, kColumns});
  const auto columns = [&](const NodeInput& of, int64_t begin, int64_t end) {
    return b.call("slice", {of}, {{"dims", 2}, {"starts", begin}, {"ends", end}});
  };
  if (joined) x = b.call("cat", {columns(x, 0, 8), columns(x, 4, kColumns)}, {{"dim", 2}});
  const NodeInput scaled = b.call("mul", {columns(x, 0, 1), number(100)});
  const NodeInput ids = b.call("cast", {scaled}, {{"dtype", "int64"}});
  const NodeInput counts = b.call("cast", {ids}, {{"dtype", "float32"}});
  return b.finish(b.linear("fc", b.call("cat", {counts, columns(x, 1, 9)}, {{"dim", 2}}), 9, 4));
}

double sqnr_after_quantizing(PassBench& bench) {
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes(kQuantizes);
  const std::vector<float> after = bench.outputs(bench.graph);
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    signal += std::pow(static_cast<double>(before[i]), 2);
    noise += std::pow(static_cast<double>(before[i]) - static_cast<double>(after[i]), 2);
  }
  return sqnr_db(signal, noise);
}

TEST(ExactValues, CategoriesAreNotRounded) {
  for (const bool joined : {false, true}) {
    PassBench bench(categories_network(joined));
    EXPECT_GT(sqnr_after_quantizing(bench), 35) << joined;
    EXPECT_FALSE(bench.graph.node("x").find_quantizer("data_out_0"));
    EXPECT_THAT(bench.reported, HasSubstr("follow from their exact values: "));
    EXPECT_NE(bench.graph.node(joined ? "cat_1" : "cat").find_quantizer("data_in_1"), nullptr)
        << "rounds for itself";
  }
}

/// Decisions on what layers have computed are as exact as that; integers that count them are wanted exactly.
TEST(ExactValues, ComparisonsOfLayersAreNoReason) {
  for (const bool counts : {false, true}) {
    GraphBuilder b("decisions");
    const NodeInput x = b.input("x", {kRows, kColumns});
    const NodeInput values = b.call("relu", {b.linear("fc", x, kColumns, 8)});
    NodeInput above = b.call("gt", {values, number(0.5)});
    if (counts) above = b.call("cast", {above}, {{"dtype", "int64"}});
    const NodeInput mask = b.call("cast", {above}, {{"dtype", "float32"}});
    const Graph graph = b.finish(b.call("mul", {mask, values}));
    EXPECT_EQ(
        exact_values(graph, infer_shapes(graph)).results,
        counts ? (std::set<std::string, std::less<>>{"fc", "relu"}) : (std::set<std::string, std::less<>>{}));
  }
}

TEST(ExactValues, LogarithmsOfSmallValuesStayInFloat) {
  GraphBuilder b("logarithms");
  const NodeInput x = b.input("x", {kRows, kColumns});
  const NodeInput power = b.call("mul", {x, x});
  const NodeInput logs = b.call("log", {b.call("maximum", {power, number(1e-10)})});
  const NodeInput most = reduced(b, "amax", logs);
  PassBench bench(b.finish(b.linear("fc", b.call("sub", {logs, most}), kColumns, 4)));
  EXPECT_GT(sqnr_after_quantizing(bench), 30);
  EXPECT_THAT(bench.reported, HasSubstr("logarithms of what codes would round to 0: log, mul\n"));
  EXPECT_NE(bench.graph.node("sub").find_quantizer("data_in_0"), nullptr);
}

/// A covariance over a variance, as of guided filters: both are small differences of means.
TEST(ExactValues, DifferencesThatDivideStayInFloat) {
  GraphBuilder b("filter");
  const NodeInput x = b.linear("fc", b.input("x", {kRows, kColumns}), kColumns, kColumns);
  const NodeInput y = b.call("relu", {x});
  const auto mean = [&](const NodeInput& of) { return reduced(b, "mean", of); };
  const NodeInput far = b.call("add", {x, number(8)});
  const NodeInput squares = mean(b.call("mul", {far, far}));
  const NodeInput variance = b.call("sub", {squares, b.call("mul", {mean(far), mean(far)})});
  const NodeInput products = mean(b.call("mul", {far, y}));
  const NodeInput covariance = b.call("sub", {products, b.call("mul", {mean(far), mean(y)})});
  const NodeInput slope = b.call("div", {covariance, b.call("add", {variance, number(1e-5)})});
  PassBench bench(b.finish(b.linear("last", b.call("mul", {slope, x}), kColumns, 4)));
  EXPECT_GT(sqnr_after_quantizing(bench), 25);
  for (const char* name : {"sub", "sub_1"}) EXPECT_TRUE(bench.graph.node(name).quantization.empty()) << name;
}

}  // namespace
}  // namespace detent
