#include "detent/graph/value_sizes.h"

#include <gtest/gtest.h>

#include "detent/graph/builder.h"

namespace detent {
namespace {

TEST(ActivationMemory, IsThatOfTheLargestNode) {
  GraphBuilder builder("small");
  const NodeInput x = builder.input("x", {1, 8, 8});
  const NodeInput y = builder.convolution("conv", x, 1, 4, {3, 3}, {{"padding", 1}});
  const Graph graph = builder.finish(builder.call("relu", {builder.call("relu", {y})}));
  constexpr int64_t kRelu = int64_t{2} * 4 * 8 * 8 * 4;
  EXPECT_EQ(samples_within(graph, kRelu), 1);
  EXPECT_EQ(samples_within(graph, 10 * kRelu - 1), 9);
  EXPECT_EQ(samples_within(graph, 1), 1) << "a sample cannot be cut";
}

TEST(ActivationMemory, InputsMayFixTheNumberOfSamples) {
  GraphBuilder builder("fixed");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {3, 8}});
  const Graph graph = builder.finish(builder.call("relu", {x}));
  EXPECT_EQ(fixed_samples(graph), 3);
  EXPECT_EQ(samples_within(graph, 1), 3);
  EXPECT_EQ(fixed_samples(Graph("none")), std::nullopt);
  EXPECT_EQ(fixed_samples(with_input_types(graph, {{"x", {DType::kFloat32, {kBatchName, 8}}}})),
            std::nullopt);
  EXPECT_EQ(fixed_samples(with_input_types(graph, {{"x", {DType::kFloat32, {"steps", 8}}}})), 1);
  GraphBuilder with_rate("g");
  const NodeInput sound = with_rate.input("x", TensorType{DType::kFloat32, {kBatchName, 8}});
  const NodeInput rate = with_rate.input("rate", TensorType{DType::kFloat32, {}});
  EXPECT_EQ(fixed_samples(with_rate.finish(with_rate.call("add", {sound, rate}))), 1) << "one rate for all";
}

TEST(ActivationMemory, InputsThatBeginWithOtherSizesAreOneSample) {
  GraphBuilder builder("streaming");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {kBatchName, 8}});
  const NodeInput state = builder.input("state", TensorType{DType::kFloat32, {2, kBatchName, 8}});
  EXPECT_EQ(fixed_samples(builder.finish(builder.call("add", {x, state}))), 1);
}

}  // namespace
}  // namespace detent
