#include "detent/engine/float_networks_for_test.h"

// Recurrent layers, alone and between others, of floats and of codes: by kernels, which have packed their
// weights, and by the plain reference.

namespace detent {
namespace {

class RecurrentLayers : public FloatNetworkTest {
 protected:
  void expect_equal(const Graph& graph, std::span<const Tensor> inputs) {
    expect_equal_on_every_target(graph, inputs, kernels_);
  }

  KernelCounts kernels_;
};

struct Network {
  Graph graph;
  std::vector<Tensor> inputs;
};

constexpr int64_t kWidth = 7;

struct Sizes {
  std::string op;
  int64_t gates;
  int64_t hidden;
  int64_t steps;
  int64_t samples;
  int64_t directions;
  bool batch_first;

  explicit Sizes(Draw& draw)
      : hidden(draw.among({1, 4, 16, 23, 64})),
        steps(draw.among({1, 2, 9})),
        samples(draw.among({1, 3, 8, 17})),
        directions(draw.of(1, 2)),
        batch_first(draw.coin()) {
    static const char* const kOps[] = {"rnn", "gru", "lstm"};
    const int64_t kind = draw.of(0, 2);
    op = kOps[kind];
    gates = kind == 0 ? 1 : 2 + kind;
  }
  Shape state(int64_t count) const {
    return batch_first ? Shape{count, directions, hidden} : Shape{directions, count, hidden};
  }
};

Table attributes_of(Draw& draw, const Sizes& s) {
  static const char* const kFunctions[] = {"tanh", "sigmoid tanh", "sigmoid tanh tanh"};
  const std::string functions = kFunctions[s.op == "rnn" ? 0 : s.op == "gru" ? 1 : 2];
  Table attributes = {{"hidden_size", s.hidden}, {"batch_first", s.batch_first}};
  attributes["activations"] = s.directions == 2 ? functions + " " + functions : functions;
  attributes["direction"] = s.directions == 2 ? "bidirectional" : draw.coin() ? "forward" : "reverse";
  if (s.op == "gru") attributes["linear_before_reset"] = draw.coin();
  if (draw.of(0, 4) == 0) attributes["clip"] = 0.5;
  return attributes;
}

/// A layer of a constant's, of an input's or of no biases, lengths and first states; all its results.
Network network(Draw& draw, const Sizes& s) {
  Network n{Graph("recurrent"), {}};
  GraphBuilder builder("recurrent");
  const auto input = [&](const std::string& name, const Tensor& tensor) {
    n.inputs.push_back(tensor);
    return builder.input(name, TensorType{tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}});
  };
  const Shape x = s.batch_first ? Shape{s.samples, s.steps, kWidth} : Shape{s.steps, s.samples, kWidth};
  const int64_t rows = s.gates * s.hidden;
  std::vector<NodeInput> operands = {input("x", draw.tensor(x)),
                                     builder.parameter("input_weights", {s.directions, rows, kWidth}),
                                     builder.parameter("state_weights", {s.directions, rows, s.hidden}),
                                     NodeInput::absent(),
                                     NodeInput::absent(),
                                     NodeInput::absent()};
  if (draw.coin()) operands[3] = builder.parameter("biases", {s.directions, 2 * rows});
  if (draw.of(0, 3) == 0) {
    Tensor lengths(DType::kInt64, {s.samples});
    for (int64_t& length : lengths.values<int64_t>()) length = draw.of(0, s.steps);
    operands[4] = input("lengths", lengths);
  }
  if (draw.coin()) operands[5] = input("state", draw.tensor(s.state(s.samples)));
  if (s.op == "lstm" && draw.coin()) operands.push_back(builder.parameter("cell", s.state(1)));
  const NodeInput first = builder.call(s.op, operands, attributes_of(draw, s));
  std::vector<NodeInput> results(s.op == "lstm" ? 3 : 2, first);
  for (size_t i = 0; i < results.size(); ++i) results[i].result = i;
  results.push_back(builder.call("tanh", {first}));
  n.graph = builder.finish(results);
  draw_parameters(draw, n.graph);
  return n;
}

TEST_F(RecurrentLayers, AreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Sizes sizes(draw);
    const Network n = network(draw, sizes);
    expect_equal(n.graph, n.inputs);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels_["recurrent float"], 80);
  EXPECT_EQ(kernels_["float"], 0);
}

/// Weights are rounded before they are packed.
TEST_F(RecurrentLayers, OfCodesAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Sizes sizes(draw);
    Network n = network(draw, sizes);
    for (Node& node : n.graph.nodes()) {
      if (node.op != sizes.op) continue;
      for (const char* operand : {"data_in_0", "data_in_1", "data_in_2", "data_out_0"}) {
        if (draw.of(0, 3) == 0) continue;
        const auto width = static_cast<int>(draw.among({8, 8, 4, 16}));
        node.quantization[operand] = parse_quant_spec_text(
            fmt::format("affine:width={},signed=true,scale={}", width, std::ldexp(4, -width)));
      }
    }
    n.graph.set_requantization(Requantization::kFloat);
    expect_equal(n.graph, n.inputs);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels_["recurrent float"], 60);
}

/// Weights that are stored as codes are constants, and no rounding is a step of its own.
TEST_F(RecurrentLayers, OfStoredCodesAreThoseOfTheReference) {
  static const char* const kFormats[] = {"affine:width=4,symmetric=true", "mx:block_size=2,block_axis=-1",
                                         "ternary"};
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Sizes sizes(draw);
    Network n = network(draw, sizes);
    for (const char* name : {"input_weights", "state_weights"}) {
      const char* format = kFormats[draw.of(0, 2)];
      n.graph.node(name).quantization["value"] = parse_quant_spec_text(format);
    }
    if (draw.coin()) n.graph.set_requantization(Requantization::kFloat);
    expect_equal(n.graph, n.inputs);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels_["recurrent float"], 30);
  EXPECT_EQ(kernels_["float"], 0);
}

/// Weights that the network computes are no constants.
TEST_F(RecurrentLayers, OfComputedWeightsAreTheReference) {
  GraphBuilder builder("recurrent");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {3, 2, 5}});
  const NodeInput weights = builder.call("tanh", {builder.parameter("weights", {1, 12, 5})});
  const NodeInput states = builder.parameter("states", {1, 12, 3});
  Graph graph = builder.finish(builder.call("lstm", {x, weights, states}, {{"hidden_size", 3}}));
  Draw draw(1);
  draw_parameters(draw, graph);
  const Tensor input = draw.tensor({3, 2, 5});
  expect_equal(graph, {&input, 1});
  EXPECT_EQ(kernels_["recurrent float"], 0);
  EXPECT_GT(kernels_["float"], 0);
}

}  // namespace
}  // namespace detent
