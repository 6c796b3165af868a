#include "detent/graph/value_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using testing::ElementsAre;

constexpr int64_t kUsual = 64;

TensorType images(int64_t usual = kUsual) {
  return {DType::kFloat32, {kBatchName, 3, Dimension("h", usual), Dimension("w", usual)}};
}

/// The sizes of what a node makes of x.
std::vector<std::string> sizes(const TensorType& input, const std::string& op, const Table& attributes) {
  GraphBuilder builder("one");
  const Graph graph = builder.finish(builder.call(op, {builder.input("x", input)}, attributes));
  return open_shapes(graph, graph.nodes().back().inputs).at(0);
}

TEST(OpenShapes, AreFormulasOfNamedDimensions) {
  EXPECT_THAT(sizes(images(), "relu", {}), ElementsAre("N", "3", "h", "w"));
  EXPECT_THAT(sizes(images(), "max_pool2d", {{"kernel_size", 4}}),
              ElementsAre("N", "3", "floor(h/4)", "floor(w/4)"));
  EXPECT_THAT(sizes(images(), "max_pool2d", {{"kernel_size", 3}, {"stride", 1}}),
              ElementsAre("N", "3", "h - 2", "w - 2"));
  EXPECT_THAT(sizes(images(), "max_pool2d", {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}}),
              ElementsAre("N", "3", "ceil(h/2)", "ceil(w/2)"));
  EXPECT_THAT(sizes(images(), "max_pool2d", {{"kernel_size", 5}, {"stride", 3}}),
              ElementsAre("N", "3", "floor((h - 2)/3)", "floor((w - 2)/3)"));
  EXPECT_THAT(sizes(images(), "flatten", {{"start_dim", 1}}), ElementsAre("N", "3*h*w"));
  EXPECT_THAT(sizes(images(), "adaptive_avg_pool2d", {{"output_size", 1}}), ElementsAre("N", "3", "1", "1"));
}

TEST(OpenShapes, NeedNoSizesThatWindowsDoNotFitInto) {
  EXPECT_THAT(sizes(images(1000), "max_pool2d", {{"kernel_size", 100}}),
              ElementsAre("N", "3", "floor(h/100)", "floor(w/100)"));
}

TEST(OpenShapes, SayWhereNoFormulaIsKnown) {
  GraphBuilder builder("pyramid");
  const NodeInput x = builder.input("x", {DType::kFloat32, {kBatchName, 3, Dimension("t", kUsual)}});
  const NodeInput half = builder.call("max_pool1d", {x}, {{"kernel_size", 2}});
  const Graph graph = builder.finish(builder.call("cat", {x, half}, {{"dim", 2}}));
  EXPECT_THAT(open_shapes(graph, graph.nodes().back().inputs).at(0), ElementsAre("N", "3", "floor(3*t/2)"));
  const Graph product = [] {
    GraphBuilder both("both");
    const NodeInput images_of = both.input("x", images());
    const NodeInput small = both.call("max_pool2d", {images_of}, {{"kernel_size", 2}});
    const NodeInput flat = both.call("flatten", {images_of}, {{"start_dim", 2}});
    return both.finish(
        both.call("cat", {flat, both.call("flatten", {small}, {{"start_dim", 2}})}, {{"dim", 2}}));
  }();
  EXPECT_THAT(open_shapes(product, product.nodes().back().inputs).at(0), ElementsAre("N", "3", "?"));
}

TEST(OpenShapes, OtherSizesFitTheNetworkToo) {
  GraphBuilder builder("skip");
  const NodeInput x = builder.input("x", images());
  const NodeInput small = builder.call("max_pool2d", {x}, {{"kernel_size", 32}});
  const NodeInput factors = NodeInput::of_constant(List{1.0, 1.0, 32.0, 32.0});
  const NodeInput up = builder.call("resize", {small, NodeInput::absent(), factors}, {});
  const Graph graph = builder.finish(builder.call("add", {x, up}));
  const NamedSizes others = other_sizes(graph);
  EXPECT_NE(others, usual_sizes(graph));
  EXPECT_NO_THROW(infer_shapes(graph, others));
}

/// A step of a decoder: half as many again as 1 is 1.
TEST(OpenShapes, OtherSizesDifferInEachDimension) {
  GraphBuilder builder("step");
  const auto open = [](const char* name, int64_t usual) {
    return TensorType{DType::kFloat32, {Dimension("N", 1), Dimension(name, usual), 4}};
  };
  const NodeInput past = builder.input("past", open("p", 5));
  const NodeInput x = builder.input("x", open("t", 1));
  const Graph graph = builder.finish(builder.call("cat", {past, x}, {{"dim", 1}}));
  EXPECT_EQ(other_sizes(graph), (NamedSizes{{"N", 1}, {"p", 7}, {"t", 2}}));
}

TEST(OpenShapes, UsualSizesAreThoseWithoutOthers) {
  const TensorType type = images();
  EXPECT_EQ(type.concrete(), (Shape{1, 3, kUsual, kUsual}));
  EXPECT_EQ(type.concrete({{"h", 5}}), (Shape{1, 3, 5, kUsual}));
}

}  // namespace
}  // namespace detent
