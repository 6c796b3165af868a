#include "detent/onnx/operand_roundings.h"

#include <gtest/gtest.h>

#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

/// Whether the rounding of what reads an input becomes one of the input too.
bool is_rounded_where_computed(const char* spec) {
  Graph graph("test");
  graph.add_input("x", {DType::kFloat32, {2}});
  Node reader{.name = "y", .op = "relu", .inputs = {NodeInput::of("x")}};
  reader.quantization["data_in_0"] = QuantizerRef(parse_quant_spec_text(spec));
  graph.add(std::move(reader));
  round_where_computed(graph);
  return graph.node("x").quantization.contains("data_out_0");
}

/// Twice rounded, a value would have the scale of its rounded values.
TEST(OperandRoundings, AreNotRepeatedWhereTheScaleFollowsFromTheData) {
  EXPECT_TRUE(is_rounded_where_computed("affine:signed=false,scale=0.5,zero_point=3"));
  EXPECT_FALSE(is_rounded_where_computed("affine:signed=false"));
}

}  // namespace
}  // namespace detent
