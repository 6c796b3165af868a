#include "detent/engine/float_networks_for_test.h"

// Float32 nodes of transformers and gated convolutions around their layers: functions of elements and of
// rows, pairs of values, products of matrices, and views of values that nobody moves before they are needed.

namespace detent {
namespace {

class FloatTransformers : public FloatNetworkTest {
 protected:
  KernelCounts kernels_;
};

NodeInput number(double value) { return NodeInput::of_constant(Value(value)); }

NodeInput normalized(GraphBuilder& builder, const std::string& op, const std::string& name,
                     const NodeInput& x, int64_t width) {
  std::vector<std::pair<std::string, Shape>> parameters = {{"weight", {width}}};
  if (op == "layer_norm") parameters.push_back({"bias", {width}});
  return builder.layer(op, name, {x}, parameters, {{"normalized_shape", List{Value(width)}}});
}

TEST_F(FloatTransformers, BlocksAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t tokens = draw.among({1, 5, 16, 49});
    const int64_t heads = draw.of(1, 3);
    const int64_t head = draw.among({4, 16, 19, 32});
    const int64_t width = heads * head;
    GraphBuilder builder("block");
    NodeInput x = builder.linear("embedding", builder.input("x", {tokens, 7}), 7, width);
    NodeInput y = normalized(builder, draw.coin() ? "layer_norm" : "rms_norm", "norm1", x, width);
    y = builder.linear("qkv", y, width, 3 * width);
    y = builder.call("reshape",
                     {y, constant(-1), constant(tokens), constant(3), constant(heads), constant(head)});
    y = builder.call("permute", {y}, {{"dims", List{Value(2), Value(0), Value(3), Value(1), Value(4)}}});
    const auto part = [&](int64_t i) { return builder.call("select", {y}, {{"dim", 0}, {"index", i}}); };
    NodeInput q = part(0);
    if (draw.coin()) q = builder.call("mul", {q, number(0.37)});
    const NodeInput k = builder.call("transpose", {part(1)}, {{"dim0", -2}, {"dim1", -1}});
    NodeInput shares = builder.call("matmul", {q, k});
    if (draw.coin()) shares = builder.call("div", {shares, number(3)});
    shares = builder.call("softmax", {shares}, {{"dim", draw.coin() ? -1 : 3}});
    y = builder.call("matmul", {shares, part(2)});
    y = builder.call("transpose", {y}, {{"dim0", 1}, {"dim1", 2}});
    y = builder.call("reshape", {y, constant(-1), constant(tokens), constant(width)});
    x = builder.call("add", {x, builder.linear("proj", y, width, width)});
    y = normalized(builder, "layer_norm", "norm2", x, width);
    y = builder.call(draw.coin() ? "gelu" : "silu", {builder.linear("fc1", y, width, 21)});
    x = builder.call("add", {builder.linear("fc2", y, 21, width), x});
    if (draw.coin()) {
      x = builder.call("select", {x}, {{"dim", 1}, {"index", draw.of(0, tokens - 1)}});
      x = builder.linear("head", x, width, 3);
    }
    Graph graph = builder.finish(x);
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 2), tokens, 7}), kernels_);
    if (HasFatalFailure()) break;
  }
  for (const char* kernel :
       {"linear float", "product float", "rows float", "elements float", "pairs float", "moved values"})
    EXPECT_GT(kernels_[kernel], 5) << kernel;
  EXPECT_EQ(kernels_["float"], 0);  // all of it has kernels
}

NodeInput function(Draw& draw, GraphBuilder& builder, const NodeInput& x) {
  static const char* const kFunctions[] = {"silu", "hardswish", "sigmoid", "tanh", "leaky_relu",  "gelu",
                                           "mish", "elu",       "abs",     "neg",  "hardsigmoid", "softplus"};
  return builder.call(kFunctions[draw.of(0, std::ssize(kFunctions) - 1)], {x});
}

/// Functions, and gates: the mean of each channel, by which it is multiplied.
TEST_F(FloatTransformers, GatedConvolutionsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t channels = draw.among({1, 7, 16, 35});
    const Shape sample = {3, draw.of(1, 7), draw.of(1, 7)};
    GraphBuilder builder("gated");
    NodeInput x = builder.input("x", sample);
    x = builder.convolution("conv", x, 3, channels, {3, 3}, {{"padding", 1}});
    x = function(draw, builder, x);
    NodeInput gate = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", int64_t{1}}});
    gate = builder.call("sigmoid", {builder.convolution("gate", gate, channels, channels, {1, 1})});
    x = draw.coin() ? builder.call("mul", {x, gate}) : builder.call("mul", {gate, x});
    static const char* const kPairs[] = {"sub", "mul", "div", "maximum", "minimum", "add"};
    const char* const op = kPairs[draw.of(0, 5)];
    const NodeInput other = draw.coin() ? function(draw, builder, x) : number(draw.real(-2, 2));
    x = draw.coin() ? builder.call(op, {x, other}) : builder.call(op, {other, x});
    x = builder.convolution("after", x, channels, 5, {3, 3}, {{"padding", 1}});
    if (draw.coin()) x = function(draw, builder, x);
    x = builder.call("flatten", {x}, {{"start_dim", 1}});
    Graph graph = builder.finish(builder.linear("head", x, 5 * sample[1] * sample[2], 4));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["pairs float"], 100);
  EXPECT_EQ(kernels_["float"], 0);
}

