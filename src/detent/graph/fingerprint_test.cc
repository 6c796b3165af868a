#include "detent/graph/graph_parameters.h"

#include <gtest/gtest.h>

#include "detent/graph/builder.h"

namespace detent {
namespace {

Graph small_network() {
  GraphBuilder builder("small");
  NodeInput x = builder.linear("fc", builder.input("x", {2, 2}), 2, 3);
  Graph graph = builder.finish(builder.call("relu", {x}));
  float next = 0;
  for (auto& [name, parameter] : graph.node("fc").parameters) {
    for (float& value : parameter->tensor.values<float>()) value = next += 0.25F;
  }
  graph.node("fc").quantization["weight"]->spec.format = Affine{.width = 4, .symmetric = true};
  return graph;
}

/// Files hold it, so it may not change from build to build.
TEST(Fingerprint, IsTheSameInEveryBuild) {
  EXPECT_EQ(network_fingerprint(small_network()), 11694551151438659540U);
}

TEST(Fingerprint, SeesWhatANetworkComputes) {
  const Graph graph = small_network();
  const auto changed = [&](auto change) {
    Graph other = graph.deep_copy();
    change(other);
    return network_fingerprint(other) != network_fingerprint(graph);
  };
  EXPECT_FALSE(changed([](Graph& g) { g.set_name("other"); }));
  EXPECT_TRUE(changed([](Graph& g) { g.node("relu").op = "tanh"; }));
  EXPECT_TRUE(changed([](Graph& g) { g.set_requantization(Requantization::kFloat); }));
  EXPECT_TRUE(changed([](Graph& g) { g.node("fc").parameters[1].second->tensor.values<float>()[2] = -1; }));
  EXPECT_TRUE(changed([](Graph& g) {
    Tensor& weight = g.node("fc").parameters[0].second->tensor;
    weight = weight.reshaped({2, 3});
  }));
  EXPECT_TRUE(changed(
      [](Graph& g) { std::get<Affine>(g.node("fc").quantization["weight"]->spec.format).width = 5; }));
}

}  // namespace
}  // namespace detent
