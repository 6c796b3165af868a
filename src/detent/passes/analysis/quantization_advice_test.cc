#include "detent/passes/analysis/quantization_advice.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// Result of `advise_quantization` for a network that `passes` quantize.
struct Advised {
  Advised(const char* model, const Shape& sample, const std::string& passes)
      : Advised(build_model(model, sample, 10), "", passes) {}
  /// `before`: passes before static_quantize. The node norm, where there is one, has channels of outliers.
  Advised(Graph network, const std::string& before, const std::string& after) : bench(std::move(network)) {
    const std::string passes = before + after;
    if (bench.graph.find("norm") != nullptr) {
      for (const size_t outlier : {3U, 40U})
        bench.graph.node("norm").find_parameter("weight")->tensor.values<float>()[outlier] = 30;
    }
    if (!before.empty()) bench.run_passes(before);
    reference = bench.graph.deep_copy();
    bench.run_passes(after);
    const Table given = *parse_toml(passes, "t.toml").find("passes")->get_if<Table>();
    errors = analyze_layerwise_error(reference, bench.graph, 16, bench.context);
    advice = advise_quantization({reference, bench.graph, given}, errors, bench.context);
  }

  PassBench bench;
  Graph reference;
  LayerwiseErrors errors;
  QuantizationAdvice advice;
};

const std::string kNarrow =
    "[passes.static_quantize]\nreport = false\nnum_samples = 20\nweights = \"int2\"\n";

/// The passes after static_quantize that flags of the command stand for, and the options of that pass.
std::string passes_of_flags(const std::string& flags) {
  const std::string pass = flags.find("gptaq") == std::string::npos ? "gptq" : "gptaq";
  const bool by_mse = flags.find("--weight-calibrator mse") != std::string::npos;
  return fmt::format("{}{}[passes.{}]\nnum_samples = 20\n[passes.bias_correction]\nnum_samples = 20\n",
                     kNarrow, by_mse ? "weight_calibrator = \"mse\"\n" : "", pass);
}

/// A network as small as this one is tried with all calibration samples, so what is promised is reached.
TEST(QuantizationAdvice, IsWhatFollowingItGivesSlow) {
  const Advised narrow("toy_convnet", {3, 32, 32}, kNarrow);
  ASSERT_FALSE(narrow.advice.tried.empty());
  const TriedOptions& weights = narrow.advice.tried.front();
  EXPECT_THAT(weights.options, StartsWith("--improve gpt")) << "better weights come first";
  EXPECT_GT(weights.output_sqnr_db, narrow.errors.output_sqnr_db + 1);
  const Advised better("toy_convnet", {3, 32, 32}, passes_of_flags(weights.options));
  EXPECT_NEAR(better.errors.output_sqnr_db, weights.output_sqnr_db, 1e-6);
  EXPECT_EQ(storage_bits(better.bench.graph).weight_bytes(), weights.weight_bytes);
  for (size_t i = 1; i < narrow.advice.tried.size(); ++i)
    EXPECT_GT(narrow.advice.tried[i].output_sqnr_db, narrow.advice.tried[i - 1].output_sqnr_db);
  EXPECT_THAT(narrow.advice.text(),
              AllOf(StartsWith("tried with 20 calibration samples"), HasSubstr("no more bytes")));
}

TEST(QuantizationAdvice, TakesUpWhatWasGiven) {
  const Advised narrow("toy_convnet", {3, 32, 32}, kNarrow + "bits = \"linear=3\"\n");
  ASSERT_FALSE(narrow.advice.tried.empty());
  for (const TriedOptions& tried : narrow.advice.tried) {
    if (tried.options.find("--bits") == std::string::npos) continue;
    EXPECT_THAT(tried.options, HasSubstr(",linear=3'"));
  }
  const Advised by_table("toy_convnet", {3, 32, 32}, kNarrow + "bits = { linear = 3 }\n");
  EXPECT_EQ(by_table.advice.text(), narrow.advice.text());
  const Advised empty("toy_convnet", {3, 32, 32}, kNarrow + "bits = {}\n");
  EXPECT_FALSE(empty.advice.tried.empty());
}

