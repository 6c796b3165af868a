#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "detent/engine/fast_executor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"

#include "detent/onnx/model_for_test.h"

// Import of constants: quantizers of those that are quantized, and the numbers that follow from others.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kBeyondDouble = (int64_t{1} << 53) + 1;

void add_value(onnx::NodeProto& node, const onnx::TensorProto& tensor) {
  auto& value = *node.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = tensor;
}

Tensor random_tensor(const Shape& shape, uint32_t seed) {
  Tensor tensor(DType::kFloat32, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values<float>()) value = normal(random);
  return tensor;
}

Tensor reversed(const Tensor& tensor) {
  StridedView view = StridedView::of(tensor.shape());
  std::ranges::reverse(view.shape);
  std::ranges::reverse(view.strides);
  return gathered(tensor, view);
}

size_t quantizer_count(const Graph& graph) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) count += node.quantization.size();
  return count;
}

Tensor simulated_result(const Graph& graph, const std::vector<Tensor>& inputs) {
  Tensor result = IntegerExecutor().compile(graph)->run(inputs).at(0);
  if (quantizer_count(graph) == 0) {
    EXPECT_TRUE(IntegerExecutor().compile(graph)->run(inputs).at(0).equals(result) ||
                is_floating_point(result.dtype()))
        << "the reference differs";
  }
  return result;
}

/// Scales and zero points of a constant, one or one for each place of a dimension.
struct Scales {
  Floats scale;
  std::vector<int8_t> zero;
  int64_t axis = 0;

  QuantSpec spec() const {
    QuantSpec spec;
    spec.format = Affine{.width = 8, .scale = scale, .zero_point = {zero.begin(), zero.end()}};
    if (scale.size() > 1) spec.granularity = Granularity::kChannel;
    spec.axis = axis;
    return spec;
  }
};

/// A model with a constant that is quantized and dequantized, or rounded already.
class ConstantModel : public OnnxModelForTest {
 public:
  ConstantModel() : OnnxModelForTest(13) {}

  void floats(const std::string& name, const Tensor& tensor) {
    const auto values = tensor.values<float>();
    constant(name, tensor.shape(), Floats(values.begin(), values.end()));
  }
  void scales(const Scales& of) {
    const Ints dims = of.scale.size() == 1 ? Ints{} : Ints{std::ssize(of.scale)};
    constant("scale", dims, of.scale);
    constant("zero", dims, of.zero);
  }
  void quantize(const std::string& from, const std::string& to, int64_t axis) {
    node("QuantizeLinear", {from, "scale", "zero"}, {to}, {{"axis", static_cast<int>(axis)}});
  }
  void dequantize(const std::string& from, const std::string& to, int64_t axis) {
    node("DequantizeLinear", {from, "scale", "zero"}, {to}, {{"axis", static_cast<int>(axis)}});
  }
  Graph import() const { return import_onnx(write(), {.shapes = {}, .frees_batch = false}); }
};

/// Who reads the constant, "c".
struct Reader {
  const char* name;
  Shape constant;
  Shape x;
  std::function<void(ConstantModel&)> add;
};

std::vector<Reader> readers() {
  const auto op = [](const char* name, const std::vector<std::string>& inputs,
                     const std::vector<OnnxAttribute>& attributes = {}) {
    return [=](ConstantModel& model) { model.node(name, inputs, {"y"}, attributes); };
  };
  return {
      {"weight of Conv", {4, 2, 3, 3}, {1, 2, 5, 5}, op("Conv", {"x", "c"})},
      {"bias of Conv",
       {4},
       {1, 2, 5, 5},
       [](ConstantModel& model) {
         model.floats("w", random_tensor({4, 2, 3, 3}, 7));
         model.node("Conv", {"x", "w", "c"}, {"y"});
       }},
      {"MatMul, right", {6, 4}, {2, 6}, op("MatMul", {"x", "c"})},
      {"MatMul, left", {4, 6}, {6, 3}, op("MatMul", {"c", "x"})},
      {"MatMul, batches", {2, 6, 4}, {2, 3, 6}, op("MatMul", {"x", "c"})},
      {"Gemm", {4, 6}, {2, 6}, op("Gemm", {"x", "c"}, {{"transB", 1}})},
      {"bias of Gemm",
       {4},
       {2, 6},
       [](ConstantModel& model) {
         model.floats("w", random_tensor({6, 4}, 7));
         model.node("Gemm", {"x", "w", "c"}, {"y"});
       }},
      {"Add", {4, 6}, {4, 6}, op("Add", {"x", "c"})},
      {"Mul", {4, 6}, {2, 4, 6}, op("Mul", {"c", "x"})},
      {"Sub", {4, 1}, {4, 6}, op("Sub", {"c", "x"})},
      {"Concat", {4, 6}, {4, 6}, op("Concat", {"x", "c"}, {{"axis", 1}})},
      {"PRelu", {4, 6}, {4, 6}, op("PRelu", {"x", "c"})},
      {"Add twice, also as it is",
       {4, 6},
       {4, 6},
       [](ConstantModel& model) {
         model.node("Add", {"x", "c"}, {"sum"});
         model.node("Mul", {"sum", "given"}, {"product"});
         model.node("Sub", {"product", "c"}, {"y"});
       }},
  };
}

