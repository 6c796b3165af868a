#include "detent/engine/float_networks_for_test.h"
#include "detent/engine/kernels/kernel_set.h"

// Codes of 9 to 16 bits: every step between the ends of a network is a kernel, with the numbers of the plain
// reference.

namespace detent {
namespace {

class WideCodes : public FloatNetworkTest {};

QuantSpec wide(Draw& draw, double range) {
  const int64_t width = draw.among({9, 12, 16, 16});
  const int64_t count = int64_t{1} << width;
  const bool is_signed = draw.coin();
  const int64_t low = is_signed ? -count / 2 : 0;
  const int64_t zero_point = low + draw.among({0, count / 2, count / 3, count - 1});
  return parse_quant_spec_text(fmt::format("affine:width={},signed={},scale={},zero_point={}", width,
                                           is_signed, 2 * range / static_cast<double>(count), zero_point));
}

/// Each operand and result; those of one value alike.
void quantize_widely(Draw& draw, Graph& graph) {
  std::map<std::string, QuantSpec> types;
  for (Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) break;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].is_constant())
        node.quantization[fmt::format("data_in_{}", i)] = types.at(node.inputs[i].node);
    }
    if (is_weighted_sum(node))
      node.quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.02");
    const auto* movement = trait<Movement>(node);
    const bool keeps = movement != nullptr && !movement->joins;
    const bool has_own = !types.contains("x") || draw.of(0, 3) == 0;
    types[node.name] = keeps ? types.at(node.inputs[0].node) : has_own ? wide(draw, 4) : types.at("x");
    node.quantization["data_out_0"] = types[node.name];
  }
  graph.set_requantization(Requantization::kFloat);
}

NodeInput depthwise(Draw& draw, GraphBuilder& b, const NodeInput& x, int64_t channels) {
  const int64_t side = draw.of(1, 5);
  return b.layer("conv2d", "depthwise", {x}, {{"weight", {channels, 1, side, draw.of(1, 5)}}},
                 {{"groups", channels},
                  {"stride", draw.of(1, 2)},
                  {"padding", int64_t{2}},
                  {"dilation", draw.of(1, 2)}});
}

TEST_F(WideCodes, DepthwiseLayersAndWhatFollows) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder b("wide");
    const int64_t channels = draw.among({2, 3, 16, 40, 70});
    NodeInput x = depthwise(draw, b, b.input("x", {channels, 9, 10}), channels);
    const char* const pairs[] = {"add", "sub", "mul"};
    const char* const op = pairs[draw.of(0, 2)];
    const NodeInput y = b.call(draw.coin() ? "sigmoid" : "tanh", {x});
    const NodeInput mean = b.call("adaptive_avg_pool2d", {y}, {{"output_size", int64_t{1}}});
    x = b.call(op, {x, draw.coin() ? y : mean});
    x = b.call("cat", {x, y}, {{"dim", int64_t{1}}});
    Graph graph = b.finish(
        b.call(draw.coin() ? "relu6" : "relu", {b.call("mul", {x, NodeInput::of_constant(Value(0.7))})}));
    draw_parameters(draw, graph);
    quantize_widely(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 2), channels, 9, 10}), kernels);
    if (HasFatalFailure()) break;
  }
  for (const auto& [kernel, count] : kernels) {
    EXPECT_FALSE(kernel.starts_with("reference")) << count;
    EXPECT_NE(kernel, "float") << count;
  }
}

TEST_F(WideCodes, NormsAndProductsOfTwoInputs) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    GraphBuilder b("wide");
    const NodeInput x = b.input("x", {6, 5, 8});
    const NodeInput norm = b.batch_norm("batch_norm2d", "norm", x, 6);
    const NodeInput turned = b.call("transpose", {norm}, {{"dim0", int64_t{2}}, {"dim1", int64_t{3}}});
    Graph graph = b.finish(b.call("matmul", {norm, turned}));
    draw_parameters(draw, graph);
    quantize_widely(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({2, 6, 5, 8}), kernels);
    if (HasFatalFailure()) break;
  }
  for (const auto& [kernel, count] : kernels) {
    EXPECT_FALSE(kernel.starts_with("reference")) << count;
    EXPECT_NE(kernel, "float") << count;
  }
}

/// Against the plainest loops, for every number of elements near that of some vectors, and every code.
TEST_F(WideCodes, AreSplitAndLookedUp) {
  constexpr int32_t kCodes = 1 << 16;
  std::vector<uint16_t> table(kCodes);
  for (int32_t code = 0; code < kCodes; ++code)
    table[static_cast<size_t>(code)] = static_cast<uint16_t>(static_cast<uint32_t>(code) * 40503U);
  for (const float scale : {0.00037F, 1.0F, 1e-38F, 3e33F}) {
    const int32_t zero = 20000;
    std::vector<float> values;
    for (int32_t code = 0; code < kCodes; ++code) values.push_back(static_cast<float>(code - zero) * scale);
    for (const std::string& target : engine_targets()) {
      set_engine_target(target);
      const KernelSet& kernels = kernel_set();
      for (const int64_t count :
           {int64_t{kCodes}, int64_t{0}, int64_t{1}, int64_t{15}, int64_t{67}, int64_t{259}}) {
        const auto size = static_cast<size_t>(count);
        std::vector<uint8_t> low(size), high(size);
        std::vector<float> found(size);
        const float* const from = values.data() + (kCodes - count);
        kernels.split({scale, zero}, from, low.data(), high.data(), count);
        kernels.look_up_wide({{scale, zero}, table.data(), 0.5F, 7}, from, found.data(), count);
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(i);
          const int32_t code = kCodes - static_cast<int32_t>(count - i);
          ASSERT_EQ(low[at] + 256 * high[at], code) << target << " " << scale;
          ASSERT_EQ(found[at], static_cast<float>(table[static_cast<size_t>(code)] - 7) * 0.5F) << target;
        }
      }
    }
  }
}

}  // namespace
}  // namespace detent
