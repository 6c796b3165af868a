#include "detent/graph_files/packed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/gzip.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/formats/elements/affine.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/normal_tensor_for_test.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/graph_files/graph_layout.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr int64_t kIn = 256;
constexpr int64_t kOut = 8;

/// x -> linear "fc" of random weights in this format -> output.
Graph layer(const std::string& format, const Tensor& weight) {
  GraphBuilder builder("layer");
  Graph graph =
      builder.finish(builder.linear("fc", builder.input("x", {weight.dim(1)}), weight.dim(1), weight.dim(0)));
  graph.node("fc").find_parameter("weight")->tensor = weight;
  graph.node("fc").quantization["weight"] = parse_quant_spec_text(format);
  return graph;
}
Graph layer(const std::string& format) { return layer(format, normal_tensor({kOut, kIn}, 4)); }

const Tensor& weight_of(const Graph& graph, const char* node = "fc") {
  return graph.node(node).find_parameter("weight")->tensor;
}
const QuantSpec& format_of(const Graph& graph, const char* node = "fc") {
  return *graph.node(node).find_quantization("weight");
}

std::string graph_text(const SafetensorsFile& file) {
  const auto tensor =
      std::ranges::find(file.tensors, graph_layout::kGraphTensor, &std::pair<std::string, Tensor>::first);
  return read_gzip(tensor->second.bytes(), "graph", graph_layout::kMostGraphBytes);
}

class WeightPacking : public testing::Test {
 protected:
  Graph written_and_read(const Graph& graph, const std::vector<std::string>& left = {}) {
    EXPECT_EQ(write_packed_graph(path_, graph), left);
    return read_graph(path_);
  }
  void expect_error(const std::string& message) {
    EXPECT_THAT([&] { read_graph(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr(message))));
  }
  /// Bytes of the tensors that hold the parameter.
  int64_t stored_bytes(const std::string& parameter) const {
    int64_t bytes = 0;
    for (const TensorSummary& tensor : summarize_safetensors(path_).tensors) {
      const bool is_part = tensor.name == parameter || tensor.name.starts_with(parameter + ".");
      if (is_part) bytes += static_cast<int64_t>(tensor.byte_size);
    }
    return bytes;
  }

  TemporaryPath file_{"packed.mz"};
  const std::filesystem::path& path_ = file_.get();
};

/// Rounding what they have rounded gives other values: they stay float32, and are named.
bool may_stay_float(const std::string& format) {
  return format.starts_with("block_fp") || format.starts_with("binary_residual") ||
         format.starts_with("binary:bipolar=false") || format == "binary:stochastic=true";
}

TEST_F(WeightPacking, GivesTheValuesOfTheSimulationInEveryFormat) {
  std::vector<std::string> texts(std::begin(kElementFormats), std::end(kElementFormats));
  texts.insert(texts.end(), std::begin(kBlockFormats), std::end(kBlockFormats));
  texts.insert(texts.end(), {"int2", "int3", "int4", "int8", "int16", "uint4", "uint8", "int4_g32",
                             "int4_g128", "uint4_g32", "int8_g7"});
  for (const std::string& text : texts) {
    for (const char* more : {"", "granularity=channel", "granularity=group,group_size=32",
                             "granularity=group,group_size=100,axis=1"}) {
      std::string format = text;
      if (*more != 0) format += (text.find(':') == std::string::npos ? ":" : ",") + std::string(more);
      Graph graph;
      try {
        graph = layer(format);
      } catch (const Error&) {  // one scale for all
        continue;
      }
      SCOPED_TRACE(format);
      const QuantSpec spec = format_of(graph);
      const Tensor expected = fake_quantize(spec, weight_of(graph));
      const std::vector<std::string> left = write_packed_graph(path_, graph);
      const Graph read = read_graph(path_);
      EXPECT_TRUE(fake_quantize(format_of(read), weight_of(read)).equals(expected));
      if (!left.empty()) {
        EXPECT_TRUE(may_stay_float(text)) << left.front();
        EXPECT_THAT(left, ElementsAre(HasSubstr("node \"fc\", weight")));
        EXPECT_TRUE(weight_of(read).equals(weight_of(graph)));
        continue;
      }
      EXPECT_TRUE(weight_of(read).equals(expected));
      EXPECT_LE(8 * (stored_bytes("fc.weight") - 4), storage_bits(spec, {kOut, kIn}));
      // Once more, from the rounded values: the same file.
      const std::string bytes = read_file(path_);
      EXPECT_THAT(write_packed_graph(path_, read), IsEmpty());
      EXPECT_TRUE(read_file(path_) == bytes);
    }
  }
}