/// How the constant comes to be rounded to "c": from `given`, an initializer.
struct Way {
  const char* name;
  std::function<void(ConstantModel&, const Tensor& given, const Scales&)> add;
};

// NOLINTNEXTLINE(readability-function-size): a list
std::vector<Way> ways() {
  return {
      {"an initializer",
       [](ConstantModel& model, const Tensor&, const Scales& scales) {
         model.quantize("given", "q", scales.axis);
         model.dequantize("q", "c", scales.axis);
       }},
      {"a Constant node, Identity",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         const auto values = given.values<float>();
         add_value(model.node("Constant", {}, {"v"}),
                   onnx_tensor("", given.shape(), Floats(values.begin(), values.end())));
         model.node("Identity", {"v"}, {"i"});
         model.quantize("i", "q", scales.axis);
         model.node("Identity", {"q"}, {"qi"});
         model.dequantize("qi", "d", scales.axis);
         model.node("Identity", {"d"}, {"c"});
       }},
      {"Transpose before",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         model.floats("t", reversed(given));
         model.node("Transpose", {"t"}, {"v"});
         model.quantize("v", "q", scales.axis);
         model.dequantize("q", "c", scales.axis);
       }},
      {"Transpose of codes",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         model.floats("t", reversed(given));
         model.quantize("t", "q", given.rank() - 1 - scales.axis);
         model.node("Transpose", {"q"}, {"qt"});
         model.dequantize("qt", "c", scales.axis);
       }},
      {"Transpose after",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         model.floats("t", reversed(given));
         model.quantize("t", "q", given.rank() - 1 - scales.axis);
         model.dequantize("q", "d", given.rank() - 1 - scales.axis);
         model.node("Transpose", {"d"}, {"c"});
       }},
      {"Reshape after Unsqueeze",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         model.constant("one", {1}, Ints{1});
         model.constant("shape", {given.rank()}, Ints(given.shape()));
         model.quantize("given", "q", scales.axis);
         model.dequantize("q", "d", scales.axis);
         model.node("Unsqueeze", {"d", "one"}, {"u"});
         model.node("Reshape", {"u", "shape"}, {"c"});
       }},
      {"Squeeze of codes, a constant that folding makes",
       [](ConstantModel& model, const Tensor& given, const Scales& scales) {
         model.constant("zero_axis", {1}, Ints{0});
         model.constant("half", {}, Floats{0.5F});
         Tensor twice = given.clone();
         for (float& value : twice.values<float>()) value *= 2;
         model.floats("twice", twice);
         model.node("Mul", {"twice", "half"}, {"v"});
         model.node("Unsqueeze", {"v", "zero_axis"}, {"u"});
         model.quantize("u", "q", scales.axis + 1);
         model.node("Squeeze", {"q", "zero_axis"}, {"qs"});
         model.dequantize("qs", "c", scales.axis);
       }},
  };
}

