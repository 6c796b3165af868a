// Accumulators of layers: what static_quantize gives a network is executed to the same bits by the plain
// reference and the engine, stored and read again, counted, and not written where it cannot be held.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/engine/compared_executions_for_test.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/accumulator.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/hardware/design.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/onnx/export_onnx.h"
#include "detent/passes/analysis/accumulator_overflows.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Graph network_of_layers() {
  GraphBuilder b("layers");
  NodeInput x =
      b.convolution("first", b.input("x", {3, 6, 6}), 3, 16, {3, 3}, {{"padding", int64_t{1}}}, true);
  x = b.call("relu", {x});
  x = b.convolution("grouped", x, 16, 16, {3, 3}, {{"groups", int64_t{16}}, {"stride", int64_t{2}}}, true);
  x = b.layer("convtranspose2d", "up", {x}, {{"weight", {16, 4, 2, 2}}, {"bias", {4}}},
              {{"stride", int64_t{2}}});
  return b.finish(b.linear("fc", b.call("flatten", {x}, {{"start_dim", int64_t{1}}}), 64, 10, true));
}

std::string with_accumulator(const std::string& accumulator, const std::string& more = "") {
  return fmt::format("[passes.static_quantize]\nreport = false\nnum_samples = 8\naccumulator = {}\n{}\n",
                     accumulator, more);
}

std::vector<AccumulatedLayer> layers_of(const PassBench& bench, int64_t samples) {
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, samples);
  return accumulated_layers(bench.graph, FastProgram(bench.graph), std::span(&inputs, 1));
}

/// Executed alike, stored and read again; how many of its sums overflow.
int64_t overflows_of(const std::string& accumulator, const std::string& more = "") {
  SCOPED_TRACE(accumulator + " " + more);
  PassBench bench(network_of_layers());
  bench.run_passes(with_accumulator(accumulator, more));
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 4);
  EXPECT_THAT(compare_executions(bench.graph, inputs).disagreements, IsEmpty());
  const TemporaryPath file("accumulators.mz");
  write_packed_graph(file.get(), bench.graph);
  const Graph read = read_graph(file.get());
  EXPECT_EQ(accumulator_of(read.node("fc")), accumulator_of(bench.graph.node("fc")));
  EXPECT_EQ(bench.outputs(read), bench.outputs(bench.graph));
  int64_t overflows = 0;
  const std::vector<AccumulatedLayer> layers = layers_of(bench, 4);
  EXPECT_EQ(layers.size(), 4U);
  for (const AccumulatedLayer& layer : layers) overflows += layer.overflows.sums;
  return overflows;
}

TEST(Accumulators, AreExecutedAlike) {
  EXPECT_GT(overflows_of("\"int14\""), 0);
  EXPECT_GT(overflows_of("\"int14:wrap\"", "requantization = \"fixed_point\""), 0);
  EXPECT_EQ(overflows_of("\"int24\""), 0);
  EXPECT_EQ(overflows_of("\"bf16\""), 0);
  EXPECT_GT(overflows_of("[\"first=int12\", \"u.*=fp16\", \"int13\"]", "weights = \"int4\""), 0);
}

TEST(Accumulators, OfFloatsAddUpValuesOfOtherFormats) {
  const std::string fp8 = "weights = \"fp8_e4m3fn\"\nactivations = \"fp8_e4m3fn\"";
  EXPECT_EQ(overflows_of("\"fp22\"", fp8), 0);
  EXPECT_EQ(overflows_of("\"fp_e8m3\"", "weights = \"mx_e4m3\""), 0);
  PassBench exact(network_of_layers());
  exact.run_passes(with_accumulator("[]", fp8));
  PassBench coarse(network_of_layers());
  coarse.run_passes(with_accumulator("\"fp_e8m2\"", fp8));
  EXPECT_NE(exact.outputs(exact.graph), coarse.outputs(coarse.graph));
}

