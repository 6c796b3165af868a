#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/traits.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "detent/models/model.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/passes/pass_bench_for_test.h"

// A network written in ONNX's format and read again is the same.

namespace detent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::vector<Tensor> results(const Graph& graph, const Tensor& input) {
  return IntegerExecutor().compile(graph)->run(std::span(&input, 1));
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                  const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].shape(), actual[i].shape()) << what;
    float largest = 0;
    for (size_t e = 0; e < expected[i].values<float>().size(); ++e)
      largest = std::max(largest, std::fabs(expected[i].values<float>()[e] - actual[i].values<float>()[e]));
    EXPECT_TRUE(expected[i].equals(actual[i])) << what << ": the largest difference is " << largest;
  }
}

Graph exported_and_imported(const Graph& graph, const OnnxExportOptions& options = {}) {
  const TemporaryPath file("model.onnx");
  export_onnx(graph, file.get(), options);
  return import_onnx(file.get());
}

class BuiltInModel : public testing::TestWithParam<std::string> {};

TEST_P(BuiltInModel, GivesTheSameBytesWhenImportedAgain) {
  const ModelInfo& model = find_model(GetParam());
  const PassBench bench(model.build(model.sample_shape, model.class_count));
  const Graph imported = exported_and_imported(bench.graph);
  EXPECT_EQ(imported.input_names(), bench.graph.input_names());
  EXPECT_EQ(imported.parameter_count(), bench.graph.parameter_count());
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
  expect_equal(results(bench.graph, input), results(imported, input), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInModel, testing::ValuesIn(model_names()));

std::string export_error(const Graph& graph, const OnnxExportOptions& options) {
  const TemporaryPath file("model.onnx");
  try {
    export_onnx(graph, file.get(), options);
  } catch (const Error& error) {
    EXPECT_FALSE(std::filesystem::exists(file.get()));
    return error.what();
  }
  return "";
}

/// Weights and inputs of every layer.
void quantize_layers(Graph& graph, const QuantSpec& weights, const QuantSpec& inputs) {
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    node.quantization["weight"] = QuantizerRef(weights);
    node.quantization["data_in_0"] = QuantizerRef(inputs);
  }
}

TEST(OnnxExport, QonnxBecomesTheSameQuantizersAgain) {
  const std::pair<const char*, const char*> cases[] = {
      {"affine:width=4,symmetric=true,granularity=channel,axis=0", "affine:width=6,scale=0.125,zero_point=3"},
      {"affine:width=3,symmetric=true,narrow_range=true",
       "affine:width=8,signed=false,scale=0.03,zero_point=100"},
      {"fixed:width=5,frac_width=4", "fixed:width=7,frac_width=3,rounding=floor"},
      {"binary:scaling=per_channel,axis=0", "binary"},
      {"binary", "fixed:width=12,frac_width=8"}};
  for (const auto& [weights, inputs] : cases) {
    PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
    quantize_layers(bench.graph, parse_quant_spec_text(weights), parse_quant_spec_text(inputs));
    const Graph imported = exported_and_imported(bench.graph, {.style = OnnxStyle::kQonnx});
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
    expect_equal(results(bench.graph, input), results(imported, input), weights);
    size_t quantized = 0;
    for (const Node& node : imported.nodes()) {
      if (!is_weighted_sum(node)) continue;
      EXPECT_NE(node.find_quantization("weight"), nullptr) << weights << " " << node.name;
      EXPECT_NE(node.find_quantization("data_in_0"), nullptr) << weights << " " << node.name;
      ++quantized;
    }
    EXPECT_GT(quantized, 2);
    EXPECT_EQ(imported.nodes().size(), bench.graph.nodes().size()) << weights;
  }
}

/// Quant rounds no biases, which the sums take in steps of input scale x weight scale.
TEST(OnnxExport, QonnxHoldsTheBiasesThatSumsTake) {
  const ModelInfo& model = find_model("digits_cnn");
  PassBench bench(model.build(model.sample_shape, model.class_count));
  bench.run_passes(
      "[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\nreport = false\n"
      "weights = \"int3\"\nactivations = \"uint3\"\n");
  const Graph imported = exported_and_imported(bench.graph, {.style = OnnxStyle::kQonnx});
  for (const Node& node : imported.nodes()) {
    if (!is_weighted_sum(node)) continue;
    const SumForm sums = std::get<SumForm>(*node_form(bench.graph.node(node.name), Requantization::kFloat));
    const auto biases = node.find_parameter("bias")->tensor.values<float>();
    for (size_t c = 0; c < biases.size(); ++c)
      EXPECT_EQ(biases[c], static_cast<float>(sums.bias[c]) * sums.scale[c]) << node.name << " " << c;
  }
}

