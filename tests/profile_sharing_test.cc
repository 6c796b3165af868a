#include <gtest/gtest.h>

#include "detent/models/model.h"
#include "detent/statistics/collector.h"
#include "pass_bench_test.h"

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
    for (OperandMap<Table>* operands : {&node.metadata.software->args, &node.metadata.software->results}) {
      for (auto& [operand, found] : *operands) {
        found.erase("record");
        result[node.name + "." + operand] = found;
      }
    }
  }
  return result;
}

/// A sweep is not shared where samples are recorded.
void expect_as_without_sharing(PassBench& bench) {
  const Table shared = profile(bench, false);
  EXPECT_GT(shared.size(), 20U);
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

}  // namespace
}  // namespace detent