Graph with_outliers() {
  GraphBuilder b("outliers");
  const NodeInput x =
      b.layer("layer_norm", "norm", {b.input("x", {16, 64})}, {{"weight", {64}}, {"bias", {64}}},
              Table{{"normalized_shape", List{Value(64)}}});
  const NodeInput hidden = b.module("relu", "relu", b.linear("fc1", x, 64, 64));
  return b.finish(b.linear("fc2", hidden, 64, 10));
}

TEST(QuantizationAdvice, RotatesOutliers) {
  const std::string quantize =
      "[passes.static_quantize]\nreport = false\nnum_samples = 20\nweights = \"mx_e2m1\"\nactivations = "
      "\"mx_e2m1\"\n";
  const Advised plain(with_outliers(), "", quantize);
  ASSERT_FALSE(plain.advice.tried.empty());
  const auto rotates = [](const TriedOptions& tried) {
    return tried.options.starts_with("--improve hadamard");
  };
  const auto tried = std::ranges::find_if(plain.advice.tried, rotates);
  ASSERT_NE(tried, plain.advice.tried.end()) << plain.advice.text();
  std::string after = quantize;
  for (const char* pass : {"gptq", "gptaq", "signround", "bias_correction"}) {
    if (tried->options.find(fmt::format(",{}", pass)) != std::string::npos)
      after += fmt::format("[passes.{}]\nnum_samples = 20\n", pass);
  }
  const Advised followed(with_outliers(), "[passes.hadamard]\n", after);
  EXPECT_NEAR(followed.errors.output_sqnr_db, tried->output_sqnr_db, 1e-3);
  for (const TriedOptions& more : followed.advice.tried) {
    const bool changes_passes = more.options.find("--improve") != std::string::npos;
    EXPECT_TRUE(!changes_passes || rotates(more)) << more.options;
  }
}

TEST(QuantizationAdvice, IsNotGivenWhereNothingIsLost) {
  const Advised wide("toy_convnet", {3, 32, 32},
                     "[passes.static_quantize]\nreport = false\nnum_samples = 20\n");
  EXPECT_GT(wide.errors.output_sqnr_db, 25);
  EXPECT_THAT(wide.advice.tried, IsEmpty());
  EXPECT_EQ(wide.advice.text(), "");
}

/// A format whose values gptq cannot choose is left to what else there is.
TEST(QuantizationAdvice, LeavesOutWhatDoesNotFit) {
  const Advised narrow("toy_convnet", {3, 32, 32},
                       "[passes.static_quantize]\nreport = false\nnum_samples = 20\nactivations = \"uint4\"\n"
                       "weights = \"block_fp:width=2\"\n");
  for (const TriedOptions& tried : narrow.advice.tried)
    EXPECT_THAT(tried.options, testing::Not(testing::AnyOf(HasSubstr("gptq"), HasSubstr("signround"))));
}

/// As those after a suppression of boxes.
TEST(StorageBits, ValuesWhoseNumberTheDataDecideTakeNothing) {
  GraphBuilder b("kept");
  const NodeInput x = b.linear("layer", b.input("x", {4, 6}), 6, 6);
  const NodeInput places =
      b.call("select", {b.call("nonzero", {b.call("relu", {x})})}, {{"dim", 0}, {"index", 1}});
  const Graph graph = b.finish(b.linear("last", b.call("gather", {x, places}, {{"dim", 1}}), 6, 2));
  const StorageBits bits = storage_bits(graph);
  EXPECT_EQ(bits.weight_values, 6 * 6 + 6 + 2 * 6 + 2);
  EXPECT_EQ(bits.activation_values, 2 * 4 * 6);
}

}  // namespace
}  // namespace detent
