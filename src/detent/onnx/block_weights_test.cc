#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <fstream>

#include "detent/core/error.h"
#include "detent/files/temporary_file_test.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/passes/pass_bench_for_test.h"

// Weights with a scale for each group or block, in ONNX's format and back.

namespace detent {
namespace {

using testing::HasSubstr;

/// A linear layer of each rank, convolutions both ways, and rows of which groups are not whole.
Graph network_of_layers() {
  GraphBuilder b("layers");
  NodeInput x = b.convolution("first", b.input("x", {32, 4, 4}), 32, 24, {3, 3}, {{"padding", 1}});
  x = b.call("relu", {x});
  x = b.layer("convtranspose2d", "second", {x}, {{"weight", {24, 16, 2, 2}}}, {{"stride", 2}});
  x = b.call("flatten", {x}, {{"start_dim", 2}});
  x = b.linear("rows", x, 64, 40);
  x = b.linear("last", b.call("flatten", {x}), 640, 16);
  return b.finish(b.linear("end", x, 16, 5, false));
}

/// A scale a group or block of every weight, along what the layers sum over.
void quantize_weights(Graph& graph, const std::string& format) {
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    QuantSpec spec = parse_quant_spec_text(format);
    const bool is_transposed = trait<WeightedSum>(node)->transposed;
    if (spec.granularity == Granularity::kGroup) spec.axis = is_transposed ? 1 : 0;
    if (spec.granularity != Granularity::kGroup) spec.block_axis = is_transposed ? 0 : 1;
    node.quantization["weight"] = QuantizerRef(spec);
  }
}

onnx::ModelProto written_model(const std::filesystem::path& file) {
  onnx::ModelProto model;
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&stream));
  return model;
}

int nodes_of_op(const onnx::ModelProto& model, const std::string& op) {
  return static_cast<int>(
      std::ranges::count(model.graph().node(), op, [](const auto& node) { return node.op_type(); }));
}

const onnx::TensorProto& initializer(const onnx::ModelProto& model, const std::string& name) {
  return *std::ranges::find(model.graph().initializer(), name,
                            [](const auto& proto) -> const std::string& { return proto.name(); });
}

std::vector<Tensor> simulated(const Graph& graph, const Tensor& input) {
  return IntegerExecutor().compile(graph)->run(std::span(&input, 1));
}

void expect_same_bits(const Graph& graph, const Graph& imported, const std::string& what) {
  const Tensor input = RandomSamples({2, 32, 4, 4}).samples(0, 2);
  EXPECT_TRUE(simulated(graph, input).at(0).equals(simulated(imported, input).at(0))) << what;
  EXPECT_TRUE(simulated(imported, input)
                  .at(0)
                  .equals(FastExecutor().compile(imported)->run(std::span(&input, 1)).at(0)))
      << what;
}

struct BlockCase {
  const char* format;
  int64_t opset;      // that it needs
  int32_t type;       // of the codes, as ONNX counts
  int32_t scales;     // of which element type the scales are
  size_t code_bytes;  // of 40 x 64
};

constexpr int32_t kFloatElements = onnx::TensorProto::FLOAT;
constexpr int32_t kUInt4Elements = 21;
constexpr int32_t kInt4Elements = 22;
constexpr int32_t kFloat8E4M3 = 17;
constexpr int32_t kFloat8E5M2 = 19;
constexpr int32_t kFloat4Elements = 23;
constexpr int32_t kPowerElements = 24;

const BlockCase kBlockCases[] = {
    {"int4_g32", 21, kInt4Elements, kFloatElements, 1280},
    {"int3_g16", 21, kInt4Elements, kFloatElements, 1280},
    {"uint4_g24", 21, kUInt4Elements, kFloatElements, 1280},
    {"int8_g64", 21, onnx::TensorProto::INT8, kFloatElements, 2560},
    {"uint12_g32", 21, onnx::TensorProto::UINT16, kFloatElements, 5120},
    {"scaled:element=fp8_e4m3fn,granularity=group,group_size=32", 21, kFloat8E4M3, kFloatElements, 2560},
    {"scaled:element=fp4_e2m1,granularity=group,group_size=16", 23, kFloat4Elements, kFloatElements, 1280},
    {"nvfp4", 23, kFloat4Elements, kFloat8E4M3, 1280},
    {"mx_e4m3", 21, kFloat8E4M3, kFloatElements, 2560},
    {"mx_e5m2", 21, kFloat8E5M2, kFloatElements, 2560},
    {"mx:element=e2m1,block_size=16", 24, kFloat4Elements, kPowerElements, 1280},
    {"mx_int8", 24, onnx::TensorProto::INT8, kPowerElements, 2560}};

class BlockWeights : public testing::TestWithParam<BlockCase> {};

