#include <gmock/gmock.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "detent/files/temporary_file_test.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/graph/traits.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/pass_bench_for_test.h"

// Constants that multiply and sum are weights of layers, however the model writes the product.

namespace detent {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Some numbers of both signs.
std::vector<float> wave(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i * 7 + seed)));
  return values;
}

/// One node, of which inputs are constant or not: what it computes does not depend on that.
struct ProductCase {
  const char* op;
  std::vector<Shape> inputs;
  size_t weight;  // which input is constant
  std::vector<OnnxAttribute> attributes = {};
  bool is_constant_addend = true;
};

std::vector<Tensor> run_case(const ProductCase& c, bool has_weight, std::vector<std::string>& ops) {
  OnnxModelForTest model(17);
  std::vector<Tensor> given;
  std::vector<std::string> names;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const std::vector<float> values = wave(element_count(c.inputs[i]), static_cast<int64_t>(i));
    names.push_back(fmt::format("x{}", i));
    const bool is_constant = has_weight && (i == c.weight || (i == 2 && c.is_constant_addend));
    if (is_constant) {
      model.constant(names.back(), c.inputs[i], values);
    } else {
      model.input(names.back(), c.inputs[i]);
      given.push_back(Tensor::from(c.inputs[i], values));
    }
  }
  model.output("y");
  model.node(c.op, names, {"y"}, c.attributes);
  const Graph graph = import_onnx(model.write());
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  if (has_weight) {
    EXPECT_EQ(std::ranges::count_if(graph.nodes(), is_weighted_sum), 1)
        << fmt::format("{}", fmt::join(ops, " "));
  }
  return IntegerExecutor().compile(graph)->run(given);
}

void expect_layer(const ProductCase& c) {
  std::vector<std::string> ops;
  const Tensor expected = run_case(c, false, ops).at(0);
  ops.clear();
  const Tensor actual = run_case(c, true, ops).at(0);
  std::string what = c.op;
  for (const Shape& shape : c.inputs) what += shape_text(shape);
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  for (size_t i = 0; i < actual.values<float>().size(); ++i)
    EXPECT_NEAR(actual.values<float>()[i], expected.values<float>()[i], 1e-5F) << what << " " << i;
}

TEST(OnnxLayers, GemmInAllItsForms) {
  const std::vector<std::optional<Shape>> addends = {std::nullopt, Shape{4},    Shape{},    Shape{1},
                                                     Shape{3, 1},  Shape{3, 4}, Shape{1, 4}};
  for (const int forms : {0, 1, 2, 3}) {
    for (const auto& addend : addends) {
      for (const size_t weight : {size_t{0}, size_t{1}}) {
        for (const bool is_constant_addend : {false, true}) {
          const bool transpose_a = (forms & 1) != 0;
          const bool transpose_b = (forms & 2) != 0;
          ProductCase c{
              "Gemm",
              {transpose_a ? Shape{5, 3} : Shape{3, 5}, transpose_b ? Shape{4, 5} : Shape{5, 4}},
              weight,
              {{"transA", static_cast<int>(transpose_a)}, {"transB", static_cast<int>(transpose_b)}},
              is_constant_addend};
          if (addend) c.inputs.push_back(*addend);
          if (forms != 1) c.attributes.insert(c.attributes.end(), {{"alpha", 0.5F}, {"beta", 3.0F}});
          expect_layer(c);
        }
      }
    }
  }
}

TEST(OnnxLayers, ProductsWithAConstantOnEitherSide) {
  const ProductCase cases[] = {
      {"MatMul", {{2, 3, 5}, {5, 4}}, 1},
      {"MatMul", {{2, 3, 5}, {5}}, 1},
      {"MatMul", {{5}, {5, 4}}, 1},
      {"MatMul", {{2, 3, 5}, {1, 5, 4}}, 1},
      {"MatMul", {{2, 6, 3, 5}, {1, 1, 5, 4}}, 1},
      {"MatMul", {{3, 4, 5}, {3, 5, 6}}, 1},
      {"MatMul", {{2, 3, 4, 5}, {3, 5, 6}}, 1},
      {"MatMul", {{2, 3, 4, 5}, {1, 3, 5, 6}}, 1},
      {"MatMul", {{7, 2, 3, 4, 5}, {2, 3, 5, 6}}, 1},
      {"MatMul", {{3, 5}, {5, 4}}, 0},
      {"MatMul", {{3, 5}, {5}}, 0},
      {"MatMul", {{3, 5}, {2, 5, 4}}, 0},
      {"MatMul", {{3, 5}, {2, 6, 5, 4}}, 0},
      {"MatMul", {{5}, {5, 4}}, 0},
      {"MatMul", {{5}, {2, 5, 4}}, 0},
      {"MatMul", {{5}, {2, 6, 5, 4}}, 0},
      {"MatMul", {{1, 3, 5}, {2, 5, 4}}, 0},
      {"MatMul", {{2, 3, 5}, {2, 5, 4}}, 0},
      {"MatMul", {{6, 3, 5}, {2, 6, 5, 4}}, 0},
  };
  for (const ProductCase& c : cases) expect_layer(c);
}