/// Whatever reads the constant and however it is written, it is what the codes stand for, and these are kept.
TEST(OnnxConstants, ThatAreQuantizedHaveAQuantizer) {
  for (const Reader& reader : readers()) {
    const Tensor given = random_tensor(reader.constant, 3);
    const Scales one = {.scale = {0.03F}, .zero = {13}};
    Scales several = {.scale = {}, .zero = {}};
    for (int64_t i = 0; i < given.dim(0); ++i) {
      several.scale.push_back(0.01F + 0.02F * static_cast<float>(i));
      several.zero.push_back(static_cast<int8_t>(5 * i - 7));
    }
    for (const Scales& scales : {one, several}) {
      const Tensor rounded = fake_quantize(scales.spec(), given);
      ASSERT_FALSE(rounded.equals(given));
      const Tensor x = random_tensor(reader.x, 4);
      const auto describe = [&](ConstantModel& model) {
        model.input("x", reader.x);
        model.output("y");
        model.floats("given", given);
      };
      ConstantModel plain;
      describe(plain);
      plain.floats("c", rounded);
      reader.add(plain);
      const Tensor expected = simulated_result(plain.import(), {x});
      for (const Way& way : ways()) {
        SCOPED_TRACE(fmt::format("{}, {}, {} scales", reader.name, way.name, scales.scale.size()));
        ConstantModel model;
        describe(model);
        model.scales(scales);
        way.add(model, given, scales);
        reader.add(model);
        Graph graph = model.import();
        EXPECT_GT(quantizer_count(graph), 0U) << "the format is lost";
        graph.set_requantization(std::nullopt);
        EXPECT_TRUE(simulated_result(graph, {x}).equals(expected));
        export_onnx(graph, model.folder / "again.onnx", {.style = OnnxStyle::kQdq});
        Graph again = import_onnx(model.folder / "again.onnx", {.shapes = {}, .frees_batch = false});
        EXPECT_GT(quantizer_count(again), 0U) << "the format is lost in a file";
        again.set_requantization(std::nullopt);
        EXPECT_TRUE(simulated_result(again, {x}).equals(expected)) << "written and read";
      }
    }
  }
}

/// Rows of a constant, by indices that are an input.
TEST(OnnxConstants, RowsOfAQuantizedMatrixAreRounded) {
  ConstantModel model;
  model.input("ids", {3}, onnx::TensorProto::INT64);
  model.output("y");
  const Tensor given = random_tensor({5, 4}, 3);
  const Scales scales = {.scale = {0.05F}, .zero = {0}};
  model.floats("given", given);
  model.scales(scales);
  model.quantize("given", "q", 0);
  model.dequantize("q", "c", 0);
  model.node("Gather", {"c", "ids"}, {"y"});
  const Tensor rows = simulated_result(model.import(), {Tensor::from<int64_t>({3}, Ints{4, 0, 2})});
  const Tensor rounded = fake_quantize(scales.spec(), given);
  for (int64_t i = 0; const int64_t row : {4, 0, 2}) {
    EXPECT_TRUE(rows.rows(i, i + 1).equals(rounded.rows(row, row + 1))) << row;
    ++i;
  }
}

/// Opset 21: a scale for each three columns of a row.
TEST(OnnxConstants, BlocksOfAQuantizedMatrixHaveScales) {
  ConstantModel model;
  model.proto.mutable_opset_import(0)->set_version(21);
  model.input("x", {2, 6});
  model.output("y");
  const Tensor given = random_tensor({4, 6}, 3);
  const Floats scale = {0.01F, 0.02F, 0.03F, 0.04F, 0.05F, 0.06F, 0.07F, 0.08F};
  model.floats("given", given);
  model.constant("scale", {4, 2}, scale);
  model.constant("zero", {4, 2}, std::vector<int8_t>(8, 3));
  const std::vector<OnnxAttribute> blocks = {{"axis", 1}, {"block_size", 3}};
  model.node("QuantizeLinear", {"given", "scale", "zero"}, {"q"}, blocks);
  model.node("DequantizeLinear", {"q", "scale", "zero"}, {"c"}, blocks);
  model.node("Gemm", {"x", "c"}, {"y"}, {{"transB", 1}});
  const Graph graph = model.import();
  const auto linear = std::ranges::find(graph.nodes(), "linear", &Node::op);
  ASSERT_NE(linear, graph.nodes().end());
  const QuantSpec* spec = linear->find_quantization("weight");
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(spec->granularity, Granularity::kGroup);
  const Tensor& weight = linear->find_parameter("weight")->tensor;
  for (size_t i = 0; i < 24; ++i) {
    const float step = scale[i / 3];
    const float code = std::clamp(std::nearbyint(given.values<float>()[i] / step) + 3, -128.0F, 127.0F);
    EXPECT_EQ(weight.values<float>()[i], (code - 3) * step) << i;
  }
  EXPECT_TRUE(fake_quantize(*spec, weight).equals(weight));
}

/// Results of a model of constants, with an input that has no part in it.
std::vector<Tensor> results_of(OnnxModelForTest& model) {
  model.input("unused", {1});
  const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
  const std::vector<Tensor> unused = {Tensor(DType::kFloat32, {1})};
  const std::vector<Tensor> results = IntegerExecutor().compile(graph)->run(unused);
  const std::vector<Tensor> simulated = IntegerExecutor().compile(graph)->run(unused);
  for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(results[i].equals(simulated[i])) << i;
  return results;
}