TEST(OnnxExport, QdqComputesTheSameCodesAgain) {
  for (const char* name : {"toy_convnet", "digits_cnn", "resnet20"}) {
    for (const char* keys : {"", "weights = \"int4\"\nactivations = \"uint4\"\nelementwise = \"uint6\""}) {
      const ModelInfo& model = find_model(name);
      PassBench bench(model.build(model.sample_shape, model.class_count));
      bench.run_passes(fmt::format(
          "[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\nreport = false\n{}\n",
          keys));
      const Graph imported = exported_and_imported(bench.graph, {.style = OnnxStyle::kQdq});
      EXPECT_EQ(imported.requantization(), Requantization::kFloat) << name;
      EXPECT_LE(imported.nodes().size(), bench.graph.nodes().size()) << name << ": pairs become quantizers";
      const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
      expect_equal(results(bench.graph, input), results(imported, input), name);
      expect_equal(results(bench.graph, input), IntegerProgram(imported).run(std::span(&input, 1)), name);
    }
  }
}

int count_nodes(const std::filesystem::path& file, const std::string& op) {
  onnx::ModelProto model;
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&stream));
  return static_cast<int>(
      std::ranges::count(model.graph().node(), op, [](const auto& node) { return node.op_type(); }));
}

/// How many nodes Clip have bounds of that type.
int clips_of(const std::filesystem::path& file, int32_t type) {
  onnx::ModelProto model;
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&stream));
  return static_cast<int>(std::ranges::count_if(model.graph().node(), [&](const auto& node) {
    return node.op_type() == "Clip" &&
           std::ranges::any_of(model.graph().initializer(), [&](const auto& initializer) {
             return initializer.name() == node.input(1) && initializer.data_type() == type;
           });
  }));
}

/// Layers, additions, joins and means on integers; read again, the same network.
TEST(OnnxExport, OperatorsOnCodesComputeTheSameCodesAgain) {
  for (const char* name : {"toy_convnet", "digits_cnn", "resnet20"}) {
    for (const char* keys : {"", "weights = \"int4\"\nactivations = \"uint4\"\nelementwise = \"uint6\"",
                             "activations = \"int8\"\nelementwise = \"int8\""}) {
      const ModelInfo& model = find_model(name);
      PassBench bench(model.build(model.sample_shape, model.class_count));
      bench.run_passes(fmt::format(
          "[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\nreport = false\n{}\n",
          keys));
      const TemporaryPath file("model.onnx");
      export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQOperator});
      const auto convolutions = std::ranges::count_if(bench.graph.nodes(), [](const Node& node) {
        return is_weighted_sum(node) && trait<WeightedSum>(node)->spatial_dims > 0;
      });
      EXPECT_EQ(count_nodes(file.get(), "QLinearConv"), convolutions) << name << keys;
      EXPECT_EQ(count_nodes(file.get(), "Conv"), 0) << name << keys;
      EXPECT_EQ(count_nodes(file.get(), "Relu"), 0) << name << keys;
      const Graph imported = import_onnx(file.get());
      EXPECT_EQ(imported.requantization(), Requantization::kFloat) << name;
      const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
      const std::vector<Tensor> actual = IntegerProgram(imported).run(std::span(&input, 1));
      // Codes of 4 bits are cut after an operator of 8, so the last layer takes values and adds up floats.
      const std::vector<Tensor> wanted = results(bench.graph, input);
      const auto expected = wanted.at(0).values<float>();
      const float tolerance = keys[0] == 'w' ? 1e-6F : 0.0F;
      for (size_t e = 0; e < expected.size(); ++e)
        EXPECT_NEAR(actual.at(0).values<float>()[e], expected[e], tolerance) << name << keys;
    }
  }
}

