#include "detent/engine/float_networks_for_test.h"

// Products of matrices, functions of the rows of their results and products of these, computed some rows at a
// time, are those of the plain reference, which computes one after the other.

namespace detent {
namespace {

class RowChains : public FloatNetworkTest {};

NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }

struct Attention {
  int64_t batch, heads, tokens, keys, width;
  Shape sample() const { return {heads, tokens, width}; }
};

Attention drawn_attention(Draw& draw) {
  return {draw.of(1, 2), draw.of(2, 3), draw.among({97, 130, 150}), draw.among({120, 256, 300}),
          draw.among({4, 20, 32})};
}

/// Nodes between the two products.
NodeInput between(Draw& draw, GraphBuilder& builder, const Attention& a, NodeInput scores) {
  if (draw.coin()) scores = builder.call(draw.coin() ? "mul" : "div", {scores, number(0.3)});
  const Shape masks[] = {{a.tokens, a.keys}, {a.heads, 1, a.keys}, {a.heads, a.tokens, 1}, {a.keys}};
  if (draw.coin()) {
    const NodeInput mask = builder.parameter("mask", masks[draw.of(0, 3)]);
    scores = draw.coin() ? builder.call("add", {scores, mask}) : builder.call("sub", {mask, scores});
  }
  const int64_t way = draw.of(0, 3);
  if (way == 0) return builder.call("relu", {scores});
  if (way == 1) return builder.call("sigmoid", {scores});
  return builder.call("softmax", {scores}, {{"dim", -1}});
}

Graph attention_graph(Draw& draw, const Attention& a) {
  GraphBuilder builder("attention");
  const NodeInput q = builder.input("q", a.sample());
  const NodeInput k = builder.input("k", {a.heads, a.keys, a.width});
  const NodeInput v = builder.input("v", {a.heads, a.keys, a.width + 3});
  const NodeInput columns = builder.call("transpose", {k}, {{"dim0", -2}, {"dim1", -1}});
  const NodeInput shares = between(draw, builder, a, builder.call("matmul", {q, columns}));
  return builder.finish(builder.call("matmul", {shares, v}));
}

std::vector<Tensor> inputs_of(Draw& draw, const Attention& a) {
  return {draw.tensor({a.batch, a.heads, a.tokens, a.width}),
          draw.tensor({a.batch, a.heads, a.keys, a.width}),
          draw.tensor({a.batch, a.heads, a.keys, a.width + 3})};
}

TEST_F(RowChains, OfValuesAreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Attention a = drawn_attention(draw);
    Graph graph = attention_graph(draw, a);
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, inputs_of(draw, a), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["tiled product float"], 10);
  EXPECT_EQ(kernels["product float"], 0);
}

/// Integers between all nodes, or around the products alone.
void quantize_operands(Draw& draw, Graph& graph) {
  const bool everywhere = draw.coin();
  std::map<std::string, QuantSpec> types;
  for (Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) break;
    const int64_t count = draw.among({256, 256, 16});
    const double range = role_of(node) == OperatorRole::kInput ? 6 : 12;
    types[node.name] = parse_quant_spec_text(
        fmt::format("affine:width={},signed=false,scale={},zero_point={}", count == 16 ? 4 : 8,
                    range / static_cast<double>(count), draw.coin() ? count / 2 : draw.of(0, count - 1)));
    const bool multiplies = node.op == "matmul";
    if (!(everywhere || multiplies) || role_of(node) != OperatorRole::kComputes) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const NodeInput& input = node.inputs[i];
      if (!input.is_constant()) node.quantization[fmt::format("data_in_{}", i)] = types.at(input.node);
    }
    if (everywhere) node.quantization["data_out_0"] = types.at(node.name);
  }
  graph.set_requantization(draw.of(0, 3) == 0 ? Requantization::kFixedPoint : Requantization::kFloat);
}

TEST_F(RowChains, OfCodesAreThoseOfTheReference) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Attention a = drawn_attention(draw);
    Graph graph = attention_graph(draw, a);
    draw_parameters(draw, graph);
    quantize_operands(draw, graph);
    expect_equal_to_reference(graph, inputs_of(draw, a), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["tiled"], 20);
}

/// Values that another node reads lie in memory as a whole.
TEST_F(RowChains, WhatOthersReadIsNotCutIntoRows) {
  Draw draw(1);
  const Attention a = drawn_attention(draw);
  GraphBuilder builder("shown");
  const NodeInput q = builder.input("q", a.sample());
  const NodeInput k = builder.input("k", {a.heads, a.width, a.keys});
  const NodeInput v = builder.input("v", {a.heads, a.keys, a.keys});
  const NodeInput shares = builder.call("softmax", {builder.call("matmul", {q, k})}, {{"dim", -1}});
  const Graph graph = builder.finish(builder.call("add", {builder.call("matmul", {shares, v}), shares}));
  const std::vector<Tensor> inputs = {draw.tensor({1, a.heads, a.tokens, a.width}),
                                      draw.tensor({1, a.heads, a.width, a.keys}),
                                      draw.tensor({1, a.heads, a.keys, a.keys})};
  KernelCounts kernels;
  expect_equal_on_every_target(graph, inputs, kernels);
  EXPECT_EQ(kernels["tiled product float"], 0);
  EXPECT_GT(kernels["product float"], 0);
}

/// The error names the element as the reference does.
TEST_F(RowChains, NoCodeIsNaN) {
  Draw draw(2);
  const Attention a = {1, 2, 150, 300, 8};
  GraphBuilder builder("roots");
  const NodeInput q = builder.input("q", a.sample());
  const NodeInput k = builder.input("k", {a.heads, a.width, a.keys});
  const NodeInput v = builder.input("v", {a.heads, a.keys, a.width});
  const NodeInput roots = builder.call("sqrt", {builder.call("matmul", {q, k})});
  Graph graph = builder.finish(builder.call("matmul", {roots, v}));
  graph.node("matmul_1").quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.02,zero_point=0");
  graph.node("matmul_1").quantization["data_in_1"] = parse_quant_spec_text("affine:scale=0.02,zero_point=0");
  graph.set_requantization(Requantization::kFloat);
  std::vector<Tensor> inputs = {draw.tensor({1, a.heads, a.tokens, a.width}),
                                draw.tensor({1, a.heads, a.width, a.keys}),
                                draw.tensor({1, a.heads, a.keys, a.width})};
  for (Tensor& input : inputs) {
    for (float& value : input.values<float>()) value = std::fabs(value);
  }
  const auto row = inputs[0].values<float>().subspan(static_cast<size_t>((150 + 77) * a.width));
  std::ranges::fill(row.first(static_cast<size_t>(a.width)), -1.0F);
  const auto message = [&](const auto& program) -> std::string {
    try {
      static_cast<void>(program.run(inputs));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string wanted = message(IntegerProgram(graph));
  EXPECT_NE(wanted.find("is NaN"), std::string::npos) << wanted;
  const FastProgram program(graph);
  EXPECT_EQ(message(program), wanted);
}

}  // namespace
}  // namespace detent