std::vector<int64_t> integers(const Tensor& tensor) {
  return {tensor.values<int64_t>().begin(), tensor.values<int64_t>().end()};
}

/// 2^53 + 1 and 2^63 - 1, which no double holds.
TEST(OnnxConstants, IntegersAreFoldedAsIntegers) {
  OnnxModelForTest model(13);
  model.constant("a", {3}, Ints{kBeyondDouble, kMost, kLeast});
  model.constant("b", {3}, Ints{1, 1, -1});
  model.constant("axes", {1}, Ints{0});
  model.constant("three", {1}, Ints{3});
  model.node("Unsqueeze", {"a", "axes"}, {"u"});
  model.node("Concat", {"a", "b"}, {"cat"}, {{"axis", 0}});
  model.node("Add", {"a", "b"}, {"sum"});
  model.node("Mul", {"a", "a"}, {"square"});
  model.node("Div", {"a", "b"}, {"quotient"});
  model.node("Mod", {"a", "three"}, {"rest"});
  model.node("Sub", {"b", "a"}, {"difference"});
  for (const char* name : {"u", "cat", "sum", "square", "quotient", "rest", "difference"}) model.output(name);
  const std::vector<Tensor> results = results_of(model);
  EXPECT_THAT(integers(results[0]), ElementsAre(kBeyondDouble, kMost, kLeast));
  EXPECT_THAT(integers(results[1]), ElementsAre(kBeyondDouble, kMost, kLeast, 1, 1, -1));
  EXPECT_THAT(integers(results[2]), ElementsAre(kBeyondDouble + 1, kLeast, kMost));
  EXPECT_THAT(integers(results[3]), ElementsAre((int64_t{1} << 54) + 1, 1, 0));
  EXPECT_THAT(integers(results[4]), ElementsAre(kBeyondDouble, kMost, kLeast)) << "-2^63 / -1 wraps";
  EXPECT_THAT(integers(results[5]), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(results[6]), ElementsAre(-(int64_t{1} << 53), kLeast + 2, kMost));
}

TEST(OnnxConstants, ShapesAndRangesHoldAnyInteger) {
  OnnxModelForTest model(13);
  model.constant("two", {1}, Ints{2});
  model.constant("start", {}, Ints{kMost - 2});
  model.constant("limit", {}, Ints{kMost});
  model.constant("one", {}, Ints{1});
  add_value(model.node("ConstantOfShape", {"two"}, {"full"}), onnx_tensor<int64_t>("", {1}, {kBeyondDouble}));
  model.node("Range", {"start", "limit", "one"}, {"range"});
  model.output("full");
  model.output("range");
  const std::vector<Tensor> results = results_of(model);
  EXPECT_THAT(integers(results[0]), ElementsAre(kBeyondDouble, kBeyondDouble));
  EXPECT_THAT(integers(results[1]), ElementsAre(kMost - 2, kMost - 1));
}

/// Exporters write INT64_MAX where all of a dimension, or all boxes, are meant.
TEST(OnnxConstants, TheLargestIntegerIsAPositionAndALimit) {
  OnnxModelForTest model(13);
  model.input("x", {4, 5});
  model.input("boxes", {1, 2, 4});
  model.input("scores", {1, 1, 2});
  model.output("rest");
  model.output("kept");
  model.constant("most", {}, Ints{kMost});
  model.constant("axes", {1}, Ints{0});
  model.constant("one", {1}, Ints{1});
  model.constant("overlap", {}, Floats{0.5F});
  model.node("Unsqueeze", {"most", "axes"}, {"end"});
  model.node("Slice", {"x", "one", "end"}, {"rest"});
  model.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"kept"});
  const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
  const std::vector<Tensor> inputs = {random_tensor({4, 5}, 1),
                                      Tensor::from({1, 2, 4}, Floats{0, 0, 1, 1, 2, 2, 3, 3}),
                                      Tensor::from({1, 1, 2}, Floats{0.9F, 0.8F})};
  for (const std::vector<Tensor>& results :
       {IntegerExecutor().compile(graph)->run(inputs), FastExecutor().compile(graph)->run(inputs)}) {
    EXPECT_EQ(results[0].shape(), (Shape{3, 5}));
    EXPECT_EQ(results[1].shape(), (Shape{2, 3}));
  }
}

