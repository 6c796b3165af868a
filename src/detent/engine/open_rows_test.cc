#include "detent/engine/float_networks_for_test.h"

// Layers on rows of which only a run knows how many there are, as those of objects that a detector has found:
// the same numbers as the plain reference.

namespace detent {
namespace {

class OpenRows : public FloatNetworkTest {};

/// Two layers on the rows of x [N, 6, columns] whose sums are positive.
Graph network_of_rows(Draw& draw, int64_t columns) {
  GraphBuilder b("rows");
  const NodeInput x = b.input("x", {6, columns});
  const NodeInput sums = b.call("relu", {b.call("sum", {x, listed({2})})});
  const NodeInput places = b.call("transpose", {b.call("nonzero", {sums})}, {{"dim0", 0}, {"dim1", 1}});
  const int64_t features = draw.of(1, 70);
  const NodeInput first = b.linear("first", b.call("gather_nd", {x, places}), columns, features, draw.coin());
  Graph graph = b.finish(b.linear("second", b.call("relu", {first}), features, draw.of(1, 20), draw.coin()));
  draw_parameters(draw, graph);
  return graph;
}

void quantize_layers(Draw& draw, Graph& graph) {
  for (const char* name : {"first", "second"}) {
    Node& node = graph.node(name);
    const auto spec = [&](int64_t zero_point) {
      return parse_quant_spec_text(
          fmt::format("affine:signed=false,scale={},zero_point={}", draw.real(0.01, 0.05), zero_point));
    };
    node.quantization["data_in_0"] = spec(draw.of(0, 200));
    node.quantization["weight"] = spec(128);
    if (draw.coin()) node.quantization["data_out_0"] = spec(draw.of(0, 200));
  }
}

TEST_F(OpenRows, AreThoseOfTheReference) {
  KernelCounts kernels;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t columns = draw.of(1, 40);
    Graph graph = network_of_rows(draw, columns);
    if (draw.coin()) quantize_layers(draw, graph);
    expect_equal_on_every_target(graph, draw.tensor({draw.of(1, 3), 6, columns}), kernels);
    const Tensor none =
        Tensor::from<float>({1, 6, columns}, std::vector<float>(static_cast<size_t>(6 * columns), -1));
    expect_equal_on_every_target(graph, none, kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["linear of open rows"], 200);
}

}  // namespace
}  // namespace detent
