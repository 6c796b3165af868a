#include "detent/engine/float_networks_for_test.h"

// Concatenations whose inputs are computed where the result has them: the same numbers as the plain
// reference, and no copies.

namespace detent {
namespace {

class JoinedInPlace : public FloatNetworkTest {};

constexpr int64_t kSize = 6;  // of images; three channels

/// Blocks of networks that join branches along their channels.
class Blocks {
 public:
  /// Some layers have `activation` after them, others a rectifier.
  Blocks(Draw& draw, GraphBuilder& builder, const char* activation)
      : draw_(draw), builder_(builder), activation_(activation) {}

  NodeInput layer(const NodeInput& x, int64_t in, int64_t out, int64_t size = 1) {
    const NodeInput y = builder_.convolution(fmt::format("layer{}", layers_++), x, in, out, {size, size},
                                             {{"padding", size / 2}});
    const int64_t after = draw_.of(0, 3);
    return after == 0 ? y : builder_.call(after == 1 ? activation_ : "relu", {y});
  }
  /// With a layer added to it.
  NodeInput sum(const NodeInput& x, int64_t in, int64_t out) {
    const NodeInput other = layer(x, in, out);
    return builder_.call("add", {layer(x, in, out, 3), other});
  }
  NodeInput join(std::vector<NodeInput> parts) {
    return builder_.call("cat", std::move(parts), {{"dim", 1}});
  }
  NodeInput largest(const NodeInput& x) {
    return builder_.call("max_pool2d", {x}, {{"kernel_size", 3}, {"stride", 1}, {"padding", 1}});
  }

  NodeInput fire(const NodeInput& x, int64_t in, int64_t out) {
    const NodeInput squeezed = layer(x, in, 16);
    return join({layer(squeezed, 16, out), layer(squeezed, 16, out, 3)});
  }
  NodeInput inception(const NodeInput& x, int64_t in, int64_t out) {
    return join({layer(x, in, out), sum(layer(x, in, 16), 16, out), layer(largest(x), in, out)});
  }
  /// Layers that read all before them, joined one by one or all at once.
  NodeInput dense(NodeInput x, int64_t in, int64_t out, bool at_once) {
    std::vector<NodeInput> parts = {layer(x, in, out, 3)};
    for (int64_t joined = 1; joined < 4; ++joined) {
      parts.push_back(layer(x = joined == 1 ? parts.front() : x, joined * out, out, draw_.coin() ? 1 : 3));
      x = join(at_once ? parts : std::vector{x, parts.back()});
    }
    return x;
  }
  NodeInput u_net(const NodeInput& x, int64_t in, int64_t out) {
    const NodeInput skipped = layer(x, in, out, 3);
    NodeInput below = builder_.call("max_pool2d", {skipped}, {{"kernel_size", 2}});
    below = layer(below, out, out, 3);
    below = builder_.layer("convtranspose2d", fmt::format("up{}", layers_++), {below},
                           {{"weight", {out, out, 2, 2}}, {"bias", {out}}}, {{"stride", 2}});
    return layer(join({below, skipped}), 2 * out, out, 3);
  }
  NodeInput pyramid(const NodeInput& x, int64_t in, int64_t out) {
    std::vector<NodeInput> parts = {layer(x, in, out)};
    for (int i = 0; i < 3; ++i) parts.push_back(largest(parts.back()));
    return join(parts);
  }
  /// Two layers, each of them in two concatenations.
  NodeInput shared(const NodeInput& x, int64_t in, int64_t out) {
    const NodeInput a = layer(x, in, out, 3);
    const NodeInput b = layer(x, in, out);
    return join({layer(join({a, b}), 2 * out, out), layer(join({b, a}), 2 * out, out, 3), a});
  }

  /// Channels that become positions, of either order, beside a layer on them.
  NodeInput spread(const NodeInput& x, int64_t in, int64_t out) {
    const bool rows_first = draw_.coin();
    const auto sizes = [](std::initializer_list<int64_t> shape, NodeInput y) {
      std::vector<NodeInput> inputs = {std::move(y)};
      for (const int64_t size : shape) inputs.push_back(constant(size));
      return inputs;
    };
    NodeInput y = layer(x, in, 4 * out);
    y = builder_.call("reshape", rows_first ? sizes({-1, 2, 2, out, kSize, kSize}, y)
                                            : sizes({-1, out, 2, 2, kSize, kSize}, y));
    List order;
    for (const int64_t d :
         rows_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3})
      order.push_back(Value(d));
    y = builder_.call("permute", {y}, {{"dims", std::move(order)}});
    y = builder_.call("reshape", sizes({-1, out, 2 * kSize, 2 * kSize}, y));
    return join({layer(y, out, out), y});
  }