TEST(OnnxConstants, PowersMixTypes) {
  OnnxModelForTest model(13);
  model.input("x", {3}, onnx::TensorProto::INT64);
  model.input("e", {3});
  model.output("roots");
  model.output("powers");
  model.constant("half", {}, Floats{0.5F});
  model.constant("base", {}, Ints{2});
  model.node("Pow", {"x", "half"}, {"roots"});
  model.node("Pow", {"base", "e"}, {"powers"});
  const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
  const std::vector<Tensor> inputs = {Tensor::from<int64_t>({3}, Ints{4, 9, 17}),
                                      Tensor::from({3}, Floats{0, 3, 0.5F})};
  for (const std::vector<Tensor>& results :
       {IntegerExecutor().compile(graph)->run(inputs), FastExecutor().compile(graph)->run(inputs)}) {
    EXPECT_THAT(integers(results[0]), ElementsAre(2, 3, 4));
    EXPECT_THAT(integers(results[1]), ElementsAre(1, 8, 1));
  }
}

/// As torch.onnx writes expand and assignments to an element: a size of -1 would stand for 1.
TEST(OnnxConstants, SizesThatAreChosenByWhereAreKnown) {
  OnnxModelForTest model(17);
  model.input("x", {10, 10});
  model.output("y");
  model.constant("two", {1}, Ints{2});
  model.constant("most", {1}, Ints{kMost});
  model.constant("zero", {1}, Ints{0});
  model.constant("ones", {2}, Ints{1, 1});
  model.constant("minus", {}, Ints{-1});
  model.node("ReduceSum", {"x"}, {"s"}, {{"keepdims", 0}});
  model.node("Shape", {"x"}, {"sizes"});
  model.node("Slice", {"sizes", "two", "most", "zero"}, {"tail"});
  model.node("Concat", {"ones", "tail"}, {"shape"}, {{"axis", 0}});
  model.node("Shape", {"shape"}, {"n"});
  add_value(model.node("ConstantOfShape", {"n"}, {"c1"}), onnx_tensor<int64_t>("", {1}, {1}));
  model.node("Mul", {"c1", "minus"}, {"cm"});
  model.node("Equal", {"shape", "cm"}, {"eq"});
  model.node("Where", {"eq", "c1", "shape"}, {"w"});
  model.node("Expand", {"s", "w"}, {"e"});
  model.node("Reshape", {"e", "shape"}, {"r"});
  model.node("Add", {"x", "r"}, {"y"});
  const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
  Tensor x(DType::kFloat32, {10, 10});
  std::iota(x.values<float>().begin(), x.values<float>().end(), 0.0F);
  const Tensor y = simulated_result(graph, {x});
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.values<float>()[3], 3.0F + 4950);
}

/// As torch.onnx writes pad: of the last dimension first, turned around as a matrix.
TEST(OnnxConstants, BordersAreTurnedAround) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2, 5});
  model.output("y");
  model.constant("four", {1}, Ints{4});
  model.constant("given", {2}, Ints{3, 1});
  model.constant("pairs", {2}, Ints{-1, 2});
  model.constant("last", {1}, Ints{-1});
  model.constant("end", {1}, Ints{kLeast + 1});
  model.constant("axis", {1}, Ints{0});
  model.constant("w", {3, 2, 2}, Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  add_value(model.node("ConstantOfShape", {"four"}, {"zeros"}), onnx_tensor<int64_t>("", {1}, {0}));
  model.node("Concat", {"given", "zeros"}, {"all"}, {{"axis", 0}});
  model.node("Reshape", {"all", "pairs"}, {"matrix"});
  model.node("Slice", {"matrix", "last", "end", "axis", "last"}, {"turned"});
  model.node("Transpose", {"turned"}, {"columns"}, {{"perm", Ints{1, 0}}});
  model.node("Reshape", {"columns", "last"}, {"pads"});
  model.node("Pad", {"x", "pads"}, {"padded"});
  model.node("Conv", {"padded", "w"}, {"y"});
  const Graph graph = import_onnx(model.write());
  const auto is_pad = [](const Node& node) {
    return node.op == "pad" && *node.attributes.find("pad") == Value(List{3, 1, 0, 0, 0, 0});
  };
  EXPECT_TRUE(std::ranges::any_of(graph.nodes(), is_pad));
  const std::vector<Tensor> inputs = {random_tensor({1, 2, 5}, 3)};
  EXPECT_EQ(FastExecutor().compile(graph)->run(inputs)[0].shape(), (Shape{1, 3, 8}));
}

