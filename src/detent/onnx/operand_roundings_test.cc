#include "detent/onnx/import_steps.h"

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

TEST(OperandRoundings, OfConstantsSayHowTheyAreStored) {
  Graph graph("test");
  Node constant{.name = "w", .target = "w", .op = "get_attr", .mase_type = MaseType::kGetAttr};
  constant.parameters.emplace_back("value", Parameter{Tensor::from({2}, std::vector<float>{1, 2}), false});
  graph.add(std::move(constant));
  Node reader{.name = "y", .op = "relu", .inputs = {NodeInput::of("w")}};
  reader.quantization["data_in_0"] = QuantizerRef(parse_quant_spec_text("affine:scale=0.5"));
  graph.add(std::move(reader));
  round_where_computed(graph);
  EXPECT_EQ(graph.node("w").find_quantizer("value"), graph.node("y").find_quantizer("data_in_0"));
}

}  // namespace
}  // namespace detent
