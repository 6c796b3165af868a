#include <gtest/gtest.h>

#include "detent/engine/random_networks_for_test.h"

// Inputs that follow each other along a dimension: the same numbers as the plain reference, without its
// steps.

namespace detent {
namespace {

using Joining = EngineTargetTest;

std::string byte_codes(Draw& draw) {
  const bool is_signed = draw.coin();
  const int64_t zero = draw.of(0, 255) - (is_signed ? 128 : 0);
  return fmt::format("affine:signed={},scale={},zero_point={}", is_signed, draw.real(0.005, 0.05), zero);
}

/// Two to four branches joined along `dim`, in types of their own; now and then one of them in float.
Graph random_join(Draw& draw, const Shape& sample, int64_t dim, bool has_result_type, bool has_values) {
  GraphBuilder builder("joined");
  const NodeInput x = builder.input("x", sample);
  const size_t rank = sample.size() + 1;
  const int64_t branches = draw.of(2, 4);
  std::vector<NodeInput> parts;
  for (int64_t i = 0; i < branches; ++i) {
    const std::string name = fmt::format("layer{}", i);
    if (rank == 2 || rank > 4) {
      parts.push_back(builder.call("tanh", {x}));
    } else {
      const int64_t channels = dim == 1 ? draw.among({2, 3, 16, 64, 70}) : 5;
      parts.push_back(
          builder.convolution(name, x, sample[0], channels, std::vector<int64_t>(sample.size() - 1, 1), {}));
    }
  }
  const NodeInput joined = builder.call("cat", parts, {{"dim", dim}});
  Graph graph = builder.finish(builder.call("relu", {joined}));
  graph.set_requantization(Requantization::kFloat);
  for (Node& node : graph.nodes()) {
    if (role_of(node) == OperatorRole::kInput)
      node.quantization["data_out_0"] = parse_quant_spec_text(byte_codes(draw));
    if (is_weighted_sum(node)) quantize_layer(draw, node);
    const bool is_branch = node.op == "tanh" || is_weighted_sum(node);
    if (is_branch) node.quantization["data_in_0"] = graph.node("x").quantization["data_out_0"];
    if (is_branch && !(has_values && draw.coin()))
      node.quantization["data_out_0"] = parse_quant_spec_text(byte_codes(draw));
  }
  Node& cat = graph.node(joined.node);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Node& part = graph.node(parts[i].node);
    if (part.find_quantization("data_out_0") != nullptr && draw.coin())
      cat.quantization[fmt::format("data_in_{}", i)] =
          draw.coin() ? part.quantization.at("data_out_0") : parse_quant_spec_text(byte_codes(draw));
  }
  if (has_result_type) cat.quantization["data_out_0"] = parse_quant_spec_text(byte_codes(draw));
  return graph;
}

TEST_F(Joining, IsEqualToTheReferenceInAnyTypesAndDimension) {
  std::map<std::string, int> kernels;
  const Shape samples[] = {{7}, {6, 5}, {3, 4, 5}, {2, 3, 4, 3}};
  for (uint32_t seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape& sample = samples[seed % std::size(samples)];
    const auto dim = draw.of(0, 3) == 0 ? draw.of(0, std::ssize(sample)) : 1;
    const Graph graph = random_join(draw, sample, dim, draw.of(0, 3) != 0, draw.of(0, 3) == 0);
    Shape shape = sample;
    shape.insert(shape.begin(), draw.of(1, 3));
    expect_equal_to_reference(graph, draw.tensor(shape), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GE(kernels["moved"], 100);  // others are joined in place
  EXPECT_EQ(kernels["reference"], 0);
}

/// All bytes of a table, in runs of any length.
TEST_F(Joining, TablesGiveTheSameBytesOnEveryTarget) {
  Draw draw(7);
  std::vector<uint8_t> table(256);
  for (uint8_t& entry : table) entry = static_cast<uint8_t>(draw.of(0, 255));
  std::vector<uint8_t> bytes(700);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    for (const int64_t count : {0, 1, 63, 64, 65, 127, 300, 699}) {
      std::vector<uint8_t> result(bytes.size(), 1);
      kernel_set().look_up(table.data(), bytes.data(), result.data(), count);
      for (size_t i = 0; i < bytes.size(); ++i)
        ASSERT_EQ(result[i], i < static_cast<size_t>(count) ? table[bytes[i]] : 1) << target << " " << i;
    }
  }
}

}  // namespace
}  // namespace detent