/// Positions that windows leave over are 0 for the sizes that import tries, multiples of their stride, not
/// for others.
TEST(OnnxConstants, WhatWindowsLeaveOverIsNoConstant) {
  OnnxModelForTest model(17);
  model.input("x", {1, 1, -2});
  model.output("y");
  model.constant("w", {1, 1, 4}, Floats{1, 0, 0, 0});
  model.constant("four", {1}, Ints{4});
  model.constant("zeros", {5}, Ints{0, 0, 0, 0, 0});
  model.node("Conv", {"x", "w"}, {"windows"}, {{"strides", Ints{4}}});
  model.node("ConvTranspose", {"windows", "w"}, {"again"}, {{"strides", Ints{4}}});
  model.node("Shape", {"x"}, {"length"}, {{"start", 2}});
  model.node("Shape", {"windows"}, {"count"}, {{"start", 2}});
  model.node("Mul", {"count", "four"}, {"covered"});
  model.node("Sub", {"length", "covered"}, {"rest"});
  model.node("Concat", {"zeros", "rest"}, {"pads"}, {{"axis", 0}});
  model.node("Pad", {"again", "pads"}, {"y"});
  const Graph graph = import_onnx(model.write());
  for (const int64_t length : {64, 66}) {
    const std::vector<Tensor> inputs = {random_tensor({1, 1, length}, 3)};
    EXPECT_EQ(FastExecutor().compile(graph)->run(inputs)[0].shape(), (Shape{1, 1, length}));
  }
}

/// A constant of 2 MiB, and others that are computed one of the last; the
/// network reads the last of these, or each of them.
Graph chain_of_constants(bool reads_all) {
  constexpr int kSteps = 40;
  OnnxModelForTest model(17);
  model.input("x", {1, 1024, 512});
  model.output("y");
  model.constant("factor", {1}, Floats{1.01F});
  model.constant("column", {1, 1024, 1}, Floats(1024, 0.5F));
  model.constant("row", {1, 1, 512}, Floats(512, 2.0F));
  model.node("Sub", {"column", "row"}, {"v0"});
  std::string sum = "x";
  for (int i = 0; i < kSteps; ++i) {
    const std::string next = fmt::format("v{}", i + 1);
    model.node("Mul", {fmt::format("v{}", i), "factor"}, {next});
    if (!reads_all && i + 1 < kSteps) continue;
    model.node("Add", {sum, next}, {next + "_sum"});
    sum = next + "_sum";
  }
  model.node("GlobalMaxPool", {sum}, {"y"});
  return import_onnx(model.write());
}

int64_t count_products(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) { return node.op == "mul"; });
}

TEST(OnnxConstants, ThoseThatNothingReadsMakeRoomForOthers) {
  EXPECT_EQ(count_products(chain_of_constants(false)), 0);
}

TEST(OnnxConstants, ThoseThatTheNetworkKeepsAreBounded) {
  const int64_t left = count_products(chain_of_constants(true));
  EXPECT_GT(left, 20);
  EXPECT_LT(left, 40);
}

/// Nodes go while it is known what others are at other sizes.
TEST(OnnxConstants, MakeRoomBetweenSumsOfOpenSizes) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2});
  model.output("y");
  model.constant("column", {1024, 1}, Floats(1024, 0.5F));
  model.constant("row", {1, 512}, Floats(512, 2.0F));
  model.node("Sub", {"column", "row"}, {"v0"});
  const auto chain = [&](const char* name, int from, int to) {
    for (int i = from; i < to; ++i)
      model.node("Neg", {fmt::format("{}{}", name, i)}, {fmt::format("{}{}", name, i + 1)});
  };
  constexpr int kSteps = 20;
  chain("v", 0, kSteps / 2);
  model.node("Shape", {"x"}, {"s0"});
  model.node("Sub", {"s0", "s0"}, {"none"});
  chain("v", kSteps / 2, kSteps);
  chain("s", 0, kSteps);
  model.node("Sub", {"s20", "s20"}, {"nothing"});
  model.node("ReduceMax", {"v20"}, {"most"}, {{"keepdims", 0}});
  model.node("Add", {"none", "nothing"}, {"zeros"});
  model.node("Cast", {"zeros"}, {"floats"}, {{"to", 1}});
  model.node("ReduceSum", {"floats"}, {"zero"}, {{"keepdims", 0}});
  model.node("Add", {"x", "most"}, {"sum"});
  model.node("Add", {"sum", "zero"}, {"y"});
  const std::vector<Tensor> inputs = {Tensor::from({1, 2}, Floats{3, 4})};
  const Tensor result = FastExecutor().compile(import_onnx(model.write()))->run(inputs)[0];
  EXPECT_EQ(result.values<float>()[1], 2.5F);
}

