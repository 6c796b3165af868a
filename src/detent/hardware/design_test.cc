#include "detent/hardware/design.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/hardware/networks_for_test.h"
#include "detent/hardware/table_networks_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

Design design_of(const Graph& graph) {
  const Circuit circuit = make_circuit(graph);
  return make_design(circuit, circuit_logic(circuit, DontCares::kUnreachable, {}),
                     random_vectors(graph, circuit, 2, 3));
}

/// Codes of 4 bits, one more for their sign, times 1 and 3, of which the latter has two digits: 15 bits, of
/// which a sum of 6 bits is made.
TEST(Design, EstimatesSums) {
  GraphBuilder builder("sum");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {2}), 2, 1));
  const auto weights = graph.node("fc").find_parameter("weight")->tensor.values<float>();
  weights[0] = 0.5F;
  weights[1] = 1.5F;
  quantize_for_test(graph, "fixed:width=4,frac_width=2", "fixed:width=4,frac_width=1");
  const DesignResources resources = design_of(graph).resources;
  EXPECT_EQ(resources.luts, 2 * 15 - 6);
  EXPECT_FALSE(resources.luts_are_counted);
}

TEST(Design, CountsTables) {
  const Design design = design_of(TableNetworksForTest(5).draw(5));
  EXPECT_TRUE(design.resources.luts_are_counted);
  EXPECT_GT(design.resources.luts, 0);
  // Both texts of a table are there.
  const auto tables = std::ranges::find_if(design.files, [](const DesignFile& file) {
    return file.second.find("`ifdef VERILATOR") != std::string::npos;
  });
  ASSERT_NE(tables, design.files.end());
  EXPECT_THAT(tables->second, HasSubstr("'h"));
}

SynthesisResult synthesized(const Design& design) {
  const TemporaryPath folder("design");
  for (const auto& [name, text] : design.files) write_file(folder.get() / name, text);
  return synthesize(folder.get());
}

/// Estimates of sums are a third off at most. Of registers after sums yosys leaves out some that never
/// change.
TEST(Design, EstimatesWhatYosysFindsSlow) {
  if (const std::string why = why_no_synthesis(); !why.empty()) GTEST_SKIP() << why;
  for (const char* inputs : {"fixed:width=4,frac_width=2", "affine:width=6,scale=0.25"}) {
    Graph graph = linear_network_for_test();
    quantize_for_test(graph, inputs, "fixed:width=5,frac_width=3");
    const Design design = design_of(graph);
    const SynthesisResult found = synthesized(design);
    EXPECT_NEAR(static_cast<double>(design.resources.luts) / static_cast<double>(found.luts), 1, 0.34)
        << inputs;
    EXPECT_NEAR(static_cast<double>(design.resources.register_bits), static_cast<double>(found.register_bits),
                0.1 * static_cast<double>(found.register_bits))
        << inputs;
  }
}

/// Products of signs are counted, not estimated.
TEST(Design, CountsProductsOfSignsAsYosysDoesSlow) {
  if (const std::string why = why_no_synthesis(); !why.empty()) GTEST_SKIP() << why;
  GraphBuilder builder("signs");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {40}), 40, 4));
  fill_for_test(graph, 4);
  quantize_for_test(graph, "binary", "binary");
  const Design design = design_of(graph);
  EXPECT_TRUE(design.resources.luts_are_counted);
  const SynthesisResult found = synthesized(design);
  EXPECT_NEAR(static_cast<double>(design.resources.luts) / static_cast<double>(found.luts), 1, 0.1);
  EXPECT_EQ(design.resources.register_bits, found.register_bits);
}

}  // namespace
}  // namespace detent
