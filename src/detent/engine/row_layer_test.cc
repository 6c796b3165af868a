#include "detent/engine/row_layer.h"

#include <gtest/gtest.h>

#include "detent/engine/random_networks_for_test.h"

// Linear layers by themselves, against the plain reference, on every instruction set.

namespace detent {
namespace {

class RowLayerTest : public EngineTargetTest {};

/// A linear layer whose weights have the format, or drawn codes.
Graph drawn_layer(Draw& draw, const std::string& weight) {
  const int64_t inputs = draw.of(1, 90);
  GraphBuilder builder("rows");
  Graph graph = builder.finish(
      builder.linear("fc", builder.input("x", {1, inputs}), inputs, draw.of(1, 70), draw.coin()));
  Node& node = graph.node("fc");
  quantize_layer(draw, node);
  if (!weight.empty()) node.quantization["weight"] = parse_quant_spec_text(weight);
  const std::string input = codes(draw, 3);
  node.quantization["data_in_0"] = parse_quant_spec_text(input);
  const std::string output = codes(draw, 9);
  if (draw.coin()) node.quantization["data_out_0"] = parse_quant_spec_text(output);
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

Tensor drawn_codes(Draw& draw, const CodeType& type, Shape shape) {
  Tensor codes(DType::kInt32, std::move(shape));
  for (int32_t& code : codes.values<int32_t>())
    code = type.is_sign ? (draw.coin() ? type.low : type.high)
                        : static_cast<int32_t>(draw.of(type.low, type.high));
  return codes;
}

/// Whether a kernel has computed the layer, and so as the reference does.
bool gives_reference(Draw& draw, const Graph& graph) {
  const auto whole = reference_plan(graph);
  std::unique_ptr<const RowLayer> layer;
  const auto packed = reference_plan(graph, {.take = [&](ReferenceStep& step) {
                                       if (auto taken = take_row_layer(step)) layer = std::move(taken);
                                       return false;
                                     }});
  if (layer == nullptr) return false;
  const ReferenceStep& step = whole->steps.at(1);
  for (const int64_t rows : {1, 2, 19}) {
    const CodeType& type = *step.inputs.front();
    const Tensor codes = drawn_codes(draw, type, {rows, step.node->find_parameter("weight")->tensor.dim(1)});
    const Flow expected = reference_results(step, {{codes, type}}, whole->in_float.get()).front();
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      const Flow result = layer->results(codes);
      EXPECT_EQ(result.type, expected.type);
      EXPECT_TRUE(result.tensor.equals(expected.tensor)) << rows << " rows, " << threads << " threads";
    }
  }
  return true;
}

TEST_F(RowLayerTest, GivesWhatTheReferenceGives) {
  int computed = 0;
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    for (uint32_t seed = 0; seed < 60; ++seed) {
      Draw draw(seed);
      const std::string weight = seed % 3 != 0   ? ""
                                 : seed % 2 == 0 ? "mx:element=e2m1,block_axis=1"
                                                 : "nvfp4:block_axis=1";
      const Graph graph = drawn_layer(draw, weight);
      SCOPED_TRACE(target + ", seed " + std::to_string(seed));
      computed += gives_reference(draw, graph) ? 1 : 0;
    }
  }
  EXPECT_GT(computed, 40 * std::ssize(engine_targets()));
}

TEST_F(RowLayerTest, LeavesLayersWithoutCodesToOthers) {
  Draw draw(1);
  Graph graph = drawn_layer(draw, "");
  graph.node("fc").quantization.erase("data_in_0");
  reference_plan(graph, {.take = [&](ReferenceStep& step) {
                   EXPECT_EQ(take_row_layer(step), nullptr);
                   return false;
                 }});
}

}  // namespace
}  // namespace detent
