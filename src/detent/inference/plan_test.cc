#include "detent/inference/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// fc on codes, six softmaxes on its result's values, and a layer on codes again.
Graph network() {
  GraphBuilder builder("g");
  NodeInput x = builder.linear("fc1", builder.input("x", {8}), 8, 8);
  for (int i = 0; i < 6; ++i) x = builder.call("softmax", {x});
  x = builder.call("relu", {builder.linear("fc2", x, 8, 4)});
  Graph graph = builder.finish(x);
  for (const char* name : {"fc1", "fc2"}) {
    Node& node = graph.node(name);
    node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
    node.quantization["weight"] = parse_quant_spec_text("affine:scale=0.25");
    node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.125");
  }
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

TEST(IntegerPlan, SaysWhereCodesBeginAndEnd) {
  const std::vector<PlannedNode> plan = integer_plan(network());
  ASSERT_EQ(plan.size(), 11U);
  EXPECT_EQ(plan[0].engine, NodeEngine::kGiven);
  EXPECT_EQ(plan[1].engine, NodeEngine::kCodes);
  EXPECT_THAT(plan[1].quantized, ElementsAre("data_in_0"));
  EXPECT_EQ(plan[2].engine, NodeEngine::kFloat);
  EXPECT_EQ(plan[2].why, "no integer form");
  EXPECT_THAT(plan[2].dequantized, ElementsAre("data_in_0"));
  EXPECT_THAT(plan[3].dequantized, IsEmpty());
  EXPECT_THAT(plan[8].quantized, ElementsAre("data_in_0"));
  EXPECT_EQ(plan[9].engine, NodeEngine::kMoves);
  EXPECT_THAT(plan[10].dequantized, ElementsAre("data_in_0"));
}

TEST(IntegerPlan, SummaryNamesGroupsInLinesOf80Columns) {
  const std::string text = plan_summary(integer_plan(network()));
  EXPECT_THAT(text, HasSubstr("2 nodes compute in integers, 1 move integers, 6 compute in float"));
  EXPECT_THAT(text, HasSubstr("in float: 6 x softmax (no integer form): softmax"));
  EXPECT_THAT(text, HasSubstr("and 2 more"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(IntegerPlan, SaysWhyALayerStaysInFloat) {
  Graph graph = network();
  graph.node("fc1").quantization.clear();
  graph.node("fc2").quantization["weight"] =
      parse_quant_spec_text("affine:granularity=group,group_size=4,scale=0.5x8");
  const std::vector<PlannedNode> plan = integer_plan(graph);
  EXPECT_EQ(plan[1].why, "not quantized");
  EXPECT_EQ(plan[8].why, "a scale a group of weights");
  EXPECT_THAT(plan[8].quantized, ElementsAre("data_in_0", "data_out_0"));
}

}  // namespace
}  // namespace detent
