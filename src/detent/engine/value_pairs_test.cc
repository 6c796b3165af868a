#include "detent/engine/float_networks_for_test.h"

// Pairs of values in any shapes that broadcast, softmax over channels, and moves of what a network takes: by
// kernels, in rows and with channels last.

namespace detent {
namespace {

class ValuePairs : public FloatNetworkTest {};

/// The largest elements along some dimensions, which stay or go.
NodeInput reduced(Draw& draw, GraphBuilder& builder, const NodeInput& x, int64_t rank) {
  const int64_t first = draw.of(0, rank - 1);
  const int64_t end = draw.of(first + 1, rank);
  std::vector<int64_t> dims;
  for (int64_t d = first; d < end; ++d) dims.push_back(d);
  return builder.call("amax", {x, listed(dims)}, {{"keepdim", first > 0 || draw.coin()}});
}

TEST_F(ValuePairs, OfAnyShapesThatBroadcast) {
  const char* const ops[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape samples[] = {{6, 9}, {3, 5, 7}, {1, 4, 6}, {34, 6, 5}, {20, 1, 1}, {7}, {9, 13, 15}};
    const Shape& sample = samples[seed % std::size(samples)];
    const auto rank = std::ssize(sample) + 1;
    GraphBuilder builder("pairs");
    NodeInput x = builder.input("x", sample);
    if (draw.coin() && rank > 2)
      x = builder.convolution("conv", x, sample[0], sample[0], Shape(sample.size() - 1, 1));
    const NodeInput y = draw.of(0, 4) == 0 ? x : reduced(draw, builder, x, rank);
    const NodeInput z = draw.of(0, 4) == 0 ? reduced(draw, builder, x, rank) : x;
    const char* const op = ops[draw.of(0, std::ssize(ops) - 1)];
    const NodeInput pair = draw.of(0, 5) == 0 ? builder.call("prelu", {x, y})
                           : draw.coin()      ? builder.call(op, {z, y})
                                              : builder.call(op, {y, z});
    Graph graph = builder.finish(draw.coin() ? builder.call("relu", {pair}) : pair);
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["pairs float"], 125);
}

/// Spikes, NaN and equal values among what is compared.
TEST_F(ValuePairs, ComparisonsThatBecomeNumbers) {
  const char* const ops[] = {"eq", "lt", "le", "gt", "ge"};
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape sample = {draw.of(1, 20), draw.of(1, 6), draw.of(1, 6)};
    GraphBuilder builder("spikes");
    NodeInput x = builder.input("x", sample);
    const NodeInput largest = reduced(draw, builder, x, 4);
    if (draw.coin()) x = builder.convolution("conv", x, sample[0], sample[0], {1, 1});
    const NodeInput number = NodeInput::of_constant(draw.coin() ? Value(0) : Value(0.1));
    const NodeInput other = draw.coin() ? number : largest;
    const char* const op = ops[seed % std::size(ops)];
    const NodeInput spikes = draw.coin() ? builder.call(op, {x, other}) : builder.call(op, {other, x});
    const NodeInput counted = builder.call("cast", {spikes}, {{"dtype", "float32"}});
    std::vector<NodeInput> results = {builder.call("mul", {counted, x})};
    if (draw.of(0, 4) == 0) results.push_back(spikes);
    Graph graph = builder.finish(results);
    draw_parameters(draw, graph);
    Tensor values = draw.tensor({draw.of(1, 3), sample[0], sample[1], sample[2]});
    for (float& value : values.values<float>()) {
      if (draw.of(0, 9) == 0) value = draw.coin() ? 0.0F : NAN;
    }
    expect_equal_on_every_target(graph, values, kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["pairs float"], 60);
}

TEST_F(ValuePairs, SoftmaxOverChannels) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const bool is_flat = draw.coin();
    const Shape sample =
        is_flat ? Shape{draw.of(1, 40), draw.of(1, 9)} : Shape{draw.of(1, 40), draw.of(1, 6), draw.of(1, 6)};
    GraphBuilder builder("channels");
    NodeInput x = builder.input("x", sample);
    x = builder.convolution("conv", x, sample[0], sample[0], Shape(sample.size() - 1, 1));
    const int64_t dim = draw.coin() ? 1 : -std::ssize(sample);
    x = builder.call(draw.coin() ? "softmax" : "log_softmax", {x}, {{"dim", dim}});
    x = builder.convolution("after", x, sample[0], 4, Shape(sample.size() - 1, 1));
    Graph graph = builder.finish(x);
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["rows float"], 0);
  EXPECT_EQ(kernels["float"] + kernels["reference"], 0);
}

TEST_F(ValuePairs, WhatANetworkTakesIsMovedByKernels) {
  GraphBuilder builder("moved");
  const NodeInput x = builder.input("x", {7, 5});
  const NodeInput turned = builder.call("permute", {x}, {{"dims", Value(std::vector<int64_t>{1, 0, 2})}});
  KernelCounts kernels;
  expect_equal_on_every_target(builder.finish(builder.call("relu", {turned})), Draw(1).tensor({3, 7, 5}),
                               kernels);
  EXPECT_EQ(kernels["float"] + kernels["reference"], 0);
}

}  // namespace
}  // namespace detent
