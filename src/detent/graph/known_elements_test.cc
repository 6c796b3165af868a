#include "detent/graph/known_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::Optional;

NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

/// As exporters write the shape of a flattened image: [N, C * H * W].
TEST(KnownElements, FollowWhatNetworksComputeOfShapes) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {3, 4, 5});
  const NodeInput shape = builder.call("shape_of", {x});
  const NodeInput batch = builder.call("gather", {shape, list({0})});
  const NodeInput rest = builder.call("dynamic_slice", {shape, list({1}), list({4})});
  const NodeInput count = builder.call("prod", {rest, list({0})}, {{"keepdim", true}});
  const NodeInput sizes = builder.call("cat", {batch, count}, {{"dim", 0}});
  const NodeInput halves = builder.call("div", {sizes, NodeInput::of_constant(Value(2))});
  const Graph graph = builder.finish({builder.call("dynamic_reshape", {x, sizes}), halves});
  const ValueTypes values = infer_shapes(graph, 7);
  EXPECT_THAT(values.at(sizes.node).elements, Optional(ElementsAre(7, 60)));
  EXPECT_THAT(values.at(halves.node).elements, Optional(ElementsAre(3, 30))) << "integers have no fraction";
  EXPECT_EQ(values.at("dynamic_reshape").shape, (Shape{7, 60}));
  verify(graph);
}

TEST(KnownElements, OpenSizesStayOpen) {
  GraphBuilder builder("g");
  const NodeInput x = builder.input("x", {6});
  const NodeInput places = builder.call("nonzero", {x});
  const NodeInput columns = builder.call("transpose", {places}, {{"dim0", 0}, {"dim1", 1}});
  const NodeInput first = builder.call("gather", {columns, NodeInput::of_constant(Value(0))}, {{"dim", 1}});
  const Graph graph = builder.finish({columns, first});
  const ValueTypes values = infer_shapes(graph);
  EXPECT_EQ(values.at(places.node).shape, (Shape{2, kOpenSize}));
  EXPECT_EQ(values.at(columns.node).shape, (Shape{kOpenSize, 2})) << "found by trial";
  EXPECT_EQ(values.at(first.node).shape, Shape{kOpenSize});
  EXPECT_FALSE(values.at(first.node).elements.has_value());
}

TEST(KnownElements, PositionsFollowPythonsRule) {
  EXPECT_EQ(slice_count({0, 100, 1}, 5), 5);
  EXPECT_EQ(slice_count({-3, -1, 1}, 5), 2);
  EXPECT_EQ(slice_count({4, -100, -2}, 5), 3);
  EXPECT_EQ(slice_count({3, 1, 1}, 5), 0);
  EXPECT_EQ(first_position({-1, 0, -1}, 5), 4);
  EXPECT_THROW(slice_count({0, 1, 0}, 5), Error);
}

}  // namespace
}  // namespace detent