TEST_F(WeightPacking, ScalesAreStoredOnce) {
  written_and_read(layer("int4_g32"));
  EXPECT_EQ(stored_bytes("fc.weight"), kOut * kIn / 2 + 4 * kOut * kIn / 32);
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_THAT(graph_text(file), HasSubstr(R"("scale": {"detent.tensor": "fc.weight.scales"})"));
  EXPECT_EQ(file.metadata.at("detent.packed.fc.weight"),
            R"({"format": "affine:width=4,symmetric=true,granularity=group,group_size=32", )"
            R"("shape": [8, 256], "packing": "bits"})");
  EXPECT_EQ(file.metadata.at("version"), "4");
  EXPECT_EQ(packed_parameter_count(path_), 1);
}

/// Weights take a quarter or an eighth of their float32 size, and the scales; of the rest of the file, the
/// names and formats of the codes.
TEST_F(WeightPacking, IsSmall) {
  constexpr int64_t kLayers = 20;
  constexpr int64_t kChannels = 32;
  GraphBuilder builder("convolutions");
  NodeInput x = builder.input("x", {kChannels, 8, 8});
  for (int64_t i = 0; i < kLayers; ++i) {
    x = builder.convolution("conv" + std::to_string(i), x, kChannels, kChannels, {3, 3}, {{"padding", 1}},
                            false);
  }
  Graph graph = builder.finish(x);
  for (const auto& [format, part] : {std::pair("int8", 4), std::pair("int4", 8)}) {
    for (Node& node : graph.nodes()) {
      Parameter* weight = node.find_parameter("weight");
      if (weight == nullptr) continue;
      weight->tensor = normal_tensor(weight->tensor.shape(), 3);
      node.quantization["weight"] = parse_quant_spec_text(std::string(format) + ":granularity=channel");
    }
    write_graph(path_, graph);
    const auto floats = static_cast<int64_t>(std::filesystem::file_size(path_));
    written_and_read(graph);
    const auto packed = static_cast<int64_t>(std::filesystem::file_size(path_));
    const int64_t weights = kLayers * kChannels * kChannels * 9;
    const int64_t scales = kLayers * kChannels;
    constexpr int64_t kHeaderOfLayer = 400;
    EXPECT_LE(packed, floats - 4 * weights + 4 * weights / part + 4 * scales + kLayers * kHeaderOfLayer)
        << format;
    EXPECT_LT(packed, floats / part + floats / 20) << format;
  }
}

TEST_F(WeightPacking, CodesWithADTypeOfTheirOwnHaveIt) {
  for (const auto& [format, dtype] :
       {std::pair("fp8_e4m3fn", DType::kFloat8E4M3), std::pair("fp8_e5m2", DType::kFloat8E5M2),
        std::pair("fp16", DType::kFloat16), std::pair("bf16", DType::kBFloat16)}) {
    const Graph read = written_and_read(layer(format));
    const SafetensorsFile file = read_safetensors(path_);
    const auto found = std::ranges::find(file.tensors, "fc.weight", &std::pair<std::string, Tensor>::first);
    ASSERT_NE(found, file.tensors.end());
    EXPECT_EQ(found->second.dtype(), dtype);
    EXPECT_EQ(found->second.shape(), weight_of(read).shape());
  }
}

TEST_F(WeightPacking, TiedWeightsAreStoredOnce) {
  GraphBuilder builder("tied");
  NodeInput x = builder.linear("a", builder.input("x", {8}), 8, 8, false);
  Graph graph = builder.finish(builder.linear("b", x, 8, 8, false));
  graph.node("b").parameters[0].second = graph.node("a").parameters[0].second;
  graph.node("a").find_parameter("weight")->tensor = normal_tensor({8, 8}, 1);
  for (const char* name : {"a", "b"}) {
    graph.node(name).quantization["weight"] = parse_quant_spec_text("int4:granularity=channel");
  }
  const Graph read = written_and_read(graph);
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 3U);  // codes, scales and the graph
  EXPECT_EQ(weight_of(read, "a").bytes().data(), weight_of(read, "b").bytes().data());
  EXPECT_EQ(format_of(read, "a"), format_of(read, "b"));
  graph.node("b").quantization["weight"] = parse_quant_spec_text("int8");
  const Graph other = written_and_read(
      graph,
      {"node \"a\", weight (affine:width=4,symmetric=true,granularity=channel): nodes that share it do not "
       "round it alike"});
  EXPECT_TRUE(weight_of(other, "a").equals(weight_of(graph, "a")));
}

TEST_F(WeightPacking, LearnedScalesStayParameters) {
  for (const char* format :
       {"fixed:width=4,scale_rule=learned", "int4:scale_rule=learned,granularity=channel",
        "uint4:scale_rule=learned", "int4_g32:scale_rule=learned"}) {
    SCOPED_TRACE(format);
    Graph graph = layer(format);
    Node& node = graph.node("fc");
    const Tensor scale = initial_scale(format_of(graph), weight_of(graph), "test");
    node.quantization.at("weight")->parameters.emplace_back("scale", Parameter{scale});
    const Graph read = written_and_read(graph);
    EXPECT_EQ(format_of(read), format_of(graph));
    EXPECT_TRUE(read.node("fc").find_quantizer("weight")->find_parameter("scale")->tensor.equals(scale));
    EXPECT_TRUE(
        fake_quantize(*graph.node("fc").find_quantizer("weight"), weight_of(graph)).equals(weight_of(read)));
    EXPECT_LT(stored_bytes("fc.weight"), kOut * kIn);
    EXPECT_FALSE(weight_of(read).equals(weight_of(graph)));
  }
}

