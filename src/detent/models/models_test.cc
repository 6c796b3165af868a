#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/graph/operators.h"
#include "detent/models/model.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Models, BuildVerifiedGraphsOfTheRightOutputShape) {
  for (const ModelInfo& model : all_models()) {
    const bool rgb = model.name == "toy_convnet";
    const Shape sample = model.name == "mnist_cnn" ? Shape{1, 28, 28}
                         : rgb                     ? Shape{3, 16, 16}
                                                   : Shape{1, 8, 8};
    const Graph graph = build_model(model.name, sample, 7);
    EXPECT_NO_THROW(verify(graph));
    EXPECT_EQ(graph.name(), model.name);
    const auto results = infer_shapes(graph, 5);
    EXPECT_THAT(results.at("output").shape, ElementsAre(5, 7)) << model.name;
  }
}

TEST(Models, NodeNamesAreThoseOfTheTracer) {
  EXPECT_THAT(build_model("toy", {1, 2, 2}, 2).node_names(),
              ElementsAre("x", "size", "view", "seq_blocks_0", "seq_blocks_1", "seq_blocks_2", "seq_blocks_3",
                          "seq_blocks_4", "output"));
  EXPECT_THAT(build_model("mnist_cnn", {1, 28, 28}, 10).node_names(),
              ElementsAre("x", "conv1", "relu", "max_pool2d", "conv2", "relu_1", "max_pool2d_1", "view",
                          "fc1", "relu_2", "fc2", "log_softmax", "output"));
}

TEST(Models, ParameterCounts) {
  EXPECT_EQ(build_model("toy", {1, 2, 2}, 2).parameter_count(), 500 + 10100 + 202);
  EXPECT_EQ(build_model("mnist_cnn", {1, 28, 28}, 10).parameter_count(), 520 + 25050 + 400500 + 5010);
}

TEST(Models, SayWhatDoesNotFit) {
  try {
    build_model("mnist_cnn", {3, 32, 32}, 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model \"mnist_cnn\" does not fit samples of shape [3, 32, 32]"));
    EXPECT_THAT(error.what(), HasSubstr("conv1"));
  }
  EXPECT_THROW(build_model("tooy", {1, 2, 2}, 2), Error);
  EXPECT_EQ(find_model("toy-tiny").name, "toy_tiny");
}

}  // namespace
}  // namespace detent