TEST(OnnxLayers, SumsOfEinsumOverOneDimension) {
  using Case = std::tuple<const char*, Shape, Shape, size_t>;
  for (const auto& [equation, first, second, weight] :
       {Case{"bij,jk->bik", {2, 3, 5}, {5, 4}, 1}, Case{"bij,kj->bik", {2, 3, 5}, {4, 5}, 1},
        Case{"...j, jk -> ...k", {2, 6, 3, 5}, {5, 4}, 1}, Case{"bjt,jk->kbt", {2, 5, 3}, {5, 4}, 1},
        Case{"kj,b...j->b...k", {4, 5}, {2, 3, 6, 5}, 0}, Case{"j,jk->k", {5}, {5, 4}, 1},
        Case{"abc,cde->abde", {2, 3, 5}, {5, 4, 2}, 1}, Case{"abcd,cde->abe", {2, 3, 4, 5}, {4, 5, 6}, 1},
        Case{"hdc,abc->ahbd", {2, 4, 5}, {3, 6, 5}, 0}, Case{"acdb,dec->bea", {2, 3, 4, 5}, {4, 6, 3}, 1}})
    expect_layer({"Einsum", {first, second}, weight, {{"equation", equation}}});
}

TEST(OnnxLayers, EinsumOfIntegersIsExact) {
  constexpr int64_t kLarge = (int64_t{1} << 40) + 1;  // more than a float holds
  const auto result = [](const char* equation) {
    OnnxModelForTest model(17);
    model.constant<int64_t>("w", {2, 3}, {kLarge, 2, 3, 4, 5, 6});
    model.input("x", {1, 3}, onnx::TensorProto::INT64);
    model.output("y", {}, onnx::TensorProto::INT64);
    model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    model.node("Einsum", {"x", "w"}, {"y"}, {{"equation", equation}});
    return IntegerExecutor()
        .compile(import_onnx(model.write()))
        ->run(std::vector{Tensor::from<int64_t>({1, 3}, {1, 1, 2})})
        .at(0);
  };
  EXPECT_TRUE(result("bi,ji->bj").equals(Tensor::from<int64_t>({1, 2}, {kLarge + 8, 21})));
  EXPECT_TRUE(result("bi,ji->ij").equals(Tensor::from<int64_t>({3, 2}, {kLarge, 4, 2, 5, 6, 12})));
  EXPECT_TRUE(result("b...,b...").equals(Tensor::from<int64_t>({3}, {kLarge + 4, 7, 18})));
}

TEST(OnnxLayers, OtherSumsOfEinsumAreNoLayers) {
  using Case = std::tuple<const char*, Shape, Shape>;
  for (const auto& [equation, x, w] :
       {Case{"bij,jk->bk", {2, 3, 5}, {5, 4}}, Case{"bj,bj->b", {2, 5}, {2, 5}},
        Case{"bjj,jk->bk", {2, 5, 5}, {5, 4}}, Case{"bi,jk->bik", {2, 3}, {5, 4}},
        Case{"bij,jk", {2, 3, 5}, {5, 4}}}) {
    OnnxModelForTest model(17);
    model.constant("w", w, wave(element_count(w), 0));
    model.input("x", x);
    model.output("y");
    model.node("Einsum", {"x", "w"}, {"y"}, {{"equation", equation}});
    const Graph graph = import_onnx(model.write());
    EXPECT_EQ(std::ranges::count_if(graph.nodes(), is_weighted_sum), 0) << equation;
  }
}

/// A sum of one product, as angles of rotary positions are, has nothing to sum; matrices that broadcast are
/// the weights of no layer.
TEST(OnnxLayers, OtherConstantsAreFactors) {
  for (const auto& [weight, x] :
       {std::pair(Shape{4, 1}, Shape{2, 1, 3}), std::pair(Shape{2, 3, 4}, Shape{4, 5})}) {
    OnnxModelForTest model(17);
    model.constant("w", weight, wave(element_count(weight), 0));
    model.input("x", x);
    model.output("y");
    model.node("MatMul", {"w", "x"}, {"y"});
    const Graph graph = import_onnx(model.write());
    EXPECT_EQ(std::ranges::count_if(graph.nodes(), is_weighted_sum), 0);
  }
}

