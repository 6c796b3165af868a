#include "detent/engine/compared_executions_for_test.h"
#include "detent/engine/float_networks_for_test.h"

// Layers after sizes that follow from data, as those of speech synthesis are: kernels compute them once the
// run knows the sizes, and give the numbers of the plain reference.

namespace detent {
namespace {

class DeferredPlans : public FloatNetworkTest {};

constexpr int64_t kChannels = 5;
constexpr int64_t kPositions = 9;

NodeInput transposed(GraphBuilder& b, const NodeInput& x) {
  return b.call("transpose", {x}, {{"dim0", 1}, {"dim1", 2}});
}

/// The positions [1, channels, n] of x [N, channels, positions] whose first channel is not far below the
/// largest.
NodeInput chosen_positions(GraphBuilder& b, const NodeInput& x) {
  const NodeInput first = b.call("select", {x}, {{"dim", 1}, {"index", 0}});
  const NodeInput largest = b.call("amax", {first, listed({0, 1})});
  const NodeInput chosen =
      b.call("ge", {first, b.call("mul", {largest, NodeInput::of_constant(Value(0.3))})});
  const NodeInput places = b.call("transpose", {b.call("nonzero", {chosen})}, {{"dim0", 0}, {"dim1", 1}});
  const NodeInput rows = b.call("gather_nd", {transposed(b, x), places});
  return transposed(b, b.call("unsqueeze", {rows, listed({0})}));
}

NodeInput convolved(GraphBuilder& b, const std::string& name, const NodeInput& x) {
  return b.convolution(name, x, kChannels, kChannels, {3}, {{"padding", int64_t{1}}});
}

/// Noise of a length that is the rounded sum of what is above 0: a range, a shape, a tensor of it.
NodeInput of_computed_length(GraphBuilder& b, const NodeInput& x) {
  const NodeInput sum = b.call("sum", {b.call("relu", {x}), listed({0, 1, 2})}, {{"keepdim", false}});
  const NodeInput length = b.call("cast", {b.call("ceil", {sum})}, {{"dtype", "int64"}});
  const NodeInput places =
      b.call("cast", {b.call("range", {constant(0), length, constant(1)})}, {{"dtype", "float32"}});
  const NodeInput wave = b.call("sin", {b.call("unsqueeze", {places, listed({0, 1})})});
  return b.call("mul", {wave, b.parameter("of_channels", {1, kChannels, 1})});
}

/// Convolutions, transposed ones, a product of matrices and a recurrent layer on [1, channels, n].
NodeInput layers(Draw& draw, GraphBuilder& b, const std::string& name, NodeInput x) {
  x = b.call("relu", {convolved(b, name + "first", x)});
  if (draw.coin()) x = b.call("add", {x, convolved(b, name + "second", x)});
  if (draw.coin()) x = b.call("add", {x, b.call("matmul", {b.call("matmul", {x, transposed(b, x)}), x})});
  if (draw.coin()) {
    x = b.layer("convtranspose1d", name + "up", {x},
                {{"weight", {kChannels, kChannels, 4}}, {"bias", {kChannels}}}, {{"stride", int64_t{2}}});
  }
  if (draw.coin()) {
    x = b.call("gru",
               {transposed(b, x), b.parameter(name + "input_weights", {1, 3 * kChannels, kChannels}),
                b.parameter(name + "state_weights", {1, 3 * kChannels, kChannels})},
               {{"hidden_size", kChannels}, {"batch_first", true}});
    x = transposed(b, b.call("squeeze", {x, listed({2})}));
  }
  return x;
}

Graph network(Draw& draw) {
  GraphBuilder b("after_lengths");
  const NodeInput x = b.input("x", {kChannels, kPositions});
  const NodeInput before = b.call("tanh", {convolved(b, "before", x)});
  NodeInput y =
      layers(draw, b, "a_", draw.coin() ? chosen_positions(b, before) : of_computed_length(b, before));
  std::vector<NodeInput> outputs = {before, y};
  if (draw.coin()) outputs.push_back(layers(draw, b, "b_", chosen_positions(b, b.call("mul", {y, y}))));
  Graph graph = b.finish(outputs);
  draw_parameters(draw, graph);
  return graph;
}

/// Codes around convolutions; the other nodes compute in float.
void quantize_convolutions(Draw& draw, Graph& graph) {
  for (Node& node : graph.nodes()) {
    if (node.op != "conv1d") continue;
    const auto spec = [&](double scale, int64_t zero_point) {
      return parse_quant_spec_text(
          fmt::format("affine:signed=false,scale={},zero_point={}", scale, zero_point));
    };
    node.quantization["data_in_0"] = spec(draw.real(0.01, 0.05), draw.of(60, 200));
    node.quantization["weight"] = spec(0.01, 128);
    if (draw.coin()) node.quantization["data_out_0"] = spec(draw.real(0.01, 0.05), draw.of(60, 200));
  }
  graph.set_requantization(Requantization::kFloat);
}

TEST_F(DeferredPlans, AreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const bool has_codes = draw.coin();
    Graph graph = network(draw);
    if (has_codes) quantize_convolutions(draw, graph);
    Tensor x = draw.tensor({draw.of(1, 3), kChannels, kPositions});
    x.values<float>()[0] = 3;
    expect_equal_on_every_target(graph, x, kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_EQ(kernels["planned in the run"], 0);  // its steps are shown
  EXPECT_GT(kernels["convolution float"], 90);
  EXPECT_GT(kernels["recurrent float"], 20);
  EXPECT_GT(kernels["product float"], 20);
}

/// Plans of other sizes replace each other, also in several threads.
TEST_F(DeferredPlans, OfManySizesAreThoseOfTheReference) {
  Draw draw(7);
  const Graph graph = network(draw);
  const FastProgram program(graph);
  const IntegerProgram reference(graph);
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> wanted;
  for (int i = 0; i < 12; ++i) {
    inputs.push_back(draw.tensor({1, kChannels, kPositions}));
    inputs.back().values<float>()[0] = 3;
    wanted.push_back(reference.run({&inputs.back(), 1}));
  }
  parallel_for(60, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const auto i = static_cast<size_t>(k % 12);
      const std::vector<Tensor> got = program.run({&inputs[i], 1});
      for (size_t o = 0; o < got.size(); ++o) EXPECT_TRUE(got[o].equals(wanted[i][o])) << k;
    }
  });
}

/// Operands of nodes whose sizes only the run knows.
TEST_F(DeferredPlans, ShowWhatTheReferenceShows) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Graph graph = network(draw);
    if (draw.coin()) quantize_convolutions(draw, graph);
    Tensor x = draw.tensor({1, kChannels, kPositions});
    x.values<float>()[0] = 3;
    const Comparison comparison = compare_executions(graph, x);
    EXPECT_EQ(comparison.disagreements, std::vector<std::string>());
    EXPECT_GT(comparison.operands, 20U);
  }
}

}  // namespace
}  // namespace detent
