#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/io/file.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/quantization_account.h"
#include "pass_bench_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

const NodeAccount& entry(const std::vector<NodeAccount>& account, const std::string& node) {
  return *std::ranges::find(account, node, &NodeAccount::node);
}

/// Two layers of 8 bits, of which one gets weights of 2 bits.
TEST(QuantizationAccount, TellsWhoIsToBlame) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20");
  Node& poor = bench.graph.node("seq_blocks_2");
  poor.quantization["weight"] = parse_quant_spec_text("affine:width=2,scale=0.1");
  const auto account = account_for_quantization(reference, bench.graph, 20, bench.context);
  ASSERT_EQ(account.size(), 3U);
  EXPECT_EQ(account[0].node, "seq_blocks_2") << "worst first";
  EXPECT_LT(account[0].alone.sqnr_db(), 20);
  EXPECT_LT(account[0].weight->sqnr_db(), 15);
  const NodeAccount& first = entry(account, "seq_blocks_0");
  EXPECT_GT(first.alone.sqnr_db(), 30);
  EXPECT_NEAR(first.together.sqnr_db(), first.alone.sqnr_db(), 1e-9) << "nothing before it is quantized";
  const NodeAccount& last = entry(account, "seq_blocks_4");
  EXPECT_GT(last.alone.sqnr_db(), 30) << "by itself it is fine";
  EXPECT_LT(last.together.sqnr_db(), last.alone.sqnr_db() - 10) << "it inherits the error";
  EXPECT_THAT(account_advice(account), HasSubstr("in seq_blocks_2 ("));
}

/// The result with only one node quantized, the slow way: a run of the network with the others in float.
TEST(QuantizationAccount, AloneIsARunWithTheOthersInFloat) {
  PassBench bench(build_model("toy_convnet", {3, 32, 32}, 10));
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nweights = \"int4\"\nactivations = \"uint4\"");
  const auto account = account_for_quantization(reference, bench.graph, 16, bench.context);
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
                           [&](const Node& node, std::string_view operand, const Tensor& value) {
                             if (node.name == name && operand == "data_out_0") result = value.clone();
                           });
        if (name != "linear") {
          for (float& x : result.values<float>()) x = std::max(x, 0.0F);
        }
        return result;
      };
      expected.update(result_of(reference), result_of(alone));
    }
    EXPECT_DOUBLE_EQ(entry(account, name).alone.sqnr_db(), expected.sqnr_db()) << name;
    EXPECT_LT(expected.sqnr_db(), 40) << name;
  }
}

TEST(QuantizationAccount, IsWrittenAsTableJsonAndCsv) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  bench.run_passes(
      "[passes.static_quantize]\nnum_samples = 20\n[passes.account_quantization]\nnum_samples = 4");
  EXPECT_THAT(bench.reported, HasSubstr("| seq_blocks_4 | linear |"));
  const std::filesystem::path folder = bench.context.output_dir / "account_quantization";
  EXPECT_THAT(read_file(folder / "quantization_account.csv"), HasSubstr("node,op,SQNR alone"));
  EXPECT_THAT(read_file(folder / "quantization_account.json"), HasSubstr("\"sqnr_db\""));
}

TEST(QuantizationAccount, CountsWhatSaturates) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  const Graph reference = bench.graph.deep_copy();
  bench.graph.node("seq_blocks_0").quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.001");
  const auto account = account_for_quantization(reference, bench.graph, 20, bench.context);
  ASSERT_EQ(account.size(), 1U);
  EXPECT_GT(account[0].saturated_share, 0.8);
  EXPECT_LT(account[0].saturated_share, 1);
}

}  // namespace
}  // namespace detent
