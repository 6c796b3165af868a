#include "detent/engine/float_networks_for_test.h"

// Norms of channels and of groups of them where channels are last, and as the plain reference computes them.

namespace detent {
namespace {

class ChannelNorms : public FloatNetworkTest {
 protected:
  KernelCounts kernels_;
};

NodeInput normed(GraphBuilder& builder, const std::string& name, const NodeInput& x, int64_t channels,
                 int64_t groups) {
  const std::vector<std::pair<std::string, Shape>> parameters = {{"weight", {channels}},
                                                                 {"bias", {channels}}};
  if (groups == 0) return builder.layer("instance_norm2d", name, {x}, parameters, {{"eps", 1e-3}});
  return builder.layer("group_norm", name, {x}, parameters, {{"num_groups", groups}, {"eps", 1e-3}});
}

struct Case {
  int64_t channels, groups;
  size_t dims;
};

/// Convolutions around norms, whose results join, so that some lie in slices.
Graph network(Draw& draw, const Case& c, const Shape& sample) {
  GraphBuilder builder("norms");
  const NodeInput x = builder.input("x", sample);
  const Shape kernel(c.dims, 3);
  NodeInput y = builder.convolution("first", x, sample[0], c.channels, kernel, {{"padding", 1}});
  y = builder.call("silu", {normed(builder, "norm1", y, c.channels, c.groups)});
  const NodeInput z = builder.convolution("second", y, c.channels, c.channels, kernel, {{"padding", 1}});
  const NodeInput both =
      builder.call("cat", {normed(builder, "norm2", z, c.channels, c.groups), y}, {{"dim", 1}});
  y = builder.call("relu", {normed(builder, "norm3", both, 2 * c.channels, c.groups)});
  Graph graph = builder.finish(builder.convolution("last", y, 2 * c.channels, 3, kernel, {}));
  draw_parameters(draw, graph);
  return graph;
}

const Case kCases[] = {{5, 5, 2},  {6, 2, 2},  {32, 32, 2}, {32, 4, 2}, {36, 1, 2}, {70, 14, 2},
                       {17, 0, 2}, {48, 0, 2}, {12, 3, 1},  {20, 5, 3}, {64, 2, 3}};

Shape sample_of(Draw& draw, const Case& c) {
  Shape sample = {3};
  for (size_t d = 0; d < c.dims; ++d) sample.push_back(draw.of(4, 9));
  return sample;
}

TEST_F(ChannelNorms, OfValuesAreThoseOfTheReference) {
  for (uint32_t seed = 0; const Case& c : kCases) {
    SCOPED_TRACE(seed);
    Draw draw(seed++);
    Shape sample = sample_of(draw, c);
    const Graph graph = network(draw, c, sample);
    sample.insert(sample.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(sample), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels_["norm float"], 3 * std::ssize(kCases));
  EXPECT_EQ(kernels_["float"], 0);
}

TEST_F(ChannelNorms, BetweenCodesAreThoseOfTheReference) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; const Case& c : kCases) {
    SCOPED_TRACE(seed);
    Draw draw(seed++);
    Shape sample = sample_of(draw, c);
    Graph graph = network(draw, c, sample);
    quantize_graph(draw, graph);
    sample.insert(sample.begin(), draw.of(1, 3));
    expect_equal_to_reference(graph, draw.tensor(sample), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["norm"], std::ssize(kCases));
}

/// Borders of reflected, repeated or wrapped elements, wider than the input too, and some cut off.
TEST_F(ChannelNorms, BordersOfElementsAreThoseOfTheReference) {
  std::map<std::string, int> in_bytes;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto dims = static_cast<size_t>(draw.of(1, 3));
    Shape sample = {draw.among({3, 16, 20})};
    std::vector<int64_t> before = {0, 0};
    std::vector<int64_t> after = {0, 0};
    for (size_t d = 0; d < dims; ++d) {
      sample.push_back(draw.of(3, 9));
      before.push_back(draw.of(-1, 4));
      after.push_back(draw.of(-1, 11));
    }
    std::vector<int64_t> borders = before;
    borders.insert(borders.end(), after.begin(), after.end());
    const char* const modes[] = {"reflect", "edge", "wrap"};
    GraphBuilder builder("borders");
    NodeInput x = builder.input("x", sample);
    if (draw.coin()) x = builder.convolution("first", x, sample[0], sample[0], Shape(dims, 1));
    x = builder.call("dynamic_pad", {x, listed(borders)}, {{"mode", modes[draw.of(0, 2)]}});
    const bool joins = draw.coin();
    if (joins) x = builder.call("cat", {x, x}, {{"dim", 1}});
    const int64_t channels = joins ? 2 * sample[0] : sample[0];
    Graph graph = builder.finish(builder.convolution("last", x, channels, 7, Shape(dims, 2)));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 2));
    const Tensor input = draw.tensor(shape);
    expect_equal_on_every_target(graph, input, kernels_);
    quantize_graph(draw, graph);
    expect_equal_to_reference(graph, input, &in_bytes);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["resampled float"], 50);
  EXPECT_EQ(kernels_["float"], 0);
}

/// As PyTorch writes a local response norm: means of adjacent channels, which are planes of a volume.
TEST_F(ChannelNorms, OverAdjacentChannelsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape sample = {draw.of(5, 40), draw.of(1, 60), draw.of(1, 60)};
    const int64_t size = draw.of(2, 5);
    const auto three = [](int64_t first) { return Value(List{Value(first), Value(1), Value(1)}); };
    const auto none = [](int64_t first) { return Value(List{Value(first), Value(0), Value(0)}); };
    GraphBuilder builder("adjacent");
    NodeInput x = builder.input("x", sample);
    if (draw.coin()) x = builder.convolution("conv", x, sample[0], sample[0], {1, 1});
    NodeInput y = builder.call("unsqueeze", {builder.call("mul", {x, x}), listed({1})});
    y = builder.call(draw.of(0, 3) == 0 ? "max_pool3d" : "avg_pool3d", {y},
                     {{"kernel_size", three(size)},
                      {"stride", three(draw.of(1, 2))},
                      {"padding", none(draw.of(0, size / 2))}});
    Graph graph = builder.finish(builder.call("squeeze", {y, listed({1})}));
    draw_parameters(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels_);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels_["mean float"], 20);
  EXPECT_GT(kernels_["largest float"], 2);
}

}  // namespace
}  // namespace detent