/// Steps of a loop that an exporter wrote out compute some layers again. What else repeats stays, as do
/// layers of other weights or inputs.
TEST(OnnxLayers, ThoseThatRepeatAreComputedOnce) {
  const auto count = [](bool repeats, const char* weight, const char* input) {
    OnnxModelForTest model(17);
    model.constant("w", {4, 3, 1, 1}, wave(12, 0));
    model.constant("other", {4, 3, 1, 1}, wave(12, 5));
    model.input("x", {2, 3, 5, 5});
    model.output("y");
    model.node("Relu", {"x"}, {"a"});
    model.node("Relu", {"x"}, {"b"});
    model.node("Tanh", {"x"}, {"c"});
    if (repeats) {
      model.node("Conv", {"a", "w"}, {"d"});
      model.node("Conv", {input, weight}, {"e"});
    } else {
      model.node("Sigmoid", {"a"}, {"d"});
      model.node("Sigmoid", {input}, {"e"});
    }
    model.node("Add", {"d", "e"}, {"y"});
    const Graph graph = import_onnx(model.write());
    const auto is_kept = [](const Node& node) { return is_weighted_sum(node) || node.op == "relu"; };
    return std::ranges::count_if(graph.nodes(), is_kept);
  };
  EXPECT_EQ(count(true, "w", "b"), 2) << "one of each";
  EXPECT_EQ(count(true, "other", "b"), 4) << "another weight";
  EXPECT_EQ(count(true, "w", "c"), 3) << "another input";
  EXPECT_EQ(count(false, "w", "b"), 2) << "no layer";
}

TEST(OnnxLayers, OpenSizesStayOpen) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 3, -2, 5});
  model.output("y");
  model.constant("w", {3, 5, 6}, wave(90, 0));
  model.node("MatMul", {"x", "w"}, {"y"});
  const Graph graph = import_onnx(model.write());
  const auto program = IntegerExecutor().compile(graph);
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 3, 7, 5}}) {
    const Tensor x = Tensor::from(shape, wave(element_count(shape), 1));
    EXPECT_EQ(program->run(std::span(&x, 1)).at(0).shape(), (Shape{shape[0], 3, shape[2], 6}));
  }
}

TEST(OnnxLayers, TransposedConvolutionsOfOneToThreeDimensions) {
  for (const size_t dims : {size_t{1}, size_t{2}, size_t{3}}) {
    Shape x = {2, 4};
    Shape weight = {4, 3};
    for (size_t d = 0; d < dims; ++d) {
      x.push_back(3 + static_cast<int64_t>(d));
      weight.push_back(2);
    }
    const std::vector<int64_t> strides(dims, 2);
    expect_layer({"ConvTranspose", {x, weight}, 1, {{"strides", strides}, {"group", 2}}});
    expect_layer({"ConvTranspose", {x, weight, {6}}, 1, {{"strides", strides}, {"group", 2}}});
  }
}

TEST(OnnxLayers, RowsOfAConstantAreAnEmbedding) {
  const std::tuple<Shape, int, Shape> cases[] = {{{5, 4}, 0, {2, 3}},
                                                 {{5, 2, 3}, 0, {2}},
                                                 {{5, 2, 3}, 0, {2, 2}},
                                                 {{4, 5}, 1, {3}},
                                                 {{4, 5}, -1, {2, 3}}};
  for (const auto& [table, axis, indices] : cases) {
    OnnxModelForTest constant(17);
    OnnxModelForTest given(17);
    const std::vector<float> values = wave(element_count(table), 0);
    constant.constant("table", table, values);
    given.input("table", table);
    for (OnnxModelForTest* model : {&constant, &given}) {
      model->input("i", indices, onnx::TensorProto::INT64);
      model->output("y");
      model->node("Gather", {"table", "i"}, {"y"}, {{"axis", axis}});
    }
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < element_count(indices); ++i) rows.push_back(i % 2 == 0 ? i % 5 : -1 - i % 5);
    const Tensor i = Tensor::from(indices, rows);
    const Graph graph = import_onnx(constant.write());
    EXPECT_TRUE(std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op == "embedding"; }));
    const Tensor actual = IntegerExecutor().compile(graph)->run(std::span(&i, 1)).at(0);
    const Tensor both[] = {Tensor::from(table, values), i};
    EXPECT_TRUE(actual.equals(IntegerExecutor().compile(import_onnx(given.write()))->run(both).at(0)))
        << shape_text(table) << " " << axis;
  }
}

/// Rows 0 to 4 in turns.
class RowNumbers final : public CalibrationSet {
 public:
  int64_t size() const override { return 8; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    Tensor rows(DType::kInt64, {end - begin, 3});
    for (int64_t i = 0; i < rows.numel(); ++i)
      rows.values<int64_t>()[static_cast<size_t>(i)] = (begin + i * 3) % 5;
    return {rows};
  }
  uint64_t fingerprint() const override { return 1; }
};

