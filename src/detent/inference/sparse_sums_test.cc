#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "detent/formats/kernel_environment.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

/// A convolution whose outputs have few weights that are not 0, and what reads as many numbers one by one.
struct SparseCase {
  int64_t groups, stride, padding, dilation;
  float largest = 1;
};

Tensor drawn(const Shape& shape, std::mt19937& engine, double share) {
  Tensor result(DType::kFloat32, shape);
  std::uniform_real_distribution<float> value(-1, 1);
  std::bernoulli_distribution is_there(share);
  for (float& element : result.values<float>()) element = is_there(engine) ? value(engine) : 0;
  return result;
}

/// Each output by itself.
Tensor by_connections(const Connections& connections, const SparseCase& c, const Tensor& x,
                      const Tensor& bias, const Shape& shape, const Shape& weight) {
  Tensor result(DType::kFloat32, shape);
  const WindowDimension down{x.dim(2), shape[2], weight[2], c.stride, c.padding, c.dilation};
  const WindowDimension across{x.dim(3), shape[3], weight[3], c.stride, c.padding, c.dilation};
  for (int64_t i = 0; i < result.numel(); ++i) {
    const int64_t column = i % shape[3];
    const int64_t line = i / shape[3] % shape[2];
    const int64_t output = i / (shape[3] * shape[2]) % shape[1];
    const int64_t first = output / (shape[1] / c.groups) * weight[1];
    const auto value_at = [&](int64_t index) {
      const int64_t y = down.place(line, index / weight[3] % weight[2]);
      const int64_t at = across.place(column, index % weight[3]);
      if (y < 0 || y >= x.dim(2) || at < 0 || at >= x.dim(3)) return 0.0F;
      const int64_t channel =
          i / (shape[3] * shape[2] * shape[1]) * x.dim(1) + first + index / (weight[2] * weight[3]);
      return x.values<float>()[static_cast<size_t>((channel * x.dim(2) + y) * x.dim(3) + at)];
    };
    result.values<float>()[static_cast<size_t>(i)] =
        connections.sum(output, bias.values<float>()[static_cast<size_t>(output)], value_at);
  }
  return result;
}

class SparseSums : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam(), "test"); }
  void TearDown() override { set_simd_target(simd_targets().front(), "test"); }
};

TEST_P(SparseSums, AreThoseOfEachConnection) {
  std::mt19937 engine(1);
  for (const SparseCase& c : std::vector<SparseCase>{{1, 1, 0, 1},
                                                     {1, 1, 2, 1},
                                                     {2, 2, 1, 1},
                                                     {2, 3, 4, 2},
                                                     {1, 2, 7, 3},
                                                     {1, 1, 2, 1, std::numeric_limits<float>::infinity()}}) {
    GraphBuilder builder("sparse");
    const NodeInput x = builder.input("x", {4, 9, 11});
    const NodeInput y = builder.convolution(
        "conv", x, 4, 6, {3, 5},
        {{"stride", c.stride}, {"padding", c.padding}, {"dilation", c.dilation}, {"groups", c.groups}});
    Graph graph = builder.finish(y);
    Node& node = graph.node("conv");
    Tensor& weight = node.find_parameter("weight")->tensor;
    weight = drawn(weight.shape(), engine, 0.15);
    weight.values<float>()[2] = c.largest;
    const Tensor bias = drawn({6}, engine, 1);
    const Tensor input = drawn({2, 4, 9, 11}, engine, 0.9);
    const auto connections = ordered_connections(node, weight);
    ASSERT_TRUE(connections.has_value());
    const Shape shape = infer_shapes(graph, NamedSizes{{kBatchName, 2}}).at("conv").shape;
    const Tensor expected = by_connections(*connections, c, input, bias, shape, weight.shape());
    EXPECT_TRUE(sparse_sums(node, *connections, input, bias).equals(expected))
        << c.stride << ", " << c.padding;
  }
}

TEST_P(SparseSums, OfManyRowsAreThoseOfEach) {
  std::mt19937 engine(2);
  for (const int64_t rows : {1, 4, 5, 19, 70}) {
    for (const float largest : {1.0F, std::numeric_limits<float>::infinity()}) {
      GraphBuilder builder("sparse");
      Graph graph = builder.finish(builder.linear("fc", builder.input("x", {21}), 21, 13));
      Node& node = graph.node("fc");
      Tensor& weight = node.find_parameter("weight")->tensor;
      weight = drawn(weight.shape(), engine, 0.2);
      weight.values<float>()[2] = largest;
      const Tensor bias = drawn({13}, engine, 1);
      const Tensor input = drawn({rows, 21}, engine, 0.9);
      const auto connections = ordered_connections(node, weight);
      ASSERT_TRUE(connections.has_value());
      Tensor expected(DType::kFloat32, {rows, 13});
      for (int64_t i = 0; i < expected.numel(); ++i) {
        const auto value_at = [&](int64_t index) {
          return input.values<float>()[static_cast<size_t>(i / 13 * 21 + index)];
        };
        expected.values<float>()[static_cast<size_t>(i)] =
            connections->sum(i % 13, bias.values<float>()[static_cast<size_t>(i % 13)], value_at);
      }
      EXPECT_TRUE(sparse_sums(node, *connections, input, bias).equals(expected)) << rows << ", " << largest;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SparseSums, testing::ValuesIn(simd_targets()));

}  // namespace
}  // namespace detent
