#include "detent/engine/fast_executor.h"
#include "detent/passes/analysis/variant_runs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

Graph with_width(const Graph& graph, const std::string& node, int width) {
  Graph changed = graph;
  const std::string text = "affine:width=" + std::to_string(width) + ",scale=0.07";
  changed.node(node).quantization["weight"] = parse_quant_spec_text(text);
  return changed;
}

/// Variants of variants, over a residual connection whose shortcut comes from before where they begin.
TEST(VariantRuns, GiveWhatWholeRunsGive) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16");
  const Graph& base = bench.graph;
  const auto at = [&](const char* node) { return base.position(node); };
  const Graph second = with_width(base, "block_conv2", 4);
  const Graph third = with_width(second, "head_conv", 3);
  const std::vector<Variant> variants = {
      {second, at("block_conv2")},
      {third, at("head_conv"), 0},
      {with_width(third, "fc", 2), at("fc"), 1},
      {with_width(second, "fc", 3), at("fc"), 0},
      {with_width(base, "fc", 3), at("fc")},
  };
  const FastExecutor executor;
  const std::vector<Tensor> inputs = {RandomSamples(bench.sample_shape()).samples(0, 8)};
  const auto program = executor.compile(base);
  std::vector<Tensor> outputs(variants.size());
  VariantRuns runs(base);
  for (const Variant& variant : variants) runs.add(variant);
  const Tensor result = runs.run(inputs, *program, executor, [&](size_t variant, const Tensor& output) {
    outputs[variant] = output.clone();
  });
  EXPECT_TRUE(result.equals(executor.run(base, inputs)));
  for (size_t i = 0; i < variants.size(); ++i) {
    EXPECT_TRUE(outputs[i].equals(executor.run(variants[i].graph, inputs))) << "variant " << i;
    EXPECT_FALSE(outputs[i].equals(result)) << "variant " << i;
  }
}

/// A value of one row that all samples share, such as the embeddings of positions, is no batch of one.
TEST(VariantRuns, ComputeAgainWhatIsTheSameForAllSamples) {
  GraphBuilder b("positions");
  const NodeInput positions =
      b.call("mul", {b.parameter("table", {1, 4, 8}), NodeInput::of_constant(Value(2.0))});
  const NodeInput x = b.linear("first", b.input("x", {4, 8}), 8, 8);
  PassBench bench(b.finish(b.linear("last", b.call("add", {x, positions}), 8, 3)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16");
  const Graph& base = bench.graph;
  const std::vector<Variant> variants = {{with_width(base, "last", 3), base.position("last")},
                                         {with_width(base, "first", 3), base.position("first")}};
  const FastExecutor executor;
  const std::vector<Tensor> inputs = {RandomSamples(bench.sample_shape()).samples(0, 5)};
  VariantRuns runs(base);
  for (const Variant& variant : variants) runs.add(variant);
  runs.run(inputs, *executor.compile(base), executor, [&](size_t variant, const Tensor& output) {
    EXPECT_TRUE(output.equals(executor.run(variants[variant].graph, inputs))) << "variant " << variant;
  });
}

/// Samples that run one at a time, as of networks with states, compile each part once.
TEST(VariantRuns, KeepTheProgramsOfSmallNetworks) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16");
  const Graph& base = bench.graph;
  const std::vector<Variant> variants = {{with_width(base, "head_conv", 3), base.position("head_conv")},
                                         {with_width(base, "fc", 3), base.position("fc")}};
  const FastExecutor executor;
  const auto program = executor.compile(base);
  VariantRuns runs(base);
  for (const Variant& variant : variants) runs.add(variant);
  for (int64_t sample = 0; sample < 3; ++sample) {
    const std::vector<Tensor> inputs = {RandomSamples(bench.sample_shape()).samples(sample, sample + 1)};
    runs.run(inputs, *program, executor, [&](size_t variant, const Tensor& output) {
      EXPECT_TRUE(output.equals(executor.run(variants[variant].graph, inputs))) << "variant " << variant;
    });
  }
  EXPECT_EQ(runs.compiled(), 2);
}

}  // namespace
}  // namespace detent