TEST(OnnxLayers, EmbeddingsHaveAScaleARow) {
  OnnxModelForTest model(17);
  model.input("i", {-1, 3}, onnx::TensorProto::INT64);
  model.output("y");
  model.constant("table", {5, 8}, wave(40, 0));
  model.constant("offset", {3, 8}, wave(24, 1));
  model.constant("w", {8, 4}, wave(32, 2));
  model.node("Gather", {"table", "i"}, {"rows"});
  model.node("Add", {"rows", "offset"}, {"sum"});
  model.node("MatMul", {"sum", "w"}, {"y"});
  PassBench bench(import_onnx(model.write()));
  bench.context.open_calibration = [] { return std::make_unique<RowNumbers>(); };
  const Graph reference = bench.graph;
  bench.run_passes("[passes.static_quantize]\nnum_samples = 8\nreport = false\n");
  int embeddings = 0;
  for (const Node& node : bench.graph.nodes()) {
    if (node.op == "embedding") {
      EXPECT_EQ(node.find_quantization("weight")->granularity, Granularity::kChannel);
      EXPECT_EQ(std::get<Affine>(node.find_quantization("weight")->format).scale.size(), 5U);
      ++embeddings;
    }
    if (node.op == "get_attr") {
      EXPECT_NE(node.find_quantization("value"), nullptr) << "stored as codes";
    }
  }
  EXPECT_EQ(embeddings, 1);
  EXPECT_THAT(bench.reported, Not(HasSubstr("weights in float32")));
  EXPECT_GT(analyze_layerwise_error(reference, bench.graph, 8, bench.context).output_sqnr_db, 30);
  const std::vector<Tensor> rows = RowNumbers().inputs(0, 8);
  const Tensor expected = IntegerExecutor().compile(bench.graph)->run(rows).at(0);
  for (const OnnxStyle style : {OnnxStyle::kQdq, OnnxStyle::kQOperator}) {
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = style});
    EXPECT_TRUE(expected.equals(IntegerExecutor().compile(import_onnx(file.get()))->run(rows).at(0)));
  }
}

TEST(OnnxLayers, WeightsThatStayInFloatAreNamed) {
  GraphBuilder b("recurrent");
  const NodeInput x = b.linear("fc", b.input("x", {4, 6}), 6, 6);
  PassBench bench(b.finish(b.layer("layer_norm", "norm", {x}, {{"weight", {4, 6}}, {"bias", {4, 6}}},
                                   {{"normalized_shape", List{Value(4), Value(6)}}})));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 8\nreport = false\n");
  EXPECT_THAT(bench.reported, HasSubstr("weights in float32: 192 of"));
  EXPECT_THAT(bench.reported, HasSubstr("norm.weight (layer_norm, 96"));
}

/// Codes of weights are written once, without a rounding of their own, and are codes when they are read
/// again.
TEST(OnnxLayers, WeightsOfRecurrentLayersAreWrittenAsCodes) {
  for (const char* format : {"int8", "int4_g2", "fp8_e4m3fn", "mx_e4m3"}) {
    SCOPED_TRACE(format);
    GraphBuilder b("recurrent");
    const NodeInput x = b.input("x", {5, 8});
    PassBench bench(b.finish(b.call("gru", {x, b.parameter("w", {1, 12, 8}), b.parameter("r", {1, 12, 4})},
                                    {{"hidden_size", 4}, {"batch_first", true}})));
    bench.run_passes(
        fmt::format("[passes.static_quantize]\nnum_samples = 8\nreport = false\nweights = \"{}\"\n", format));
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQdq});
    const std::vector<Tensor> inputs = RandomSamples(bench.sample_shape()).inputs(0, 8);
    const Graph imported = import_onnx(file.get());
    const std::vector<Tensor> expected = IntegerExecutor().compile(bench.graph)->run(inputs);
    EXPECT_TRUE(expected.at(0).equals(IntegerExecutor().compile(imported)->run(inputs).at(0)));
    const TemporaryPath again("again.onnx");
    export_onnx(imported, again.get(), {.style = OnnxStyle::kQdq});
    for (const TemporaryPath* written : {&file, &again}) {
      onnx::ModelProto model;
      std::ifstream stream(written->get(), std::ios::binary);
      ASSERT_TRUE(model.ParseFromIstream(&stream));
      for (const onnx::NodeProto& node : model.graph().node()) EXPECT_NE(node.op_type(), "QuantizeLinear");
      for (const onnx::TensorProto& tensor : model.graph().initializer())
        EXPECT_FALSE(tensor.data_type() == onnx::TensorProto::FLOAT && tensor.dims_size() == 3 &&
                     tensor.dims(2) > 2)
            << tensor.name();
    }
  }
}

}  // namespace
}  // namespace detent