/// A linear layer of rows with a bias is QGemm of a matrix; what has no operator on codes stays between both
/// nodes.
TEST(OnnxExport, RowsWithABiasAreAMatrixOnCodes) {
  GraphBuilder b("rows");
  NodeInput x = b.linear("first", b.input("x", {5, 8}), 8, 6);
  x = b.call("tanh", {b.call("relu", {x})});
  const NodeInput y = b.linear("second", x, 6, 6);
  x = b.call("sigmoid", {b.call("add", {b.call("mul", {y, y}), x})});
  PassBench bench(b.finish(b.linear("last", b.call("cat", {x, y}, {{"dim", -1}}), 12, 3)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nreport = false\n");
  const TemporaryPath file("model.onnx");
  export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQOperator});
  for (const auto& [op, count] :
       {std::pair("QGemm", 2), std::pair("QLinearAdd", 1), std::pair("QLinearMul", 1),
        std::pair("QLinearSigmoid", 1), std::pair("QLinearConcat", 1), std::pair("Tanh", 1),
        std::pair("MatMul", 1)})
    EXPECT_EQ(count_nodes(file.get(), op), count) << op;
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
  expect_equal(results(bench.graph, input), results(import_onnx(file.get()), input), "rows");
}

/// Programs have no Clip of 16-bit integers.
TEST(OnnxExport, WidthsAboveAByteAreCutBeforeTheyAreRounded) {
  for (const OnnxStyle style : {OnnxStyle::kQdq, OnnxStyle::kQOperator}) {
    PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
    bench.run_passes(
        "[passes.static_quantize]\nnum_samples = 16\nreport = false\nactivations = \"uint12\"\n");
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = style});
    EXPECT_EQ(clips_of(file.get(), onnx::TensorProto::UINT16), 0);
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
    const Graph imported = import_onnx(file.get());
    expect_equal(results(bench.graph, input), results(imported, input), "12 bits");
    const auto clamps = std::ranges::count(imported.nodes(), "clamp", &Node::op);
    EXPECT_EQ(clamps, 0) << "codes of 12 bits are again";
  }
}

// ONNX Runtime fuses Add between quantized values into arithmetic that rounds some sums differently.
TEST(OnnxExport, AdditionsOfQuantizedValuesAreSums) {
  PassBench bench(build_model("resnet20", {3, 32, 32}, 10));
  bench.run_passes("[passes.fuse_batch_norm]\n[passes.static_quantize]\nnum_samples = 16\nreport = false\n");
  constexpr int kResidualAdditions = 9;
  const TemporaryPath file("model.onnx");
  export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQdq});
  EXPECT_EQ(count_nodes(file.get(), "Sum"), kResidualAdditions);
  EXPECT_EQ(count_nodes(file.get(), "Add"), 0);
  const Graph plain = build_model("resnet20", {3, 32, 32}, 10);
  export_onnx(plain, file.get());
  EXPECT_EQ(count_nodes(file.get(), "Sum"), 0);
  EXPECT_EQ(count_nodes(file.get(), "Add"), kResidualAdditions);
}

/// ONNX Runtime computes a bias after a product of rows, and a Softmax between quantizers, with other
/// integers (tests/onnx_runtime_test.cc).
TEST(OnnxExport, RowsWithABiasAreAMatrixAndSoftmaxStandsAlone) {
  GraphBuilder b("attention");
  const NodeInput x = b.input("x", {5, 8});
  const NodeInput keys = b.call("transpose", {b.linear("key", x, 8, 8)}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput scores = b.call("matmul", {b.linear("query", x, 8, 8), keys});
  const NodeInput shares = b.call("softmax", {scores}, {{"dim", -1}});
  const NodeInput mixed = b.call("matmul", {shares, b.linear("value", x, 8, 8)});
  PassBench bench(b.finish(b.linear("out", mixed, 8, 3)));  // the last layer gives floats
  bench.run_passes("[passes.static_quantize]\nnum_samples = 16\nreport = false\n");
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
  for (const auto& [style, op] :
       {std::pair(OnnxStyle::kQdq, "Gemm"), std::pair(OnnxStyle::kQOperator, "QGemm")}) {
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = style});
    EXPECT_EQ(count_nodes(file.get(), op), 3);
    EXPECT_EQ(count_nodes(file.get(), "Sum"), 1) << op << ": of one value, before the softmax";
    if (style == OnnxStyle::kQdq)
      expect_equal(results(bench.graph, input), results(import_onnx(file.get()), input), op);
  }
}

