#include "detent/graph/accumulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(AccumulatorTest, TextsAreReadAndWritten) {
  for (const char* text : {"int2", "int16", "int16:wrap", "int32", "fp16", "bf16", "fp22", "fp32", "fp_e4m7"})
    EXPECT_EQ(Accumulator::parse(text).text(), text);
  EXPECT_EQ(Accumulator::parse("int24:saturate"), Accumulator{.width = 24});
  EXPECT_EQ(Accumulator::parse("fp_e5m10").text(), "fp16");
  for (const char* text :
       {"", "int", "int1", "int33", "int16:", "int16:clip", "int16 ", "uint16", "fp8", "fp_e3m2", "fp_e4m8",
        "fp_e5m16", "fp_e8m24", "fp_e8", "fp_e5m10x", "fp16:wrap", "int-4"}) {
    EXPECT_THAT(error_of([&] { Accumulator::parse(text); }), HasSubstr("expected int2 to int32")) << text;
  }
}

TEST(AccumulatorTest, FloatsAreThoseOfTheStandard) {
  EXPECT_EQ(Accumulator::parse("fp16").largest(), 65504);
  EXPECT_EQ(Accumulator::parse("fp16").least_normal(), 0x1p-14);
  EXPECT_EQ(Accumulator::parse("bf16").largest(), 0x1.FEp127);
  EXPECT_EQ(Accumulator::parse("fp22").fraction_bits(), 13);
  EXPECT_TRUE(Accumulator::parse("fp16").holds(2048));
  EXPECT_FALSE(Accumulator::parse("fp16").holds(2049));
  EXPECT_TRUE(Accumulator::parse("int16").holds(32767));
  EXPECT_FALSE(Accumulator::parse("int16").holds(32768));
}

TEST(AccumulatorTest, LayersWithWeightsHaveThem) {
  GraphBuilder builder("g");
  const NodeInput y = builder.linear("fc", builder.input("x", {4}), 4, 2);
  Graph graph = builder.finish(builder.call("relu", {y}));
  EXPECT_FALSE(accumulator_of(graph.node("fc")));
  set_accumulator(graph.node("fc"), Accumulator::parse("int16:wrap"));
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(accumulator_of(graph.node("fc"))->text(), "int16:wrap");
  graph.node("fc").attributes["accumulator"] = "int99";
  EXPECT_THAT(error_of([&] { verify(graph); }),
              HasSubstr("node \"fc\" (linear): attribute \"accumulator\": got the accumulator \"int99\""));
  graph.node("fc").attributes["accumulator"] = int64_t{16};
  EXPECT_THAT(error_of([&] { verify(graph); }), HasSubstr("got 16, expected text"));
  graph.node("fc").attributes.erase("accumulator");
  graph.node("relu").attributes["accumulator"] = "int16";
  EXPECT_THAT(error_of([&] { verify(graph); }), HasSubstr("only layers with weights have accumulators"));
}

}  // namespace
}  // namespace detent
