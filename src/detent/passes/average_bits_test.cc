#include "detent/passes/analysis/network_cost.h"

#include <gtest/gtest.h>

#include "detent/graph/builder.h"

namespace detent {
namespace {

constexpr int64_t kImage = int64_t{3} * 4 * 4;
constexpr int64_t kHidden = int64_t{6} * 4 * 4;

QuantSpec bits(int width) { return parse_quant_spec_text(fmt::format("fixed:width={},frac_width=2", width)); }

/// conv1 - relu - conv2, relu added to its result, max pooling, a view, a linear layer.
Graph residual_network() {
  GraphBuilder b("residual");
  const Table padded = {{"padding", 1}};
  const NodeInput x = b.convolution("conv1", b.input("x", {3, 4, 4}), 3, 6, {3, 3}, padded);
  const NodeInput rectified = b.module("relu", "relu", x);
  const NodeInput sum = b.call("add", {b.convolution("conv2", rectified, 6, 6, {3, 3}, padded), rectified});
  const NodeInput pooled = b.module("max_pool2d", "pool", sum, Table{{"kernel_size", 2}});
  return b.finish(b.linear("fc", b.call("flatten", {pooled}, Table{{"start_dim", 1}}), kHidden / 4, 5));
}

int64_t read_values(const Graph& graph) { return storage_bits(graph).activation_values; }

TEST(AverageBits, CountEachValueOnceHoweverManyReadIt) {
  const Graph graph = residual_network();
  EXPECT_EQ(read_values(graph), kImage + 3 * kHidden + kHidden / 4)
      << "x, conv1, relu (read twice), conv2, flatten";
  EXPECT_EQ(storage_bits(graph).average_activation_bits(), 32);
}

TEST(AverageBits, OfANetworkOfEightBitsAreEight) {
  Graph graph = residual_network();
  graph.node("conv1").quantization = {{"data_in_0", bits(8)}, {"data_out_0", bits(8)}};
  graph.node("conv2").quantization = {{"data_in_0", bits(8)}, {"data_out_0", bits(8)}};
  graph.node("add").quantization = {{"data_in_0", bits(8)}, {"data_in_1", bits(8)}, {"data_out_0", bits(8)}};
  EXPECT_EQ(storage_bits(graph).average_activation_bits(), 8)
      << "relu, pooling and flatten hand codes on, fc reads them";
}

TEST(AverageBits, TakeAValueWhereItIsRounded) {
  Graph graph = residual_network();
  const int64_t plain = 32 * read_values(graph);
  const auto saved = [&] { return plain - storage_bits(graph).activation_bits; };
  graph.node("conv1").quantization["data_out_0"] = bits(8);
  EXPECT_EQ(saved(), 2 * kHidden * 24) << "by the node that computes it; relu only compares";
  graph.node("conv2").quantization["data_in_0"] = bits(4);
  EXPECT_EQ(saved(), 2 * kHidden * 24) << "add still reads all 8 bits of relu";
  graph.node("add").quantization["data_in_1"] = bits(6);
  EXPECT_EQ(saved(), kHidden * (24 + 26)) << "the widest reader counts";
  graph.node("fc").quantization["data_in_0"] = bits(3);
  EXPECT_EQ(saved(), kHidden * (24 + 26) + kHidden / 4 * 29) << "by its reader";
  graph.node("conv2").quantization["data_in_0"] = bits(16);
  EXPECT_EQ(saved(), 2 * kHidden * 24 + kHidden / 4 * 29) << "a wider format adds no bits";
}

}  // namespace
}  // namespace detent