TEST_P(BlockWeights, ComeBackToTheBit) {
  const auto& [format, opset, type, scales, code_bytes] = GetParam();
  PassBench bench(network_of_layers());
  quantize_weights(bench.graph, format);
  const TemporaryPath file("model.onnx");
  export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQdq});
  const onnx::ModelProto model = written_model(file.get());
  EXPECT_EQ(model.opset_import(0).version(), opset) << format;
  EXPECT_EQ(initializer(model, "rows.weight_quantized").data_type(), type);
  EXPECT_EQ(initializer(model, "rows.weight_quantized").raw_data().size(), code_bytes);
  const bool has_codes = scales != kFloatElements;
  EXPECT_EQ(initializer(model, has_codes ? "rows.weight_scale_quantized" : "rows.weight_scale").data_type(),
            scales);
  const Graph imported = import_onnx(file.get());
  EXPECT_EQ(imported.nodes().size(), bench.graph.nodes().size());
  std::vector<const Node*> layers;
  for (const Node& node : bench.graph.nodes()) {
    if (is_weighted_sum(node)) layers.push_back(&node);
  }
  size_t next = 0;
  for (const Node& node : imported.nodes()) {
    if (!is_weighted_sum(node)) continue;
    const Node& original = *layers.at(next++);
    ASSERT_NE(node.find_quantization("weight"), nullptr) << node.name;
    const QuantSpec given =
        with_given_parameters(*original.rounding("weight"), original.find_parameter("weight")->tensor);
    EXPECT_EQ(format_name(node.rounding("weight")->format), format_name(given.format)) << node.name;
    EXPECT_TRUE(fake_quantize(given, original.find_parameter("weight")->tensor)
                    .equals(node.find_parameter("weight")->tensor))
        << format << " " << node.name;
  }
  EXPECT_EQ(next, layers.size());
  expect_same_bits(bench.graph, imported, format);
}

INSTANTIATE_TEST_SUITE_P(Formats, BlockWeights, testing::ValuesIn(kBlockCases), [](const auto& test) {
  std::string name = test.param.format;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

/// An embedding and linear layers with and without a bias, as those of language models.
Graph network_of_tokens() {
  GraphBuilder b("tokens");
  NodeInput x =
      b.layer("embedding", "table", {b.input("x", TensorType{DType::kInt64, {Dimension("N"), Dimension(5)}})},
              {{"weight", {30, 64}}});
  x = b.call("relu", {b.linear("up", x, 64, 48)});
  return b.finish(b.linear("down", x, 48, 9, false));
}

Tensor token_ids() { return Tensor::from({2, 5}, std::vector<int64_t>{1, 29, 0, 7, 7, 12, 3, 28, 15, 22}); }

Tensor result_of_tokens(const Graph& graph) {
  const Tensor input = token_ids();
  const Tensor result = IntegerExecutor().compile(graph)->run(std::span(&input, 1)).at(0);
  EXPECT_TRUE(result.equals(FastExecutor().compile(graph)->run(std::span(&input, 1)).at(0)));
  return result;
}

void quantize_parameters(Graph& graph, const std::string& format) {
  for (Node& node : graph.nodes()) {
    if (node.find_parameter("weight") != nullptr)
      node.quantization["weight"] = QuantizerRef(parse_quant_spec_text(format));
  }
}

int64_t integer_of_op(const onnx::ModelProto& model, const std::string& op, const std::string& name) {
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != op) continue;
    for (const auto& each : node.attribute())
      if (each.name() == name) return each.i();
  }
  return -1;
}

/// As MatMulNBits and GatherBlockQuantized; what was read so is written the same.
TEST(MatMulNBitsStyle, HoldsIntegersOfEightBitsAndFewer) {
  const std::tuple<const char*, int64_t, int64_t> cases[] = {
      {"int4_g32", 4, 32}, {"uint4_g16", 4, 16}, {"int2_g64", 2, 64},  {"uint2_g16", 2, 16},
      {"int3_g32", 4, 32}, {"int8_g16", 8, 16},  {"uint6_g32", 8, 32}, {"int4:granularity=channel", 4, 64}};
  for (const auto& [format, bits, block] : cases) {
    PassBench bench(network_of_tokens());
    quantize_parameters(bench.graph, format);
    const TemporaryPath file("model.onnx");
    const TemporaryPath again("again.onnx");
    export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kMatMulNBits});
    const onnx::ModelProto model = written_model(file.get());
    EXPECT_EQ(nodes_of_op(model, "MatMulNBits"), 2) << format;
    EXPECT_EQ(nodes_of_op(model, "GatherBlockQuantized"), 1) << format;
    EXPECT_EQ(nodes_of_op(model, "Add"), 0) << format;
    EXPECT_EQ(integer_of_op(model, "MatMulNBits", "bits"), bits) << format;
    EXPECT_EQ(integer_of_op(model, "MatMulNBits", "block_size"), block) << format;
    const Graph imported = import_onnx(file.get());
    EXPECT_TRUE(result_of_tokens(bench.graph).equals(result_of_tokens(imported))) << format;
    export_onnx(imported, again.get(), {.style = OnnxStyle::kMatMulNBits});
    const onnx::ModelProto second = written_model(again.get());
    ASSERT_EQ(second.graph().initializer_size(), model.graph().initializer_size()) << format;
    for (const onnx::TensorProto& each : model.graph().initializer())
      EXPECT_EQ(initializer(second, each.name()).raw_data(), each.raw_data()) << format << " " << each.name();
  }
}