/// An exporter's index of all rows and one column, as it writes it: places of ones, more of them than sizes
/// may have elements.
TEST(OnnxConstants, HaveKnownPlaces) {
  constexpr int64_t kRows = 3000;
  OnnxModelForTest model(17);
  model.input("x", {1, kRows, 2});
  model.output("y");
  model.constant("ones", {kRows}, Floats(kRows, 1));
  model.constant<int64_t>("last", {1, 1}, {1});
  model.constant<int64_t>("pairs", {2}, {kRows, 1});
  model.constant<int64_t>("first", {1}, {0});
  model.node("NonZero", {"ones"}, {"places"});
  model.node("Transpose", {"places"}, {"rows"});
  model.node("Expand", {"last", "pairs"}, {"columns"});
  model.node("Concat", {"rows", "columns"}, {"both"}, {{"axis", 1}});
  model.node("Unsqueeze", {"both", "first"}, {"index"});
  model.node("GatherND", {"x", "index"}, {"y"}, {{"batch_dims", 1}});
  const Graph graph = import_onnx(model.write());
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, "nonzero");
  EXPECT_EQ(infer_shapes(graph).at("output").shape, (Shape{1, kRows}));
}

/// Weights of queries, keys and values in one tensor.
TEST(OnnxConstants, PartsOfAConstantAreWeights) {
  OnnxModelForTest model(17);
  model.input("x", {2, 3});
  model.output("y");
  model.output("z");
  model.constant("w", {3, 4}, Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  model.constant("sizes", {2}, Ints{1, 3});
  model.node("Split", {"w", "sizes"}, {"a", "b"}, {{"axis", 1}});
  model.node("MatMul", {"x", "a"}, {"y"});
  model.node("MatMul", {"x", "b"}, {"z"});
  const Graph graph = import_onnx(model.write());
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op, "split");
  const std::vector<Tensor> inputs = {Tensor::from({2, 3}, Floats{1, 0, 0, 0, 1, 0})};
  const std::vector<Tensor> results = FastExecutor().compile(graph)->run(inputs);
  EXPECT_THAT(results[0].values<float>(), ElementsAre(1, 5));
  EXPECT_THAT(results[1].values<float>(), ElementsAre(2, 3, 4, 6, 7, 8));
}

