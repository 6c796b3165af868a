#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/profile_progress.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

/// All statistics of every input and output of a network in which several nodes read what a ReLU gives.
Table profile(PassBench& bench, bool record) {
  Table options = {{"by", "regex_name"},
                   {"target_activation_nodes", List{".*"}},
                   {"profile_output_activation", true},
                   {"allow_uncovered", true}};
  Table& statistics = options.table("activation_statistics");
  for (const StatisticInfo& info : all_statistics()) {
    if (info.name != "record" || record) statistics.table(info.name);
  }
  bench.context.where = "test";
  find_pass("profile_statistics").run(bench.graph, options, bench.context);
  Table result;
  for (Node& node : bench.graph.nodes()) {
    for (OperandMap<Table>* operands : {&node.statistics.args, &node.statistics.results}) {
      for (auto& [operand, found] : *operands) {
        found.erase("record");
        result[node.name + "." + operand] = found;
      }
    }
  }
  return result;
}

/// A sweep is not shared where samples are recorded.
void expect_as_without_sharing(PassBench& bench, size_t operands = 20) {
  const Table shared = profile(bench, false);
  EXPECT_GT(shared.size(), operands);
  EXPECT_EQ(value_text(shared), value_text(profile(bench, true)));
}

TEST(ProfileSharing, DoesNotChangeAStatistic) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  expect_as_without_sharing(bench);
}

TEST(ProfileSharing, LooksAtWhatQuantizationMakesOfAnInputOrOutput) {
  for (const char* operand : {"data_in_0", "data_out_0"}) {
    PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
    const auto relu = std::ranges::find(bench.graph.nodes(), "relu", &Node::op);
    relu->quantization[operand] = parse_quant_spec_text("affine:width=3,scale=0.25");
    const std::string name = relu->name;
    expect_as_without_sharing(bench);
  }
}

Graph shared_residual_network() {
  GraphBuilder b("residual");
  const NodeInput x = b.input("x", {2, 6, 6});
  NodeInput y = b.convolution("conv", x, 2, 2, {3, 3}, {{"padding", 1}});
  y = b.call("add", {y, x});
  y = b.call("relu", {y});
  return b.finish(b.convolution("last", y, 2, 3, {3, 3}));
}

TEST(ProfileSharing, DoesNotChangeAStatisticOfARepeatedInput) {
  PassBench bench(shared_residual_network());
  expect_as_without_sharing(bench, 10);
}

TEST(ProfileSharing, LooksOnceAtWhatSeveralNodesRead) {
  const Graph graph = shared_residual_network();
  const Table statistics = {{"range_min_max", Table{}}};
  std::vector<Probe> probes;
  const auto add = [&](const char* node, const char* operand) {
    const auto found = std::ranges::find(graph.nodes(), node, &Node::name);
    probes.push_back({static_cast<size_t>(found - graph.nodes().begin()), operand, {statistics, "test"}});
  };
  add("conv", "data_in_0");  // x
  add("conv", "data_out_0");
  add("add", "data_in_0");  // conv
  add("add", "data_in_1");  // x
  add("relu", "data_in_0");
  add("last", "data_in_0");  // what the ReLU gives
  add("last", "data_out_0");
  const SweepPlan plan = plan_sweeps(graph, ObservedValues::kBeforeQuantization, probes);
  EXPECT_EQ(plan.copies.size(), 2U);
  ASSERT_EQ(plan.sweeps.size(), 4U);  // of x, conv, add with relu, last
  const auto with_relu = std::ranges::find(plan.sweeps, &probes[4], &ProfileSweep::probe);
  ASSERT_NE(with_relu, plan.sweeps.end());
  EXPECT_EQ(with_relu->post_relu, &probes[5]);
}

}  // namespace
}  // namespace detent