/// Blocks that the operators do not have stay with DequantizeLinear, and integers of 8 bits a channel with
/// integer layers.
TEST(MatMulNBitsStyle, LeavesOtherBlocksToDequantizeLinear) {
  for (const char* format : {"int4_g24", "int8:granularity=channel", "nvfp4", "int12_g32"}) {
    PassBench bench(network_of_tokens());
    quantize_parameters(bench.graph, format);
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kMatMulNBits});
    EXPECT_EQ(nodes_of_op(written_model(file.get()), "MatMulNBits"), 0) << format;
    EXPECT_TRUE(result_of_tokens(bench.graph).equals(result_of_tokens(import_onnx(file.get())))) << format;
  }
}

std::string refusal_of(const Graph& graph, const OnnxExportOptions& options) {
  const TemporaryPath file("model.onnx");
  return error_of([&] { export_onnx(graph, file.get(), options); });
}

/// No operator on codes has a scale a group, nor one for what is left of a row.
TEST(OnnxExport, OperatorsOnCodesLeaveGroupsToDequantizeLinear) {
  for (const char* format : {"int8_g16", "int8_g64", "uint4_g32"}) {
    PassBench bench(network_of_layers());
    bench.run_passes("[passes.static_quantize]\nnum_samples = 4\nreport = false\n");
    for (Node& node : bench.graph.nodes()) {
      if (node.op != "linear") continue;
      const Tensor& weight = node.find_parameter("weight")->tensor;
      node.quantization["weight"] =
          QuantizerRef(with_given_parameters(parse_quant_spec_text(format), weight));
    }
    const TemporaryPath file("model.onnx");
    export_onnx(bench.graph, file.get(), {.style = OnnxStyle::kQOperator});
    const onnx::ModelProto model = written_model(file.get());
    EXPECT_EQ(nodes_of_op(model, "QLinearConv"), 1) << format;
    for (const char* op : {"QGemm", "QLinearMatMul"}) EXPECT_EQ(nodes_of_op(model, op), 0) << format << op;
    expect_same_bits(bench.graph, import_onnx(file.get()), format);
  }
}

/// All nodes at once, and which style holds the format.
TEST(OnnxExport, NamesTheStyleThatHoldsWhatThisOneDoesNot) {
  PassBench bench(network_of_layers());
  quantize_weights(bench.graph, "int4_g32");
  const std::string text = refusal_of(bench.graph, {.style = OnnxStyle::kQonnx});
  EXPECT_THAT(text, HasSubstr("5 nodes cannot be written in the style qonnx"));
  EXPECT_THAT(text, HasSubstr("node \"rows\" (linear): weight: affine:width=4"));
  EXPECT_THAT(text, HasSubstr("scales of groups or blocks (the style qdq holds it)"));
  EXPECT_THAT(refusal_of(bench.graph, {.style = OnnxStyle::kQdq, .opset = 19}),
              HasSubstr("its codes and scales need opset 21"));
  for (const char* format : {"mx:element=e3m2", "block_fp:width=6", "scaled:element=fp6_e3m2"}) {
    PassBench other(network_of_tokens());
    quantize_parameters(other.graph, format);
    EXPECT_THAT(refusal_of(other.graph, {.style = OnnxStyle::kQdq}), HasSubstr("no style holds it"))
        << format;
  }
  PassBench binary(network_of_tokens());
  quantize_parameters(binary.graph, "binary");
  EXPECT_THAT(refusal_of(binary.graph, {.style = OnnxStyle::kQdq}), HasSubstr("(the style qonnx holds it)"));
}

/// Scales of blocks of a value follow from it at every run.
TEST(OnnxExport, BlocksOfValuesAreRefused) {
  PassBench bench(network_of_tokens());
  bench.graph.node("up").quantization["data_in_0"] = QuantizerRef(parse_quant_spec_text("mx_e4m3"));
  EXPECT_THAT(refusal_of(bench.graph, {.style = OnnxStyle::kQdq}),
              HasSubstr("data_in_0: mx: scales of blocks that follow from the data at every run"));
}

}  // namespace
}  // namespace detent