/// Exporters write tables as functions of constants: a kernel of resampling, sines of positions.
TEST(OnnxConstants, OfElementwiseFunctionsAreComputedOnce) {
  OnnxModelForTest model(17);
  model.input("x", {1, 1, 8});
  model.output("y");
  model.constant<float>("places", {1, 1, 3}, {-1, 0, 1});
  model.constant<float>("low", {}, {-0.5F});
  model.constant<float>("zero", {}, {0});
  model.constant<float>("one", {}, {1});
  model.node("Sin", {"places"}, {"s"});
  model.node("Div", {"s", "places"}, {"d"});
  model.node("Equal", {"places", "zero"}, {"e"});
  model.node("Where", {"e", "one", "d"}, {"w"});
  model.node("Clip", {"w", "low"}, {"k"});
  model.node("Conv", {"x", "k"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(std::ranges::count(graph.nodes(), "conv1d", &Node::op), 1) << "a layer with a weight";
  EXPECT_EQ(graph.nodes().size(), 3);
  const float side = std::sin(1.0F);
  const std::vector<Tensor> inputs = {Tensor::from<float>({1, 1, 8}, std::vector<float>(8, 1))};
  EXPECT_NEAR(IntegerExecutor().compile(graph)->run(inputs).at(0).values<float>()[0], 1 + 2 * side, 1e-6);
}

/// A convolution whose weight nodes of the model make of constants, on an input of ones.
Graph network_of_computed_weight(OnnxModelForTest& model) {
  model.input("x", {-1, 3, 1});
  model.output("y");
  model.node("Conv", {"x", "w"}, {"y"});
  return import_onnx(model.write());
}

/// The results of a network that is one layer.
Floats results_of_layer(const Graph& graph) {
  EXPECT_EQ(std::ranges::count(graph.nodes(), "conv1d", &Node::op), 1) << "a layer with a weight";
  EXPECT_EQ(graph.nodes().size(), 3);
  const std::vector<Tensor> inputs = {Tensor::from<float>({1, 3, 1}, Floats(3, 1))};
  const Tensor results = IntegerExecutor().compile(graph)->run(inputs).at(0);
  return {results.values<float>().begin(), results.values<float>().end()};
}

/// Weight normalization (Salimans and Kingma 2016): w = g v / |v|.
TEST(OnnxConstants, NormalizedWeightsAreWeights) {
  OnnxModelForTest model(13);
  model.constant("v", {2, 3, 1}, Floats{2, 3, 6, 0, 3, 4});
  model.constant("g", {2, 1, 1}, Floats{7, 10});
  model.node("ReduceL2", {"v"}, {"norm"}, {{"axes", Ints{1, 2}}});
  model.node("Div", {"v", "norm"}, {"directions"});
  model.node("Mul", {"directions", "g"}, {"w"});
  const Floats results = results_of_layer(network_of_computed_weight(model));
  EXPECT_THAT(results, ElementsAre(testing::FloatEq(11), testing::FloatEq(14)));
}

/// Weight standardization (Qiao et al. 2019) as PyTorch writes it: a batch norm of the weight.
TEST(OnnxConstants, StandardizedWeightsAreWeights) {
  OnnxModelForTest model(15);
  model.constant("v", {1, 2, 3}, Floats{1, 2, 3, 0, 0, 6});
  for (const auto& [name, value] : {std::pair("one", 1.0F), std::pair("zero", 0.0F)})
    model.constant(name, {2}, Floats(2, value));
  model.constant("shape", {3}, Ints{2, 3, 1});
  model.node("BatchNormalization", {"v", "one", "zero", "zero", "one"}, {"s", "mean", "variance"},
             {{"training_mode", 1}, {"epsilon", 0.0F}});
  model.node("Add", {"s", "s"}, {"twice"});
  model.node("Reshape", {"twice", "shape"}, {"w"});
  const Floats results = results_of_layer(network_of_computed_weight(model));
  EXPECT_NEAR(results.at(0), 0, 1e-6);
  EXPECT_NEAR(results.at(1), 0, 1e-6);
}

/// Adapters of low rank (Hu et al. 2021): w + a b.
TEST(OnnxConstants, AdaptedWeightsAreWeights) {
  OnnxModelForTest model(13);
  model.constant("base", {2, 3}, Floats{1, 2, 3, 4, 5, 6});
  model.constant("a", {2, 1}, Floats{1, -1});
  model.constant("b", {1, 3}, Floats{2, 2, 2});
  model.constant("shape", {3}, Ints{2, 3, 1});
  model.node("MatMul", {"a", "b"}, {"ab"});
  model.node("Add", {"base", "ab"}, {"sum"});
  model.node("Reshape", {"sum", "shape"}, {"w"});
  EXPECT_THAT(results_of_layer(network_of_computed_weight(model)), ElementsAre(12, 9));
}

/// Forty products of a matrix with itself, and of as many values as it has elements: not all are computed.
TEST(OnnxConstants, ProductsOfConstantsAreBounded) {
  constexpr int64_t kSize = 512;
  OnnxModelForTest model(13);
  model.input("x", {-1, kSize});
  model.output("y");
  model.constant("v0", {kSize, kSize}, Floats(size_t{kSize} * kSize, 0.001F));
  constexpr int kProducts = 40;
  for (int i = 0; i < kProducts; ++i)
    model.node("MatMul", {fmt::format("v{}", i), "v0"}, {fmt::format("v{}", i + 1)});
  model.node("MatMul", {"x", fmt::format("v{}", kProducts)}, {"y"});
  const Graph graph = import_onnx(model.write());
  const auto is_product = [](const Node& node) { return node.op == "matmul" || node.op == "linear"; };
  EXPECT_GT(std::ranges::count_if(graph.nodes(), is_product), kProducts / 2);
}

/// Each doubles what was there: two numbers become 2^41.
TEST(OnnxConstants, FoldingIsBounded) {
  for (const bool floats : {true, false}) {
    OnnxModelForTest model(13);
    model.input("x", {1});
    model.output("y");
    if (floats) model.constant("v0", {2}, Floats{1, 2});
    if (!floats) model.constant("v0", {2}, Ints{1, 2});
    for (int i = 0; i < 39; ++i) {
      const std::string from = fmt::format("v{}", i);
      model.node("Concat", {from, from}, {fmt::format("v{}", i + 1)}, {{"axis", 0}});
    }
    model.node("Shape", {"v39"}, {"y"});
    const Graph graph = import_onnx(model.write(), {.shapes = {}, .frees_batch = false});
    int64_t bytes = 0;
    for (const Node& node : graph.nodes()) {
      for (const auto& [name, parameter] : node.parameters)
        bytes += static_cast<int64_t>(parameter->tensor.byte_size());
    }
    EXPECT_LT(bytes, int64_t{32} << 20);
  }
}

}  // namespace
}  // namespace detent
