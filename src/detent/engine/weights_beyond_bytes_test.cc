#include "detent/engine/float_networks_for_test.h"
#include "detent/engine/packed_sums.h"

// Bytes less a zero point of their own, as ONNX Runtime's uint8 weights are, have up to nine bits: kernels
// add them in parts, with the numbers of the plain reference.

namespace detent {
namespace {

class WeightsBeyondBytes : public FloatNetworkTest {};

QuantSpec bytes(Draw& draw, double scale) {
  const int64_t zero_point = draw.among({0, 40, 117, 128, 200, 255});
  return parse_quant_spec_text(fmt::format("affine:signed=false,scale={},zero_point={}", scale, zero_point));
}

NodeInput layer(Draw& draw, GraphBuilder& b, const NodeInput& x, int64_t channels) {
  const int64_t outputs = draw.of(1, 70);
  switch (draw.of(0, 4)) {
    case 0:
      return b.convolution("layer", x, channels, outputs, {3, 3}, {{"padding", int64_t{1}}}, draw.coin());
    case 1:
      return b.convolution("layer", x, channels, outputs, {1, 1}, {{"stride", draw.of(1, 2)}});
    case 2:
      return b.layer("conv2d", "layer", {x}, {{"weight", {channels, 1, 3, draw.of(1, 5)}}},
                     {{"groups", channels}, {"stride", draw.of(1, 2)}, {"padding", int64_t{2}}});
    case 3:
      return b.layer("convtranspose2d", "layer", {x},
                     {{"weight", {channels, outputs, 4, 3}}, {"bias", {outputs}}}, {{"stride", int64_t{2}}});
    default:
      return b.linear("layer", b.call("flatten", {x}), channels * 35, outputs, draw.coin());
  }
}

TEST_F(WeightsBeyondBytes, AreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder b("bytes");
    const int64_t channels = draw.of(1, 70);
    Graph graph = b.finish(b.call("relu", {layer(draw, b, b.input("x", {channels, 5, 7}), channels)}));
    draw_parameters(draw, graph);
    Node& node = graph.node("layer");
    node.quantization["weight"] = bytes(draw, 0.01);
    node.quantization["data_in_0"] =
        draw.of(0, 3) == 0
            ? parse_quant_spec_text("affine:width=16,signed=false,scale=0.0001,zero_point=30000")
            : bytes(draw, 0.02);
    if (draw.coin()) node.quantization["data_out_0"] = bytes(draw, 0.1);
    graph.set_requantization(Requantization::kFloat);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 3), channels, 5, 7}), kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_EQ(kernels["reference"], 0);
}

/// Packed weights are all that programs keep: observers and reference steps get them back.
TEST_F(WeightsBeyondBytes, AreKeptWhole) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t channels = draw.of(1, 70);
    SumForm form;
    form.input = {.scale = 1, .zero_point = 3, .low = 0, .high = 255};
    form.weight = Tensor(DType::kInt32, draw.coin() ? Shape{channels, 1, 3, 3} : Shape{channels, 5, 1, 3});
    const bool is_deep = form.weight.dim(1) == 1;
    for (int32_t& weight : form.weight.values<int32_t>()) weight = static_cast<int32_t>(draw.of(-255, 255));
    form.bias.assign(static_cast<size_t>(channels), 7);
    form.scale.assign(static_cast<size_t>(channels), 1);
    const WindowLayer window = {.window = {.height = form.weight.dim(2), .width = 3},
                                .groups = is_deep ? channels : 1};
    const PackedSums packed = packed_windows(form, window, kernel_set());
    EXPECT_EQ(packed.depthwise, is_deep && channels > 1);
    EXPECT_TRUE(unpacked_weights(packed, form.weight.shape()).equals(form.weight));
  }
}

}  // namespace
}  // namespace detent
