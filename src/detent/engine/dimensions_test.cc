#include "detent/engine/float_networks_for_test.h"

// Resampled, reduced and split dimensions and transposed convolutions in float32, between values or codes:
// the same numbers as the plain reference, without its steps.

namespace detent {
namespace {

class Dimensions : public FloatNetworkTest {};

NodeInput resized(Draw& draw, GraphBuilder& builder, const NodeInput& x, size_t rank) {
  std::vector<int64_t> sizes;
  List dims;
  for (size_t d = 2; d < rank; ++d) {
    if (rank > 3 && draw.of(0, 3) == 0) continue;
    dims.push_back(Value(static_cast<int64_t>(d)));
    sizes.push_back(draw.of(1, 11));
  }
  if (dims.empty()) return x;
  NodeInput wanted = listed(sizes);
  if (draw.of(0, 3) == 0) {  // sizes that follow from the input's
    wanted = builder.call("shape_of", {x});
    wanted = builder.call("slice", {wanted}, {{"dims", 0}, {"starts", 2}, {"ends", 2 + std::ssize(sizes)}});
    wanted = builder.call("cat", {wanted}, {{"dim", 0}});
    wanted = builder.call("mul", {wanted, NodeInput::of_constant(Value(2))});
  }
  const char* const modes[] = {"nearest", "nearest", "linear", "cubic"};
  const char* const places[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
  return builder.call("resize", {x, NodeInput::absent(), NodeInput::absent(), wanted},
                      {{"mode", modes[draw.of(0, 3)]},
                       {"coordinates", places[draw.of(0, 3)]},
                       {"antialias", draw.coin()},
                       {"dims", std::move(dims)}});
}

NodeInput reduced(Draw& draw, GraphBuilder& builder, const NodeInput& x, int64_t rank) {
  const char* const ops[] = {"mean", "sum", "amax", "amin"};
  const bool over_positions = draw.of(0, 2) != 0;
  const int64_t first = over_positions ? 2 : draw.of(1, rank - 1);
  const int64_t end = over_positions ? rank : draw.of(first + 1, rank);
  std::vector<int64_t> dims;
  for (int64_t d = first; d < end; ++d) dims.push_back(d);
  return builder.call(ops[draw.of(0, 3)], {x, listed(dims)}, {{"keepdim", draw.coin()}});
}

NodeInput split_and_joined(Draw& draw, GraphBuilder& builder, const NodeInput& x, int64_t channels) {
  const int64_t first = draw.of(1, channels - 1);
  const NodeInput parts = builder.call(
      "split", {x}, {{"sizes", List{Value(first), Value(channels - first)}}, {"dim", int64_t{1}}});
  NodeInput second = parts;
  second.result = 1;
  return builder.call("cat", {builder.call("relu", {second}), parts}, {{"dim", int64_t{1}}});
}

NodeInput transposed(Draw& draw, GraphBuilder& builder, const NodeInput& x, int64_t channels, int64_t out) {
  const int64_t groups = out % 2 == 0 && channels % 2 == 0 && draw.coin() ? 2 : 1;
  const int64_t stride = draw.of(1, 3);
  const int64_t kernel = stride + draw.of(0, 2);
  return builder.layer("convtranspose2d", "up", {x},
                       {{"weight", {channels, out / groups, kernel, kernel}}, {"bias", {out}}},
                       {{"stride", stride},
                        {"padding", draw.of(0, 1)},
                        {"output_padding", stride > 1 ? draw.of(0, 1) : 0},
                        {"groups", groups}});
}

/// Codes that nodes between the input and the head take and give, now and then.
void quantize_some(Draw& draw, Graph& graph) {
  if (draw.coin()) graph.set_requantization(Requantization::kFloat);
  const auto spec = [&] {
    return parse_quant_spec_text(
        fmt::format("affine:signed=false,scale={},zero_point={}", draw.real(0.01, 0.05), draw.of(0, 255)));
  };
  const ValueTypes types = infer_shapes(graph);
  for (Node& node : graph.nodes()) {
    if (role_of(node) != OperatorRole::kComputes || is_weighted_sum(node) || draw.coin()) continue;
    if (types.at(value_name(node.name)).dtype != DType::kFloat32) continue;
    const QuantSpec of_input = spec();
    if (draw.coin()) node.quantization["data_in_0"] = of_input;
    if (result_count(node) == 1 && draw.coin())
      node.quantization["data_out_0"] = draw.coin() ? of_input : spec();
  }
}

TEST_F(Dimensions, AreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape samples[] = {{6, 9}, {3, 5, 7}, {20, 4, 6}, {34, 6, 5}, {4, 3, 4, 5}};
    const Shape& sample = samples[seed % std::size(samples)];
    const auto rank = std::ssize(sample) + 1;
    int64_t channels = sample[0];
    GraphBuilder builder("dimensions");
    NodeInput x = builder.input("x", sample);
    const bool has_layer = draw.coin() && rank < 5;
    if (has_layer) x = builder.convolution("conv", x, channels, channels, Shape(sample.size() - 1, 1));
    if (rank == 4 && draw.coin()) {
      const int64_t out = draw.among({2, 5, 18});
      x = transposed(draw, builder, x, channels, out);
      channels = out;
    }
    if (draw.coin()) x = resized(draw, builder, x, static_cast<size_t>(rank));
    if (draw.coin()) x = split_and_joined(draw, builder, x, channels);
    if (draw.coin()) x = reduced(draw, builder, x, rank);
    Graph graph = builder.finish(builder.call("relu", {x}));
    draw_parameters(draw, graph);
    if (draw.coin()) quantize_some(draw, graph);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_on_every_target(graph, draw.tensor(shape), kernels);
    if (HasFatalFailure()) break;
  }
  for (const char* kernel : {"resampled float", "reduced float", "transposed float", "resampled bytes"})
    EXPECT_GT(kernels[kernel], 1) << kernel;
  EXPECT_EQ(kernels["float"] + kernels["reference"], 0);
}

/// A step that only moves values may be the one that rounds them.
TEST_F(Dimensions, MoveWhatTheyRound) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder builder("moved");
    const NodeInput values = builder.call("softmax", {builder.input("x", {6, 4, 5})}, {{"dim", 3}});
    const NodeInput others = builder.call("exp", {values});
    const NodeInput moved[] = {
        builder.call("permute", {values}, {{"dims", List{0, 2, 3, 1}}}),
        builder.call("flatten", {values}, {{"start_dim", 2}}),
        builder.call("slice", {values}, {{"dims", 2}, {"starts", 1}, {"ends", 3}}),
        builder.call("cat", {values, others}, {{"dim", static_cast<int64_t>(draw.of(1, 3))}}),
        builder.call("flatten", {builder.call("permute", {others}, {{"dims", List{0, 3, 1, 2}}})},
                     {{"start_dim", static_cast<int64_t>(draw.of(1, 2))}}),
    };
    const NodeInput& last = moved[seed % std::size(moved)];
    Graph graph = builder.finish(builder.call("exp", {last}));
    graph.set_requantization(Requantization::kFloat);
    graph.node(last.node).quantization["data_out_0"] = parse_quant_spec_text(
        fmt::format("affine:signed=false,scale={},zero_point={}", draw.real(0.005, 0.01), draw.of(0, 200)));
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 3), 6, 4, 5}), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_EQ(kernels["float"] + kernels["reference"], 0);
}

/// Zeros between the inputs of a transposed convolution are part of its sums.
TEST_F(Dimensions, WeightsThatAreNotFiniteKeepTheReference) {
  GraphBuilder builder("infinite");
  const NodeInput x = builder.layer("convtranspose2d", "up", {builder.input("x", {1, 2, 2})},
                                    {{"weight", {1, 1, 2, 2}}, {"bias", {1}}}, {{"stride", int64_t{2}}});
  Graph graph = builder.finish(x);
  graph.node("up").find_parameter("weight")->tensor.values<float>()[0] = HUGE_VALF;
  KernelCounts kernels;
  const Tensor input = Draw(1).tensor({1, 1, 2, 2});
  for (const StepProfile& step : FastProgram(graph).profile(std::span(&input, 1), 1)) ++kernels[step.kernel];
  EXPECT_EQ(kernels["float"], 1);
}

}  // namespace
}  // namespace detent