/// Sums that an accumulator provably holds are those of 32 bits, by the same kernels.
TEST(Accumulators, ThatHoldEverySumCostNothing) {
  PassBench exact(network_of_layers());
  exact.run_passes(with_accumulator("[]"));
  int most = 0;
  for (const GuaranteedWidth& layer : guaranteed_widths(exact.graph)) most = std::max(most, layer.width);
  ASSERT_GT(most, 14);
  PassBench held(network_of_layers());
  held.run_passes(with_accumulator(fmt::format("\"int{}:wrap\"", most)));
  EXPECT_EQ(held.outputs(held.graph), exact.outputs(exact.graph));
  const Tensor inputs = RandomSamples(held.sample_shape()).samples(0, 1);
  for (const StepProfile& step : FastProgram(held.graph).profile(std::span(&inputs, 1), 1))
    EXPECT_NE(step.kernel, "reference") << step.nodes << step.why;
  const TemporaryPath file("held.onnx");
  EXPECT_NO_THROW(export_onnx(held.graph, file.get(), {.style = OnnxStyle::kQdq}));
}

/// The same of circuits.
TEST(Accumulators, OfCircuitsHoldEverySum) {
  GraphBuilder b("small");
  const Graph network = b.finish(b.linear("fc", b.input("x", {3}), 3, 2, true));
  const auto problem = [&](const char* accumulator) {
    PassBench bench(network);
    bench.run_passes(with_accumulator(accumulator));
    return error_of([&] { static_cast<void>(make_circuit(bench.graph)); });
  };
  EXPECT_EQ(problem("\"int20\""), "");
  EXPECT_THAT(problem("\"int12\""), HasSubstr("node \"fc\" (linear): has the accumulator int12, where "));
}

TEST(Accumulators, ThatDoNotAreNotWritten) {
  PassBench bench(network_of_layers());
  bench.run_passes(with_accumulator("[\"fc=int12\"]"));
  const TemporaryPath file("accumulators.onnx");
  EXPECT_THAT(error_of([&] { export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQdq}); }),
              HasSubstr("node \"fc\" (linear): has the accumulator int12, where "));
}

/// Passes that compare with the float network do so without accumulators.
TEST(Accumulators, AreTheQuantizedNetworksAlone) {
  PassBench bench(network_of_layers());
  bench.run_passes(with_accumulator("\"int14\"",
                                    "[passes.bias_correction]\nnum_samples = 8\n"
                                    "[passes.layerwise_error_analysis]\nnum_samples = 8"));
  EXPECT_TRUE(accumulator_of(bench.graph.node("fc")));
}

TEST(Accumulators, HoldWhatAxeChooses) {
  PassBench bench(network_of_layers());
  const std::string four_bits = "weights = \"int4\"\nactivations = \"uint4\"\n";
  bench.run_passes(
      with_accumulator("[\"up=int16\", \"int10\"]", four_bits + "[passes.axe]\nnum_samples = 8"));
  for (const char* name : {"first", "grouped", "fc"})
    EXPECT_EQ(inexact_accumulator_text(bench.graph, bench.graph.node(name)), "") << name;
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 4);
  EXPECT_THAT(compare_executions(bench.graph, inputs).disagreements, IsEmpty());
  PassBench without(network_of_layers());
  EXPECT_THAT(without.error_of(with_accumulator("[]", "[passes.axe]")),
              HasSubstr("no layer that adds up products of codes has an accumulator of integers"));
}

TEST(Accumulators, OfIntegersAddUpCodes) {
  PassBench bench(network_of_layers());
  bench.run_passes(with_accumulator("\"int16\"", "keep_float = [\"fc\"]"));
  EXPECT_FALSE(accumulator_of(bench.graph.node("fc")));
  EXPECT_THAT(bench.reported, HasSubstr("not of layers that add no products of codes up: fc"));
  PassBench named(network_of_layers());
  EXPECT_THAT(
      named.error_of(with_accumulator("[\"f.*=int16\"]", "keep_float = [\"fc\"]")),
      HasSubstr("node \"fc\" (linear) adds no products of codes up: expected an accumulator of floats"));
  EXPECT_THAT(named.error_of(with_accumulator("[\"relu.*=int16\"]")), HasSubstr("matches no node"));
  EXPECT_THAT(
      named.error_of(with_accumulator("[\"int99\"]")),
      HasSubstr("t.toml, [passes.static_quantize]: key \"accumulator\": got the accumulator \"int99\""));
  Graph graph = network_of_layers();
  set_accumulator(graph.node("fc"), Accumulator::parse("int16"));
  EXPECT_THAT(error_of([&] { FastProgram program(graph); }),
              HasSubstr("node \"fc\" (linear): has the accumulator int16, and computes in float"));
}

}  // namespace
}  // namespace detent
