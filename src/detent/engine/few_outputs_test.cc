#include "detent/core/sanitizers_for_test.h"
#include "detent/engine/float_networks_for_test.h"

// Convolutions in float32 whose groups have few outputs, by kernels and by the plain reference.

namespace detent {
namespace {

using FewOutputs = FloatNetworkTest;

List drawn_list(Draw& draw, size_t count, int64_t low, int64_t high) {
  List list;
  for (size_t i = 0; i < count; ++i) list.emplace_back(draw.of(low, high));
  return list;
}

/// Activations and additions that are computed where the sums are.
NodeInput with_epilogue(Draw& draw, GraphBuilder& builder, const NodeInput& x) {
  switch (draw.of(0, 5)) {
    case 0:
      return builder.call("relu6", {x});
    case 1:
      return builder.call("tanh", {x});
    case 2:
      return builder.call("add", {builder.call("sigmoid", {x}), builder.call("relu", {x})});
    case 3:
      return builder.call("relu", {builder.call("add", {x, builder.call("abs", {x})})});
    case 4:
      return builder.call("cat", {builder.call("silu", {x}), x, builder.call("relu", {x})}, {{"dim", 1}});
    default:
      return x;
  }
}

/// In one to three dimensions, in rows of more than a tile too, with all strides and dilations.
TEST_F(FewOutputs, GiveTheBitsOfTheReference) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(150U);
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto dims = static_cast<size_t>(draw.of(1, 3));
    const int64_t groups = draw.among({1, 1, 1, 2, 5, 16, 33});
    const int64_t in = groups * draw.among({1, 2, 3, 8, 16, 20, 40});
    const int64_t out = groups * draw.of(1, 15);
    Shape sample = {in};
    Shape kernel;
    for (size_t d = 0; d + 1 < dims; ++d) sample.push_back(draw.of(7, dims == 3 ? 9 : 40));
    sample.push_back(dims == 1 && draw.coin() ? 1300 : draw.of(36, 60));
    for (size_t d = 0; d < dims; ++d) kernel.push_back(draw.of(1, 3));
    if (dims == 1) kernel[0] = draw.among({2, 3, 7});
    GraphBuilder builder("few");
    const NodeInput x = builder.input("x", sample);
    NodeInput y = builder.convolution("conv", x, in, out, kernel,
                                      {{"stride", drawn_list(draw, dims, 1, dims == 3 ? 2 : 3)},
                                       {"padding", drawn_list(draw, dims, 0, 2)},
                                       {"dilation", drawn_list(draw, dims, 1, 3)},
                                       {"groups", groups}},
                                      draw.coin());
    Graph graph = builder.finish(with_epilogue(draw, builder, y));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["convolution float"], static_cast<int>(kNetworks));
}

/// Each phase of a transposed convolution gives every second result.
TEST_F(FewOutputs, OfTransposedConvolutions) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t in = draw.among({3, 17, 40});
    const int64_t out = draw.of(1, 4);
    GraphBuilder builder("up");
    const Shape sample = {in, draw.of(5, 9), draw.of(16, 30)};
    const NodeInput x = builder.input("x", sample);
    const NodeInput y =
        builder.layer("convtranspose2d", "up", {x}, {{"weight", {in, out, 4, 4}}, {"bias", {out}}},
                      {{"stride", int64_t{2}}, {"padding", draw.of(0, 1)}});
    Graph graph = builder.finish(with_epilogue(draw, builder, y));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), 2);
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
}

/// Windows of one position; outputs that lie side by side and those among others.
TEST_F(FewOutputs, OfOnePosition) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t in = draw.among({1, 3, 16, 40});
    const int64_t out = draw.of(1, 4);
    GraphBuilder builder("heads");
    const NodeInput x = builder.input("x", {in, draw.of(1, 9), draw.of(12, 70)});
    NodeInput y = builder.convolution("conv", x, in, out, {1, 1}, {}, draw.coin());
    const Shape shape = {out};
    y = builder.layer("batch_norm2d", "norm", {y},
                      {{"weight", shape}, {"bias", shape}, {"running_mean", shape}, {"running_var", shape}});
    Graph graph = builder.finish(with_epilogue(draw, builder, y));
    draw_parameters(draw, graph);
    Shape sample = graph.input_types().begin()->second.concrete(NamedSizes{{kBatchName, 2}});
    expect_equal_on_every_target(graph, draw.tensor(sample), kernels);
    if (HasFatalFailure()) break;
  }
}

/// NaN and infinities in the border's place and in weights show where they do in the reference.
TEST_F(FewOutputs, OfValuesThatAreNotFinite) {
  Draw draw(1);
  GraphBuilder builder("hostile");
  const NodeInput x = builder.input("x", {18, 12, 33});
  Graph graph =
      builder.finish(builder.convolution("conv", x, 18, 3, {3, 3}, {{"padding", int64_t{1}}}, true));
  draw_parameters(draw, graph);
  graph.node("conv").find_parameter("weight")->tensor.values<float>()[7] =
      std::numeric_limits<float>::infinity();
  Tensor input = draw.tensor({2, 18, 12, 33});
  input.values<float>()[100] = -std::numeric_limits<float>::infinity();
  const Tensor wanted = IntegerProgram(graph).run({&input, 1}).front();
  const Tensor got = FastProgram(graph).run({&input, 1}).front();
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const float a = wanted.values<float>()[static_cast<size_t>(i)];
    const float b = got.values<float>()[static_cast<size_t>(i)];
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << ", " << b;
  }
}

}  // namespace
}  // namespace detent