/// ONNX Runtime has no Where of them.
TEST(OnnxExport, ChoicesOfTruthValuesAreLogic) {
  GraphBuilder builder("choice");
  const NodeInput x = builder.input("x", {4});
  const auto above = [&](double limit) {
    return builder.call("gt", {x, NodeInput::of_constant(Value(limit))});
  };
  const NodeInput is_one = builder.call("where", {above(0), above(0.5), above(-0.5)});
  const Graph graph = builder.finish(builder.call("where", {is_one, x, NodeInput::of_constant(Value(2.0))}));
  const Graph imported = exported_and_imported(graph);
  EXPECT_EQ(std::ranges::count(imported.nodes(), "where", &Node::op), 1);
  const Tensor input = Tensor::from<float>({1, 4}, std::vector<float>{-1, -0.25F, 0.25F, 1});
  expect_equal(results(graph, input), results(imported, input), "choice");
}

TEST(OnnxExport, UnsignedWeightsAreTheSameValues) {
  for (const char* weights : {"int8", "int4"}) {
    PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
    bench.run_passes(fmt::format(
        "[passes.static_quantize]\nnum_samples = 16\nreport = false\nweights = \"{}\"\n", weights));
    const Graph imported =
        exported_and_imported(bench.graph, {.style = OnnxStyle::kQdq, .unsigned_weights = true});
    int layers = 0;
    for (const Node& node : imported.nodes()) {
      if (!is_weighted_sum(node)) continue;
      EXPECT_THAT(quant_spec_text(*node.find_quantization("weight")), HasSubstr("signed=false")) << node.name;
      ++layers;
    }
    EXPECT_GT(layers, 2);
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
    expect_equal(results(bench.graph, input), results(imported, input), weights);
    expect_equal(results(bench.graph, input), IntegerProgram(imported).run(std::span(&input, 1)), weights);
  }
}

TEST(OnnxExport, ListsAllNodesWhoseFormatsTheStyleCannotCarry) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  quantize_layers(bench.graph, parse_quant_spec_text("minifloat_ieee:width=8,exponent_width=4"),
                  parse_quant_spec_text("affine:width=8"));
  const std::string text = export_error(bench.graph, {.style = OnnxStyle::kQdq});
  EXPECT_THAT(text, HasSubstr("style qdq, opset 17"));
  for (const Node& node : bench.graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    EXPECT_THAT(text, HasSubstr("node \"" + node.name + "\""));
  }
  EXPECT_THAT(text, HasSubstr("weight: minifloat_ieee"));
  EXPECT_THAT(export_error(bench.graph, {}), HasSubstr("a float model has no formats"));
}

TEST(OnnxExport, RefusesScalesThatFollowFromTheData) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  quantize_layers(bench.graph, parse_quant_spec_text("affine:width=8"),
                  parse_quant_spec_text("affine:width=8"));
  EXPECT_THAT(export_error(bench.graph, {.style = OnnxStyle::kQdq}),
              HasSubstr("follows from the data at every run"));
}

TEST(OnnxExport, SixteenBitsTakeANewerOpset) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  quantize_layers(bench.graph, parse_quant_spec_text("affine:width=8,symmetric=true"),
                  parse_quant_spec_text("affine:width=16,scale=0.001,zero_point=0"));
  EXPECT_EQ(export_error(bench.graph, {.style = OnnxStyle::kQdq}), "");
  EXPECT_THAT(export_error(bench.graph, {.style = OnnxStyle::kQdq, .opset = 17}),
              HasSubstr("integers of 16 bits need opset 21"));
  EXPECT_THAT(export_error(bench.graph, {.style = OnnxStyle::kQdq, .opset = 12}),
              HasSubstr("expected 13 to 25"));
}

/// Floats of 8 bits come back with their quantizers, and give the same bits.
TEST(OnnxExport, FloatsOfEightBitsAndScales) {
  for (const char* format : {"fp8_e4m3fn", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"}) {
    PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
    bench.run_passes(
        fmt::format("[passes.static_quantize]\nnum_samples = 16\nreport = false\n"
                    "weights = \"{0}\"\nactivations = \"{0}\"\n",
                    format));
    const Graph imported = exported_and_imported(bench.graph, {.style = OnnxStyle::kQdq});
    for (const Node& node : imported.nodes()) {
      if (!is_weighted_sum(node)) continue;
      EXPECT_THAT(quant_spec_text(*node.find_quantization("weight")), HasSubstr("granularity=channel"));
      EXPECT_THAT(quant_spec_text(*node.find_quantization("weight")), HasSubstr("scaled:")) << node.name;
    }
    const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
    expect_equal(results(bench.graph, input), results(imported, input), format);
    EXPECT_THAT(export_error(bench.graph, {.style = OnnxStyle::kQdq, .opset = 17}),
                HasSubstr("floats of 8 bits need opset 19"));
  }
}

std::vector<std::filesystem::path> weights_beside(const std::filesystem::path& model) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(model.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(model.filename().string() + ".") && name.ends_with(".data"))
      files.push_back(entry.path());
  }
  return files;
}