  static constexpr int64_t kKinds = 8;
  NodeInput block(int64_t kind, const NodeInput& x, int64_t in, int64_t out) {
    switch (kind) {
      case 0:
        return fire(x, in, out);
      case 1:
        return inception(x, in, out);
      case 2:
        return dense(x, in, out, false);
      case 3:
        return dense(x, in, out, true);
      case 4:
        return u_net(x, in, out);
      case 5:
        return pyramid(x, in, out);
      case 6:
        return shared(x, in, out);
      default:
        return spread(x, in, out);
    }
  }

 private:
  Draw& draw_;
  GraphBuilder& builder_;
  const char* activation_;
  int64_t layers_ = 0;
};

/// The block, maybe with a layer after it.
Graph network_of(Draw& draw, int64_t kind, int64_t channels, bool is_output, const char* activation) {
  GraphBuilder builder("joined");
  Blocks blocks(draw, builder, activation);
  NodeInput x = builder.input("x", {3, kSize, kSize});
  x = blocks.block(kind, blocks.layer(x, 3, 16, 3), 16, channels);
  const Graph so_far = GraphBuilder(builder).finish(x);
  const int64_t joined = infer_shapes(so_far).at(x.node).shape[1];
  Graph graph = is_output ? so_far : builder.finish(blocks.layer(x, joined, 7, 3));
  draw_parameters(draw, graph);
  return graph;
}

std::string middle_byte_codes(Draw& draw) {
  const bool is_signed = draw.coin();
  const int64_t zero = draw.of(60, 190) - (is_signed ? 128 : 0);
  return fmt::format("affine:signed={},scale={},zero_point={}", is_signed, draw.real(0.02, 0.2), zero);
}

/// Codes of 8 bits for all values: those of a node's own, or its input's where it moves them.
void quantize_bytes(Draw& draw, Graph& graph, bool converts) {
  std::map<std::string, std::string> types;
  for (Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kOutput) break;
    const bool joins = node.op == "cat";
    const bool keeps = role_of(node) == OperatorRole::kComputes && moves_codes(node) && !joins;
    const bool is_first = types.empty();
    std::string& type = types[node.name];
    type = keeps || (!converts && !is_first) ? types.at(node.inputs[0].node) : middle_byte_codes(draw);
    if (is_weighted_sum(node)) {
      quantize_layer(draw, node);
      node.quantization["data_in_0"] = parse_quant_spec_text(types.at(node.inputs[0].node));
    }
    if (!keeps) node.quantization["data_out_0"] = parse_quant_spec_text(type);
  }
  graph.set_requantization(Requantization::kFloat);
}

TEST_F(JoinedInPlace, IsEqualToTheReferenceInFloat) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Graph graph =
        network_of(draw, seed % Blocks::kKinds, draw.among({3, 16, 20, 64}), draw.coin(), "silu");
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 2), 3, kSize, kSize}), kernels);
    if (HasFatalFailure()) break;
  }
}

TEST_F(JoinedInPlace, IsEqualToTheReferenceInBytes) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    Graph graph = network_of(draw, seed % Blocks::kKinds, draw.among({3, 16, 20, 64}), draw.coin(), "silu");
    quantize_bytes(draw, graph, draw.coin());
    expect_equal_to_reference(graph, draw.tensor({draw.of(1, 2), 3, kSize, kSize}), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_EQ(kernels["reference"], 0);
}

/// Steps that copy bytes or values.
int copies(const Graph& graph) {
  const Tensor input = Draw(1).tensor({1, 3, kSize, kSize});
  int copies = 0;
  for (const StepProfile& step : FastProgram(graph).profile(std::span(&input, 1), 1))
    copies += step.kernel.starts_with("moved") ? 1 : 0;
  return copies;
}

/// Codes of other types than a concatenation has are converted on the way where nothing else reads them. In
/// the dense blocks here a layer reads windows of several positions of a part.
TEST_F(JoinedInPlace, CopiesOnlyWhatOthersReadOtherwise) {
  struct Expected {
    int64_t kind;
    int in_float, in_bytes, in_bytes_of_one_type;
  };
  for (const Expected& expected :
       {Expected{0, 0, 0, 0}, Expected{1, 0, 0, 0}, Expected{2, 0, 3, 1}, Expected{3, 0, 3, 1},
        Expected{4, 0, 1, 0}, Expected{5, 0, 1, 0}, Expected{6, 2, 3, 2}, Expected{7, 1, 2, 1}}) {
    SCOPED_TRACE(expected.kind);
    Draw draw(3);
    Graph graph = network_of(draw, expected.kind, 64, false, "relu");
    EXPECT_EQ(copies(graph), expected.in_float);
    Graph of_one_type = graph;
    quantize_bytes(draw, of_one_type, false);
    EXPECT_EQ(copies(of_one_type), expected.in_bytes_of_one_type);
    quantize_bytes(draw, graph, true);
    EXPECT_EQ(copies(graph), expected.in_bytes);
  }
}

}  // namespace
}  // namespace detent
