#include "detent/passes/analysis/network_cost.h"

#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/calibration_set.h"
#include "detent/passes/staged_runs/round_weights.h"

namespace detent {
namespace {

constexpr int64_t kFeatures = 5;
constexpr int64_t kOutputs = 7;

/// A layer on every row of a text of open length.
Graph rows() {
  GraphBuilder builder("rows");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {kBatchName, "T", kFeatures}});
  return builder.finish(builder.linear("fc", x, kFeatures, kOutputs));
}

/// Texts of 12 rows.
class Texts final : public CalibrationSet {
 public:
  int64_t size() const override { return 4; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {Tensor(DType::kFloat32, {end - begin, kLength, kFeatures})};
  }
  uint64_t fingerprint() const override { return 0; }

  static constexpr int64_t kLength = 12;
};

TEST(NetworkCost, OpenSizesAreThoseOfTheSamples) {
  const Graph graph = rows();
  const NamedSizes sizes = sample_sizes(Texts(), graph);
  EXPECT_EQ(sizes, (NamedSizes{{kBatchName, 1}, {"T", Texts::kLength}}));
  EXPECT_EQ(sizes_of(graph, Texts().inputs(0, 3)), (NamedSizes{{kBatchName, 3}, {"T", Texts::kLength}}));
  const double row = multiply_adds(graph);
  EXPECT_GE(row, kFeatures * kOutputs);
  EXPECT_EQ(multiply_adds(graph, sizes), Texts::kLength * row);
  EXPECT_EQ(multiply_adds(graph, sizes_of(graph, Texts().inputs(0, 3))), Texts::kLength * row) << "a sample";
  const auto cost = [&](const NamedSizes& given) {
    return choosing_cost(graph, RoundingTarget::kSameInputs, given).per_sample;
  };
  EXPECT_GT(cost(sizes), 2 * cost({}));
  // The output takes the results and gives them.
  constexpr int64_t kRowBytes = int64_t{4} * 2 * kOutputs;
  EXPECT_EQ(samples_within(graph, 24 * kRowBytes), 24);
  EXPECT_EQ(samples_within(graph, 24 * kRowBytes, sizes), 2);
}

double products_of(const Graph& graph, const std::string& node) {
  return node_multiply_adds(graph, {})[graph.position(node)];
}

TEST(NetworkCost, CountsConvolutionsWithAnInputOfWeights) {
  GraphBuilder builder("windows");
  const NodeInput x = builder.input("x", {4, 6});
  const NodeInput y = builder.call("convolution", {x, builder.parameter("w", {8, 2, 3})}, {{"groups", 2}});
  EXPECT_EQ(products_of(builder.finish(y), "convolution"), 8 * 4 * 2 * 3) << "outputs, positions, windows";
}

/// Inputs and states of every step meet the rows of all gates, in both directions.
TEST(NetworkCost, CountsRecurrentLayers) {
  GraphBuilder builder("recurrent");
  const NodeInput x = builder.input("x", {7, 6});
  const NodeInput weights = builder.parameter("w", {2, 32, 6});
  const NodeInput states = builder.parameter("r", {2, 32, 8});
  const NodeInput y = builder.call("lstm", {x, weights, states},
                                   {{"hidden_size", 8},
                                    {"direction", "bidirectional"},
                                    {"activations", "sigmoid tanh tanh sigmoid tanh tanh"},
                                    {"batch_first", true}});
  EXPECT_EQ(products_of(builder.finish(y), "lstm"), 7 * 2 * 32 * (6 + 8));
}

}  // namespace
}  // namespace detent