void set_weights(Graph& graph, float value) {
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters)
      if (parameter->tensor.dtype() == DType::kFloat32)
        std::ranges::fill(parameter->tensor.values<float>(), value);
  }
}

TEST(OnnxExport, WeightsBesideAreThoseOfTheModelThatNamesThem) {
  Graph graph = build_model("digits_cnn", {1, 8, 8}, 10);
  const TemporaryPath file("named.onnx");
  const std::filesystem::path copy = file.get().parent_path() / "copy.onnx";
  const auto write = [&](float value) {
    set_weights(graph, value);
    export_onnx(graph, file.get(), {.most_bytes_within = 0});
    return weights_beside(file.get());
  };
  const auto first = write(0.25F);
  ASSERT_EQ(first.size(), 1U);
  const std::string bytes = read_file(first.front());
  EXPECT_EQ(write(0.25F), first) << "the same weights, the same name";

  std::filesystem::copy_file(file.get(), copy);
  const auto both = write(0.5F);
  EXPECT_EQ(both.size(), 2U) << "a copy of the model still names the weights before";
  EXPECT_EQ(read_file(first.front()), bytes);
  EXPECT_EQ(import_onnx(copy).parameter_count(), graph.parameter_count());

  std::filesystem::remove(copy);
  write(0.25F);  // replaces 0.5, whose weights go
  EXPECT_EQ(weights_beside(file.get()), first);
  export_onnx(graph, file.get());
  EXPECT_THAT(weights_beside(file.get()), IsEmpty()) << "they are in the model now";

  write_file(first.front(), "of the user");
  EXPECT_THAT([&] { write(0.25F); }, testing::ThrowsMessage<Error>(HasSubstr("holds something else")));
  EXPECT_EQ(read_file(first.front()), "of the user");
  std::filesystem::remove(first.front());
}

TEST(OnnxExport, WeightsMayLieBesideTheModel) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  const TemporaryPath file("model.onnx");
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 4);
  const std::vector<Tensor> expected = results(bench.graph, input);
  export_onnx(bench.graph, file.get());
  const auto whole = std::filesystem::file_size(file.get());
  EXPECT_THAT(weights_beside(file.get()), IsEmpty());
  expect_equal(expected, results(import_onnx(file.get()), input), "within");

  export_onnx(bench.graph, file.get(), {.most_bytes_within = 1000});
  EXPECT_LT(std::filesystem::file_size(file.get()), whole / 2);
  ASSERT_EQ(weights_beside(file.get()).size(), 1U);
  EXPECT_GT(std::filesystem::file_size(weights_beside(file.get()).front()), whole / 2);
  const Graph imported = import_onnx(file.get());
  expect_equal(expected, results(imported, input), "beside");
  export_onnx(imported, file.get(),
              {.most_bytes_within = 0});  // over the files that its tensors are mapped from
  expect_equal(expected, results(imported, input), "what was mapped");
  expect_equal(expected, results(import_onnx(file.get()), input), "again");

  quantize_layers(bench.graph,
                  parse_quant_spec_text("affine:width=8,symmetric=true,granularity=channel,axis=0"),
                  parse_quant_spec_text("affine:width=8,scale=0.05,zero_point=3"));
  const Graph within = exported_and_imported(bench.graph, {.style = OnnxStyle::kQdq});
  export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQdq, .most_bytes_within = 0});
  ASSERT_EQ(weights_beside(file.get()).size(), 1U);
  EXPECT_LT(std::filesystem::file_size(weights_beside(file.get()).front()), whole / 2) << "codes";
  expect_equal(results(within, input), results(import_onnx(file.get()), input), "codes beside");
}

}  // namespace
}  // namespace detent