/// Rows of values that one row, one number of each row or one of all is paired with.
TEST_F(FloatTransformers, PairsThatBroadcastAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t rows = draw.of(1, 5);
    GraphBuilder builder("broadcast");
    const NodeInput x = builder.linear("first", builder.input("x", {rows, 6}), 6, 19);
    NodeInput other = builder.call("select", {x}, {{"dim", 1}, {"index", draw.of(0, rows - 1)}});  // [N, 19]
    if (draw.coin()) other = builder.call("reshape", {other, constant(-1), constant(1), constant(19)});
    if (draw.coin()) other = builder.call("mean", {other, constant(-1)}, {{"keepdim", true}});
    const bool fits = draw.coin();
    const NodeInput y = draw.coin() ? builder.call("sub", {x, other}) : builder.call("sub", {other, x});
    Graph graph = builder.finish(builder.linear("last", y, 19, fits ? 16 : 3));
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({1, rows, 6}), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["pairs float"], 5);
}

/// Values of which any dimensions repeat, or are missing at the front.
TEST_F(FloatTransformers, RowsThatRepeatAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape shape = {draw.of(2, 4), draw.of(2, 3), draw.among({1, 5, 19})};
    GraphBuilder builder("repeated");
    const auto reshaped = [&](const NodeInput& x, const Shape& to) {
      std::vector<NodeInput> operands = {x};
      for (const int64_t size : to) operands.push_back(constant(size));
      return builder.call("reshape", operands);
    };
    const NodeInput in = builder.input("x", TensorType{DType::kFloat32, {1, 6}});
    const NodeInput x = reshaped(builder.linear("first", in, 6, element_count(shape)), shape);
    Shape small = shape;
    for (int64_t& size : small)
      if (draw.coin()) size = 1;
    if (draw.coin()) small.erase(small.begin());
    const NodeInput other = reshaped(builder.linear("other", in, 6, element_count(small)), small);
    const NodeInput y = draw.coin() ? builder.call("sub", {x, other}) : builder.call("sub", {other, x});
    Graph graph = builder.finish(builder.linear("last", y, shape[2], 4));
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({1, 6}), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["pairs float"] + kernels_["elements float"], 40);
  EXPECT_EQ(kernels_["float"], 0);
}

/// Every second element, and elements of two values in turns, as rotary embeddings have them.
TEST_F(FloatTransformers, PairsOfElementsAreMovedAsInTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t rows = draw.of(1, 5);
    const int64_t half = draw.of(1, 9);
    const int64_t step = draw.of(1, 3);
    GraphBuilder builder("turns");
    const NodeInput x = builder.linear("first", builder.input("x", {rows, 6}), 6, step * half);
    const auto part = [&](int64_t start) {
      return builder.call("slice", {x}, {{"dims", -1}, {"starts", start}, {"steps", step}});
    };
    std::vector<NodeInput> parts;
    for (int64_t i = 0; i < step; ++i)
      parts.push_back(builder.call("reshape", {builder.call("sigmoid", {part(step - 1 - i)}), constant(-1),
                                               constant(rows), constant(half), constant(1)}));
    NodeInput y = parts.size() > 1 ? builder.call("cat", parts, {{"dim", draw.coin() ? 3 : 2}}) : parts[0];
    y = builder.call("reshape", {y, constant(-1), constant(rows), constant(step * half)});
    Graph graph = builder.finish(builder.linear("last", y, step * half, 3));
    draw_parameters(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 3), rows, 6}), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["moved values"], 50);
  EXPECT_EQ(kernels_["float"], 0);
}

/// Parts of a value that lie together are read where they lie, for as long as somebody reads them.
TEST_F(FloatTransformers, PartsOfValuesStayWhileTheyAreRead) {
  Draw draw(1);
  GraphBuilder builder("parts");
  const NodeInput x = builder.linear("first", builder.input("x", {4, 6}), 6, 32);
  const NodeInput folded = builder.call("reshape", {x, constant(-1), constant(8), constant(16)});
  const NodeInput part = builder.call("select", {x}, {{"dim", 0}, {"index", 0}});  // [4, 32]
  NodeInput y = builder.call("tanh", {builder.linear("second", folded, 16, 16)});
  y = builder.call("reshape", {builder.linear("third", y, 16, 16), constant(4), constant(32)});
  Graph graph = builder.finish(builder.call("add", {builder.call("sigmoid", {y}), part}));
  draw_parameters(draw, graph);
  expect_equal_on_every_target(graph, draw.tensor({1, 4, 6}), kernels_);
}

}  // namespace
}  // namespace detent
