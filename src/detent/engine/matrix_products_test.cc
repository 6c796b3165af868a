#include "detent/engine/program_plan.h"

#include "detent/engine/random_networks_for_test.h"

// Products of two inputs by kernels and by the plain reference are the same numbers.

namespace detent {
namespace {

using MatrixProducts = EngineTargetTest;

QuantSpec drawn_codes(Draw& draw) {
  const int64_t width = draw.among({8, 8, 8, 7, 4, 2});
  const bool is_signed = draw.coin();
  const int64_t count = int64_t{1} << width;
  const int64_t low = is_signed ? -count / 2 : 0;
  const int64_t zero = low + (draw.coin() ? count / 2 : draw.of(0, count - 1));
  return parse_quant_spec_text(fmt::format("affine:width={},signed={},scale={},zero_point={}", width,
                                           is_signed, 6.0 / static_cast<double>(count), zero));
}

void quantize_product(Draw& draw, Graph& graph, const std::string& name, int64_t depth) {
  Node& node = graph.node(name);
  node.quantization["data_in_0"] = drawn_codes(draw);
  node.quantization["data_in_1"] = drawn_codes(draw);
  const int64_t way = draw.of(0, 5);
  if (way == 0) {
    node.quantization["data_out_0"] = parse_quant_spec_text("binary");
  } else if (way < 4) {
    node.quantization["data_out_0"] = parse_quant_spec_text(fmt::format(
        "affine:scale={},zero_point={}", std::sqrt(static_cast<double>(depth)) / 40, draw.of(-128, 127)));
  }
  graph.set_requantization(draw.of(0, 3) == 0 ? Requantization::kFixedPoint : Requantization::kFloat);
}

/// Inputs may be transposed first.
TEST_F(MatrixProducts, AreThoseOfTheReference) {
  constexpr uint32_t kProducts = 200;
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < kProducts; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const int64_t rows = draw.among({1, 3, 16, 50, 130});
    const int64_t depth = draw.among({1, 3, 4, 16, 33, 64, 130});
    const int64_t columns = draw.among({1, 5, 16, 20, 64, 77, 130});
    const int64_t heads = draw.of(1, 3);
    const bool shares = draw.of(0, 3) == 0;  // one matrix for all heads
    const bool is_transposed = draw.coin();
    GraphBuilder builder("product");
    const NodeInput a = builder.input("a", {heads, rows, depth});
    const Shape right = is_transposed ? Shape{columns, depth} : Shape{depth, columns};
    Shape of_heads = {shares ? 1 : heads};
    of_heads.insert(of_heads.end(), right.begin(), right.end());
    NodeInput b = builder.input("b", of_heads);
    if (is_transposed) b = builder.call("transpose", {b}, {{"dim0", -2}, {"dim1", -1}});
    Graph graph = builder.finish(builder.call("matmul", {a, b}));
    quantize_product(draw, graph, "matmul", depth);
    if (is_transposed)
      graph.node("transpose").quantization["data_in_0"] =
          *graph.node("matmul").find_quantization("data_in_1");
    const int64_t batch = draw.of(1, 2);
    of_heads.insert(of_heads.begin(), batch);
    const Tensor inputs[] = {draw.tensor({batch, heads, rows, depth}), draw.tensor(of_heads)};
    expect_equal_to_reference(graph, inputs, &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["product"], 100);
  EXPECT_GT(kernels["reference"], 0);                 // signs in fixed point
  EXPECT_LE(kernels["moved"], kernels["reference"]);  // kernels read what is transposed where it lies
}

/// q k^T and its product with v, of one linear layer whose results are cut into heads.
TEST_F(MatrixProducts, AreThoseOfTheReferenceInAttention) {
  std::map<std::string, int> kernels;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(100 + seed);
    const int64_t tokens = draw.of(1, 40);
    const int64_t width = draw.among({8, 20, 32});
    const int64_t heads = draw.of(1, 3);
    GraphBuilder builder("attention");
    NodeInput qkv = builder.linear("qkv", builder.input("x", {tokens, width}), width, 3 * heads * width);
    qkv = builder.call("reshape",
                       {qkv, constant(-1), constant(tokens), constant(3), constant(heads), constant(width)});
    const List order = {Value(2), Value(0), Value(3), Value(1), Value(4)};
    qkv = builder.call("permute", {qkv}, {{"dims", order}});
    const auto part = [&](int64_t i) { return builder.call("select", {qkv}, {{"dim", 0}, {"index", i}}); };
    const NodeInput q = part(0);
    const NodeInput columns = builder.call("transpose", {part(1)}, {{"dim0", -2}, {"dim1", -1}});
    NodeInput y = builder.call("tanh", {builder.call("matmul", {q, columns})});
    y = builder.call("matmul", {y, part(2)});
    y = builder.call("transpose", {y}, {{"dim0", 1}, {"dim1", 2}});
    Graph graph =
        builder.finish(builder.call("reshape", {y, constant(-1), constant(tokens), constant(heads * width)}));
    quantize_graph(draw, graph);
    const Tensor x = draw.tensor({draw.of(1, 2), tokens, width});
    expect_equal_to_reference(graph, std::span(&x, 1), &kernels);
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(kernels["product"], 5);
}

/// Sums that 16 bits do not hold, at the ends of both types.
TEST_F(MatrixProducts, DoNotSaturate) {
  GraphBuilder builder("extremes");
  const NodeInput a = builder.input("a", {9, 64});
  Graph graph = builder.finish(builder.call("matmul", {a, builder.input("b", {64, 40})}));
  for (const char* b :
       {"affine:signed=false,scale=1,zero_point=255", "affine:signed=false,scale=1,zero_point=0",
        "affine:scale=1,zero_point=-128", "affine:scale=1"}) {
    SCOPED_TRACE(b);
    Node& node = graph.node("matmul");
    node.quantization["data_in_0"] = parse_quant_spec_text("affine:signed=false,scale=1,zero_point=0");
    node.quantization["data_in_1"] = parse_quant_spec_text(b);
    graph.set_requantization(Requantization::kFloat);
    Tensor inputs[] = {Tensor(DType::kFloat32, {1, 9, 64}), Tensor(DType::kFloat32, {1, 64, 40})};
    std::ranges::fill(inputs[0].values<float>(), 255.0F);
    for (const float end : {-300.0F, 300.0F}) {
      std::ranges::fill(inputs[1].values<float>(), end);
      expect_equal_to_reference(graph, inputs);
    }
  }
}

TEST_F(MatrixProducts, SayWhyThereIsNoKernel) {
  const ProductForm form{
      .a = {.low = 0, .high = 255}, .b = {.low = 0, .high = 255}, .output = {}, .fixed = {}};
  EXPECT_EQ(why_not_multiplied(form, {2, 3}, {3, 4}), "");
  ProductForm wide = form;
  wide.b.high = 256;
  EXPECT_EQ(why_not_multiplied(wide, {2, 3}, {3, 4}), "inputs of more than 8 bits");
  ProductForm deep = form;
  deep.largest_product = int64_t{255} * 255;
  EXPECT_EQ(why_not_multiplied(deep, {2, 40000}, {40000, 4}), "sums beyond 32 bits");
  EXPECT_EQ(why_not_multiplied(form, {3}, {3, 4}), "a product of vectors");
}

}  // namespace
}  // namespace detent