/// There are no codes for what rounds down to a multiple of any scale.
TEST_F(WeightPacking, LearnedScalesThatNoFormatGivesLeaveTheWeightsAsTheyAre) {
  Graph graph = layer("fixed:width=4,rounding=floor,scale_rule=learned");
  const Tensor scale = initial_scale(format_of(graph), weight_of(graph), "test");
  graph.node("fc").quantization.at("weight")->parameters.emplace_back("scale", Parameter{scale});
  const Graph read =
      written_and_read(graph, {"node \"fc\", weight (fixed:width=4,rounding=floor,scale_rule=learned): fixed "
                               "with a learned scale has no "
                               "integers"});
  EXPECT_TRUE(weight_of(read).equals(weight_of(graph)));
}

TEST_F(WeightPacking, SaysWhatStaysFloat) {
  Graph graph = layer("binary:stochastic=true");
  const Graph read = written_and_read(
      graph, {"node \"fc\", weight (binary:stochastic=true): its rounding draws at random each time"});
  EXPECT_TRUE(weight_of(read).equals(weight_of(graph)));
  EXPECT_TRUE(read_safetensors(path_).metadata.contains("graph"));
  Tensor with_nan = normal_tensor({kOut, kIn}, 4);
  with_nan.values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(write_packed_graph(path_, layer("int4", with_nan)),
              ElementsAre(AllOf(HasSubstr("node \"fc\""), HasSubstr("element 3 is NaN"))));
}

TEST_F(WeightPacking, RefusesDamagedCodes) {
  write_packed_graph(path_, layer("int4:granularity=channel"));
  const SafetensorsFile good = read_safetensors(path_);
  const auto write = [&](const std::function<void(SafetensorsFile&)>& edit) {
    SafetensorsFile file = good;
    for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
    edit(file);
    write_safetensors(path_, file.tensors, file.metadata);
  };
  const auto tensor_of = [](SafetensorsFile& file, const std::string& name) -> Tensor& {
    return std::ranges::find(file.tensors, name, &std::pair<std::string, Tensor>::first)->second;
  };
  write([&](SafetensorsFile& file) { tensor_of(file, "fc.weight.scales").values<float>()[2] = -1; });
  expect_error("quantizer 0: key \"scale\": got -1");
  write([&](SafetensorsFile& file) {
    tensor_of(file, "fc.weight.codes") = Tensor(DType::kUInt8, {kOut * kIn / 2 - 1});
  });
  expect_error("tensor \"fc.weight.codes\" is uint8 of shape [1023], expected uint8 of shape [1024]");
  write([&](SafetensorsFile& file) {
    std::erase_if(file.tensors, [](const auto& entry) { return entry.first == "fc.weight.scales"; });
  });
  expect_error("the file has no tensor \"fc.weight.scales\"");
  const auto described = [&](const char* text) {
    write([&](SafetensorsFile& file) { file.metadata["detent.packed.fc.weight"] = text; });
  };
  described(R"({"format": "affine:width=4,symmetric=true,granularity=channel", "shape": [8, 1, 256], )"
            R"("packing": "bits"})");
  expect_error("node \"fc\" (linear): weight has shape [8, 1, 256]");
  described(
      R"({"format": "affine:width=4,symmetric=true,granularity=channel", "shape": [8, 1152921504606846976], )"
      R"("packing": "bits"})");
  expect_error("fc.weight");
  write([&](SafetensorsFile& file) {
    const Tensor bomb = [] {
      const std::string bytes = gzip_text(std::string(graph_layout::kMostGraphBytes + 1, ' '));
      return Tensor::from<uint8_t>({std::ssize(bytes)}, std::vector<uint8_t>(bytes.begin(), bytes.end()));
    }();
    tensor_of(file, graph_layout::kGraphTensor) = bomb;
  });
  expect_error("tensor \"graph.json.gz\"");
  described("{}");
  expect_error("metadata of the packed tensor \"fc.weight\"");
  write([&](SafetensorsFile& file) {
    std::string& graph = file.metadata["graph"] = graph_text(file);
    std::erase_if(file.tensors, [](const auto& entry) { return entry.first == graph_layout::kGraphTensor; });
    const std::string from = R"({"detent.tensor": "fc.weight.scales"})";
    graph.replace(graph.find(from), from.size(), R"({"detent.tensor": "fc.weight.codes"})");
  });
  expect_error("a tensor of uint8 is no list of numbers");
}

}  // namespace
}  // namespace detent
