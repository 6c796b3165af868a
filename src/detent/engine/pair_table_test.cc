#include "detent/core/sanitizers_for_test.h"
#include "detent/engine/pair_table.h"
#include "detent/engine/weight_packer.h"

#include "detent/engine/random_networks_for_test.h"

// Pairs of bytes by kernels, by tables and by the plain reference are the same numbers.

namespace detent {
namespace {

using PairTable = EngineTargetTest;

/// Shapes that broadcast to [2, C, H, W].
Shape smaller(Draw& draw, const Shape& shape) {
  switch (draw.of(0, 9)) {
    case 0:
      return {shape[0], shape[1], 1, 1};
    case 1:
      return {1, shape[1], 1, 1};
    case 2:
      return {1, 1, 1, 1};
    case 3:
      return {shape[0], 1, shape[2], shape[3]};
    case 4:
      return {1, 1, 1, shape[3]};
    case 5:
      return {1, shape[1], shape[2], shape[3]};
    case 6:
      return {shape[0], shape[1], shape[2], 1};
    case 7:
      return {1, 1, shape[2], 1};
    default:
      return shape;
  }
}

TensorType typed(const Shape& shape) {
  TensorType type;
  type.dtype = DType::kFloat32;
  for (const int64_t size : shape) type.shape.emplace_back(size);
  return type;
}

/// Neighbouring results of a single channel in a column have a border between them.
TEST_F(PairTable, WritesColumnsOfOneChannelBetweenTheirBorders) {
  for (const char* operation : {"add", "sub", "mul"}) {
    SCOPED_TRACE(operation);
    Draw draw(5);
    GraphBuilder builder("column");
    NodeInput a = builder.input("a", {1, 8, 1});
    a = builder.convolution("conv", a, 1, 1, {3, 3}, {{"padding", int64_t{1}}});
    const NodeInput y = builder.call(operation, {a, builder.input("b", {1, 8, 1})});
    Graph graph = builder.finish(builder.convolution("after", y, 1, 5, {1, 1}, {{"padding", int64_t{1}}}));
    for (Node& node : graph.nodes()) {
      if (is_weighted_sum(node)) quantize_layer(draw, node);
      if (role_of(node) != OperatorRole::kComputes) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        node.quantization[fmt::format("data_in_{}", i)] = parse_quant_spec_text("affine:scale=0.05");
      if (node.name != "after") node.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.05");
    }
    graph.set_requantization(Requantization::kFloat);
    const Tensor inputs[] = {draw.tensor({2, 1, 8, 1}), draw.tensor({2, 1, 8, 1})};
    expect_equal_to_reference(graph, inputs);
  }
}

/// Operands of any shapes that broadcast, of which convolutions make one lie channels last.
TEST_F(PairTable, PairsAreThoseOfTheReference) {
  constexpr uint32_t kNetworks = fewer_under_sanitizers(300U);
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Shape shape = {draw.of(1, 2), draw.among({1, 3, 16, 65}), draw.of(1, 9), draw.among({1, 4, 40})};
    const Shape other = smaller(draw, shape);
    GraphBuilder builder("pairs");
    NodeInput a = builder.input("a", typed(shape));
    NodeInput b = builder.input("b", typed(other));
    if (draw.coin())
      a = builder.convolution("conv", a, shape[1], shape[1], {3, 3}, {{"padding", int64_t{1}}});
    const bool swaps = draw.coin();
    const char* operation = draw.of(0, 2) == 0 ? "sub" : draw.of(0, 3) == 0 ? "add" : "mul";
    NodeInput y = builder.call(operation, swaps ? std::vector{b, a} : std::vector{a, b});
    if (draw.coin()) y = builder.convolution("after", y, shape[1], 5, {1, 1}, {{"padding", int64_t{1}}});
    Graph graph = builder.finish(y);
    quantize_graph(draw, graph);
    const Tensor inputs[] = {draw.tensor(shape), draw.tensor(other)};
    expect_equal_to_reference(graph, inputs, &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["multiplication"], fewer_under_sanitizers(12));
  EXPECT_GT(kernels["addition"], fewer_under_sanitizers(12));
  EXPECT_GT(kernels["pairs"], fewer_under_sanitizers(12));
}

/// A slope for each channel.
TEST_F(PairTable, SlopesAreThoseOfTheReference) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(2000 + seed);
    const int64_t channels = draw.among({1, 5, 40});
    GraphBuilder builder("slopes");
    const NodeInput slopes = builder.input("slopes", typed({1, channels, 1, 1}));
    const NodeInput x = builder.input("x", typed({2, channels, 3, 7}));
    Graph graph = builder.finish(builder.call("prelu", {x, slopes}));
    quantize_graph(draw, graph);
    const Tensor inputs[] = {draw.tensor({1, channels, 1, 1}), draw.tensor({2, channels, 3, 7})};
    expect_equal_to_reference(graph, inputs, &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["pairs"], 5);
}

/// Rounded alike, with a slope for each channel.
Graph sloped(const char* format) {
  GraphBuilder builder("sloped");
  const NodeInput slopes = builder.input("slopes", typed({1, 3, 1, 1}));
  const NodeInput y = builder.call("prelu", {builder.input("x", typed({2, 3, 2, 2})), slopes});
  Graph graph = builder.finish(y);
  for (const char* operand : {"data_in_0", "data_in_1", "data_out_0"})
    graph.node(y.node).quantization[operand] = parse_quant_spec_text(format);
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

/// Many variants of a network are compiled to find out which of its nodes cost the outputs most.
TEST_F(PairTable, ProgramsShareTheTablesOfTheSamePairs) {
  const auto packed = [](const Graph& graph, ProgramWeights& weights, const PackedProgram* other) {
    WeightPacker packer(kernel_set(), weights, other);
    return reference_plan(graph, {.known_form = [&](const Node& node) { return packer.known_form(node); },
                                  .take = [&](ReferenceStep& step) { return packer.take(step); },
                                  .bodies = nullptr});
  };
  const Graph graph = sloped("affine:scale=0.05");
  ProgramWeights first;
  const auto plan = packed(graph, first, nullptr);
  ASSERT_EQ(first.pair_tables.size(), 1);
  const auto table = first.pair_tables.begin()->second;
  const PackedProgram program{graph, *plan, first};
  ProgramWeights same;
  packed(graph, same, &program);
  EXPECT_EQ(same.pair_tables.begin()->second, table);
  ProgramWeights other;
  packed(sloped("affine:scale=0.04"), other, &program);
  EXPECT_NE(*other.pair_tables.begin()->second, *table);
}

/// In rows, with operands of fewer dimensions.
TEST_F(PairTable, PairsOfRowsAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < fewer_under_sanitizers(60U); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(1000 + seed);
    const Shape shape = {draw.of(1, 3), draw.of(1, 300), draw.among({1, 17, 64, 600})};
    const Shape others[] = {{shape[2]}, {1}, {shape[1], 1}, {shape[1], shape[2]}, {shape[0], 1, shape[2]},
                            shape};
    const Shape other = others[draw.of(0, 5)];
    GraphBuilder builder("rows");
    const NodeInput a = builder.input("a", typed(shape));
    const NodeInput b = builder.input("b", typed(other));
    const char* operation = draw.coin() ? "mul" : draw.coin() ? "add" : "sub";
    Graph graph = builder.finish(builder.call(operation, {a, b}));
    quantize_graph(draw, graph);
    const Tensor inputs[] = {draw.tensor(shape), draw.tensor(other)};
    expect_equal_to_reference(graph, inputs);
    if (HasFatalFailure()) break;
  }
}

/// All pairs of two codes, at scales where many quotients lie in the middle of two codes.
TEST_F(PairTable, KernelsGiveTheTablesBytes) {
  std::vector<uint8_t> a;
  std::vector<uint8_t> b;
  for (int i = 0; i < 256; ++i) {
    for (int k = 0; k < 256; ++k) {
      a.push_back(static_cast<uint8_t>(i));
      b.push_back(static_cast<uint8_t>(k));
    }
  }
  Draw draw(1);
  for (int i = 0; i < 100; ++i) {
    const auto type = [&](float scale) {
      const auto zero = static_cast<int32_t>(draw.of(-128, 127));
      return CodeType{.scale = scale, .zero_point = zero, .low = -128, .high = 127};
    };
    const auto scale = [&](double least, double most) { return static_cast<float>(draw.real(least, most)); };
    const bool ties = i % 2 == 0;
    PairForm form{.operation = i % 3 == 0 ? PairOperation::kSub : PairOperation::kMul,
                  .a = type(ties ? 0.5F : scale(0.001, 2)),
                  .b = type(ties ? 0.25F : scale(0.001, 2)),
                  .output = type(ties ? 4.0F : scale(0.01, 4))};
    ASSERT_TRUE(has_pair_kernel(form));
    const std::vector<uint8_t> wanted = pair_table(form);
    for (const std::string& target : engine_targets()) {
      set_engine_target(target);
      std::vector<uint8_t> got(a.size());
      const auto count = std::ssize(a);
      if (form.operation == PairOperation::kMul) {
        kernel_set().multiply(byte_product(form), a.data(), b.data(), got.data(), count);
      } else {
        kernel_set().add(byte_addition(form), a.data(), b.data(), got.data(), count);
      }
      ASSERT_EQ(got, wanted) << target << ", " << i;
    }
  }
}

TEST_F(PairTable, KernelsTakeUsualScalesOnly) {
  const CodeType byte{.scale = 1, .zero_point = 0, .low = -128, .high = 127};
  PairForm form{.operation = PairOperation::kMul, .a = byte, .b = byte, .output = byte};
  EXPECT_TRUE(has_pair_kernel(form));
  form.b.scale = 1e-20F;
  EXPECT_FALSE(has_pair_kernel(form));
  form.b.scale = 1;
  form.fixed_point = true;
  EXPECT_FALSE(has_pair_kernel(form));
  form.fixed_point = false;
  form.operation = PairOperation::kPrelu;
  EXPECT_FALSE(has_pair_kernel(form));
}

}  // namespace
}  // namespace detent
