#include "detent/graph_files/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_layout.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor counting(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  float next = 0.5F;
  for (float& value : tensor.values<float>()) value = next = -1.25F * next + 1;
  return tensor;
}

/// x [1, 4] -> size, view -> linear -> batch_norm1d -> relu -> output, with a bit of everything attached.
Graph full_graph() {
  GraphBuilder builder("full");
  const NodeInput input = builder.input("x", {2, 2});
  const NodeInput batch = builder.call("size", {input, constant(0)});
  NodeInput x = builder.call("view", {input, batch, constant(-1)});
  x = builder.linear("layers.0", x, 4, 3);
  x = builder.batch_norm("batch_norm1d", "norm", x, 3);
  x = builder.call("relu", {x});
  Graph graph = builder.finish(x);
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) parameter->tensor = counting(parameter->tensor.shape());
  }
  Node& linear = graph.node("layers_0");
  linear.find_parameter("bias")->trainable = false;
  Ternary ternary;
  ternary.scaling_factor = true;
  ternary.max = 0.1F;
  linear.quantization["weight"] = QuantSpec{ternary, Granularity::kChannel, 0, {}};
  Fixed fixed;
  fixed.frac_width = -2;
  linear.quantization["data_in_0"] = QuantSpec{fixed, {}, 0, Gradient::kClipped};
  linear.statistics["weight"] =
      Table{{"range", Table{{"min", -0.1}, {"max", std::numeric_limits<double>::infinity()}, {"count", 12}}}};
  return graph;
}

void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name(), b.name());
  EXPECT_EQ(a.input_types(), b.input_types());
  ASSERT_EQ(a.node_names(), b.node_names());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node& left = a.nodes()[i];
    const Node& right = b.nodes()[i];
    EXPECT_EQ(left.target, right.target);
    EXPECT_EQ(left.op, right.op);
    EXPECT_EQ(left.mase_type, right.mase_type);
    EXPECT_EQ(left.inputs, right.inputs);
    EXPECT_EQ(left.attributes, right.attributes);
    EXPECT_EQ(left.statistics, right.statistics) << left.name;
    EXPECT_EQ(left.quantization, right.quantization) << left.name;
    ASSERT_EQ(left.parameters.size(), right.parameters.size());
    for (size_t j = 0; j < left.parameters.size(); ++j) {
      EXPECT_EQ(left.parameters[j].first, right.parameters[j].first);
      EXPECT_EQ(left.parameters[j].second->trainable, right.parameters[j].second->trainable);
      EXPECT_TRUE(left.parameters[j].second->tensor.equals(right.parameters[j].second->tensor));
    }
  }
}

class GraphFile : public testing::Test {
 protected:
  GraphFile() : path_(testing::TempDir() + "detent_" + std::to_string(getpid()) + ".mz") {}
  ~GraphFile() override { std::filesystem::remove(path_); }

  /// Writes full_graph() with `from` in its JSON replaced by `to`.
  void write_edited(const std::string& from, const std::string& to) {
    write_graph(path_, full_graph());
    SafetensorsFile file = read_safetensors(path_);
    std::string& text = file.metadata["graph"];
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    text.replace(at, from.size(), to);
    write_safetensors(path_, file.tensors, file.metadata);
  }
  void expect_error(const std::string& message) {
    EXPECT_THAT([&] { read_graph(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr(message))));
  }
  void expect_error_after_edit(const std::string& from, const std::string& to, const std::string& message) {
    write_edited(from, to);
    expect_error(message);
  }

  std::filesystem::path path_;
};

TEST_F(GraphFile, RoundTripsEverything) {
  const Graph graph = full_graph();
  write_graph(path_, graph);
  const Graph read = read_graph(path_);
  expect_same(graph, read);
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.tensors[0].first, "layers.0.weight");
  const std::string bytes = read_file(path_);
  write_graph(path_, read);
  EXPECT_EQ(read_file(path_), bytes);
}

TEST_F(GraphFile, KeepsUsualSizesOfNamedDimensions) {
  GraphBuilder builder("open");
  const TensorType type{DType::kFloat32, {kBatchName, 3, Dimension("t", 40)}};
  const Graph graph =
      builder.finish(builder.call("max_pool1d", {builder.input("x", type)}, {{"kernel_size", 20}}));
  write_graph(path_, graph);
  expect_same(graph, read_graph(path_));
  EXPECT_EQ(read_graph(path_).input_shapes().at("x"), (Shape{1, 3, 40}));
  SafetensorsFile file = read_safetensors(path_);
  std::string& text = file.metadata["graph"];
  for (const char* const wrong : {"-40", "\"40\"", "4, \"x\": 1"}) {
    std::string changed = text;
    const size_t at = changed.find("40", changed.find("usual_size"));
    changed.replace(at, 2, wrong);
    write_safetensors(
        path_, file.tensors,
        {{"format", file.metadata["format"]}, {"version", file.metadata["version"]}, {"graph", changed}});
    expect_error("");
  }
}

TEST_F(GraphFile, KeepsTiedParametersTied) {
  GraphBuilder builder("tied");
  NodeInput x = builder.linear("a", builder.input("x", {3}), 3, 3, false);
  x = builder.linear("b", x, 3, 3, false);
  Graph graph = builder.finish(x);
  graph.node("b").target = "a";
  write_graph(path_, graph);
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 2U);
  expect_same(graph, read_graph(path_));
  graph.node("b").parameters[0].second = graph.node("a").parameters[0].second;
  write_graph(path_, graph);
  EXPECT_EQ(read_safetensors(path_).tensors.size(), 1U);
  const Graph read = read_graph(path_);
  EXPECT_EQ(read.node("a").find_parameter("weight"), read.node("b").find_parameter("weight"));
}

TEST_F(GraphFile, RefusesGraphsThatBreakRules) {
  EXPECT_THAT([&] { write_graph(path_, Graph("empty")); },
              ThrowsMessage<Error>(AllOf(HasSubstr(path_.string()), HasSubstr("no nodes"))));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(GraphFile, RefusesOtherKindsOfFiles) {
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"w", counting({2})}};
  write_safetensors(path_, tensors, {{"format", "pt"}});
  expect_error("format \"pt\", expected \"detent.graph\"");
  write_safetensors(path_, tensors);
  expect_error("not a graph");
  write_safetensors(path_, tensors, {{"format", "detent.graph"}, {"version", "5"}});
  expect_error("version 5 of the graph format; this detent reads versions 1 to 4");
  write_safetensors(path_, tensors, {{"format", "detent.graph"}, {"version", "2"}});
  expect_error("no \"graph\"");
  write_file(path_, "PK\x03\x04 something else");
  expect_error("not a safetensors file");
}

TEST_F(GraphFile, NamesTheNodeThatIsWrong) {
  expect_error_after_edit(R"("op": "relu")", R"("op": "rellu")", "node \"relu\": unknown operator \"rellu\"");
  expect_error_after_edit(R"("op": "relu")", R"("op": 7)", "node \"relu\": \"op\": got 7 (an integer)");
  expect_error_after_edit(R"("name": "size")", R"("name": "x")", "node \"x\": the name is taken");
  expect_error_after_edit(R"({"node": "size"})", R"({"node": "seize"})", "node \"view\"");
  expect_error_after_edit(R"({"node": "size"})", "{}", "node \"view\" (view): input 1 is absent");
  expect_error_after_edit(R"({"node": "size"})", R"({"node": "size", "result": -1})", "\"result\": got -1");
  expect_error_after_edit(R"({"node": "size"})", R"({"node": "size", "result": 3})",
                          "node \"view\" reads result 3 of \"size\", which has 1");
  expect_error_after_edit(R"("tensor": "layers.0.bias")", R"("tensor": "layers.1.bias")",
                          "node \"layers_0\": the file has no tensor \"layers.1.bias\"");
  expect_error_after_edit(R"("trainable": false)", R"("trainable": "no")", "node \"layers_0\": a parameter");
  expect_error_after_edit(R"("format": "ternary")", R"("format": "terna")", "quantizer ");
  expect_error_after_edit(
      R"("weight": 1)", R"("weight": 2)",
      "node \"layers_0\": \"quantization\": \"weight\": got 2, expected the place of one of 2");
  expect_error_after_edit(R"("weight": 1)", R"("weight": "x")", "expected the place of one of 2 quantizers");
  expect_error_after_edit(R"("quantization": {)", R"("quantisation": {)", "unknown key \"quantisation\"");
  expect_error_after_edit(R"("shape": ["N", 2, 2])", R"("shape": ["N", 2, true])",
                          "\"shape\": got true, expected a size or its name");
  expect_error_after_edit(R"("shape": ["N", 2, 2])", R"("shape": ["N", 2, -2])",
                          "node \"x\": got the input type float32 [N, 2, -2]");
  expect_error_after_edit(R"("dtype": "float32")", R"("dtype": "float33")", "did you mean \"float32\"?");
  expect_error_after_edit(R"({"name": "full")", R"({"nam": "full")", "\"name\" is missing");
}

TEST_F(GraphFile, RefusesUnusedTensors) {
  write_graph(path_, full_graph());
  SafetensorsFile file = read_safetensors(path_);
  file.tensors.emplace_back("extra", counting({1}));
  write_safetensors(path_, file.tensors, file.metadata);
  expect_error("no node uses the tensor \"extra\"");
}

TEST_F(GraphFile, NoticesAnAlteredParameter) {
  write_graph(path_, full_graph());
  std::string text = read_file(path_);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_file(path_, text);
  expect_error("damaged: the CRC-32 of tensor");
}

/// Which had the same JSON as the second, and a checksum of its own.
TEST_F(GraphFile, ReadsTheFirstVersion) {
  const std::string second = DETENT_SOURCE_DIR "/tests/data/graphs_of_version_2/toy_learned_scale.mz";
  SafetensorsFile file = read_safetensors(second);
  file.metadata["version"] = "1";
  write_safetensors(path_, file.tensors, file.metadata);
  expect_error("no \"crc32\"");
  file.metadata["crc32"] = graph_layout::checksum(file.metadata["graph"], file.tensors);
  write_safetensors(path_, file.tensors, file.metadata);
  expect_same(read_graph(second), read_graph(path_));
  file.metadata["crc32"] = "00000000";
  write_safetensors(path_, file.tensors, file.metadata);
  expect_error("damaged: its CRC-32 is");
}

/// In which learned scales were parameters of the nodes: operands that shared a quantizer could have one
/// each.
TEST_F(GraphFile, ReadsTheThirdVersion) {
  const std::string third = DETENT_SOURCE_DIR "/tests/data/graphs_of_version_3/toy_learned_scale.mz";
  SafetensorsFile file = read_safetensors(third);
  EXPECT_EQ(file.metadata.at("version"), "3");
  const Graph graph = read_graph(third);
  write_graph(path_, graph);
  expect_same(graph, read_graph(path_));
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string& text = file.metadata["graph"];
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  replace(R"({"data_in_0": 0, "weight": 1})", R"({"data_in_0": 1, "weight": 1})");
  replace(R"("granularity": "channel", )", "");
  for (auto& [name, tensor] : file.tensors) {
    if (name == "l1.weight_scale") tensor = counting({});
  }
  write_safetensors(path_, file.tensors, file.metadata);
  const Graph shared = read_graph(path_);
  const auto scale_of = [&](const char* operand) {
    return shared.node("l1").find_quantizer(operand)->find_parameter("scale");
  };
  EXPECT_FALSE(scale_of("weight")->tensor.equals(scale_of("data_in_0")->tensor));
  EXPECT_TRUE(scale_of("weight")->tensor.equals(counting({})));
  replace("l1.weight_scale", "l1.data_in_0_scale");
  std::erase_if(file.tensors, [](const auto& entry) { return entry.first == "l1.weight_scale"; });
  write_safetensors(path_, file.tensors, file.metadata);
  const Graph tied = read_graph(path_);
  EXPECT_TRUE(tied.node("l1").quantization.at("weight").is(tied.node("l1").quantization.at("data_in_0")));
}

/// A file of version 4 has settings of quantizers among their parameters.
TEST_F(GraphFile, ReadsSettingsThatWereTensors) {
  const std::string former = DETENT_SOURCE_DIR "/tests/data/graphs_of_version_4/jsc_toy_in_training.mz";
  const Graph graph = read_graph(former);
  const Quantizer& weight = *graph.node("seq_blocks_2").find_quantizer("weight");
  EXPECT_EQ(weight.rounding, Rounding::kCeil);
  EXPECT_EQ(weight.norm_folding, NormFolding::kCorrected);
  EXPECT_EQ(weight.parameters.size(), 1U);
  const Quantizer& input = *graph.node("seq_blocks_2").find_quantizer("data_in_0");
  EXPECT_EQ(input.observer, (ScaleObserver{Threshold::kPercentile, 99.5F, 0.25F, 5, 0}));
  EXPECT_EQ(input.parameters.size(), 1U);
  write_graph(path_, graph);
  expect_same(graph, read_graph(path_));

  SafetensorsFile file = read_safetensors(former);
  const auto error_with = [&](const std::string& name, const Tensor& value) {
    SafetensorsFile changed = file;
    for (auto& [tensor_name, tensor] : changed.tensors)
      if (tensor_name.ends_with(name)) tensor = value;
    write_safetensors(path_, changed.tensors, changed.metadata);
    return error_of([&] { read_graph(path_); });
  };
  const auto number = [](float value) { return Tensor::from<float>({}, std::vector{value}); };
  EXPECT_THAT(error_with("_rounding", number(7)), HasSubstr("got 7, expected a whole number from 0 to 6"));
  EXPECT_THAT(error_with("_folds_norm", number(0.5F)),
              HasSubstr("got 0.5, expected a whole number from 0 to 2"));
  EXPECT_THAT(error_with("_collected", number(1)), HasSubstr("got float32 [], expected 5 of float32"));
}

/// As `detent quantize toy_tiny toy-tiny --weights int4` wrote it before weights were packed.
TEST_F(GraphFile, ReadsTheSecondVersionAndPacksIt) {
  const std::filesystem::path old = DETENT_SOURCE_DIR "/tests/data/graphs_of_version_2/toy_int4.mz";
  const Graph graph = read_graph(old);
  EXPECT_EQ(read_safetensors(old).metadata.at("version"), "2");
  EXPECT_EQ(packed_parameter_count(old), 0);
  write_graph(path_, graph);
  expect_same(graph, read_graph(path_));
  EXPECT_THAT(write_packed_graph(path_, graph), testing::IsEmpty());
  EXPECT_EQ(packed_parameter_count(path_), 1);
  EXPECT_LT(std::filesystem::file_size(path_), std::filesystem::file_size(old));
  const Graph packed = read_graph(path_);
  ASSERT_EQ(packed.node_names(), graph.node_names());
  for (const Node& node : graph.nodes()) {
    const Parameter* weight = node.find_parameter("weight");
    const QuantSpec* spec = node.find_quantization("weight");
    if (weight == nullptr || spec == nullptr) continue;
    const Tensor& stored = packed.node(node.name).find_parameter("weight")->tensor;
    EXPECT_TRUE(stored.equals(fake_quantize(*spec, weight->tensor)));
    EXPECT_EQ(*packed.node(node.name).find_quantization("weight"), *spec);
  }
}

/// A header has 100 MB at most, and recorded values may be more.
TEST_F(GraphFile, LongListsAreTensors) {
  Graph graph = full_graph();
  List samples;
  for (int i = 0; i < 3; ++i) {
    List sample;
    for (int j = 0; j < 1000; ++j) sample.push_back(0.5F * static_cast<float>(j - i));
    samples.push_back(std::move(sample));
  }
  samples.back().get_if<List>()->back() = std::numeric_limits<double>::infinity();
  Table& statistics = graph.node("layers_0").statistics["weight"];
  statistics["record"] = Table{{"data", samples}, {"count", 3}};
  statistics["histogram"] = Table{{"counts", List(300, 7)}};
  statistics["mean"] = Table{{"mean", List(300, 0.1)}};
  graph.node("view").statistics["data_in_0"]["record"] = Table{{"data", samples}};
  write_graph(path_, graph);
  expect_same(graph, read_graph(path_));
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_LT(file.metadata.at("graph").size(), 6000U);
  const auto found = std::ranges::find(file.tensors, "statistics.layers_0.record.data",
                                       &std::pair<std::string, Tensor>::first);
  ASSERT_NE(found, file.tensors.end());
  EXPECT_EQ(found->second.shape(), Shape({3, 1000}));
  EXPECT_EQ(found->second.dtype(), DType::kFloat32);
}

TEST_F(GraphFile, RefusesListsThatAreNotThere) {
  write_edited(R"("count": 12)", R"("count": {"detent.tensor": "none"})");
  expect_error("the file has no tensor \"none\"");
  write_edited(R"("count": 12)", R"("count": {"detent.tensor": "layers.0.weight", "more": 1})");
  expect_error("unknown key \"more\"");
  Graph graph = full_graph();
  graph.node("view").statistics["data_in_0"]["detent.tensor"] = "x";
  EXPECT_THROW(write_graph(path_, graph), Error);
}

TEST_F(GraphFile, EveryTruncationIsAnError) {
  GraphBuilder builder("small");
  write_graph(path_, builder.finish(builder.linear("l", builder.input("x", {2}), 2, 1)));
  const std::string text = read_file(path_);
  for (size_t size = 0; size < text.size(); ++size) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text.substr(0, size);
    EXPECT_THROW(read_graph(path_), Error) << size;
  }
}

TEST_F(GraphFile, FlippedBitsAreErrorsOrHarmless) {
  const Graph graph = full_graph();
  write_graph(path_, graph);
  const std::string original = read_file(path_);
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::string text = original;
    for (unsigned j = 0; j <= random() % 3; ++j) {
      const size_t at = random() % text.size();
      text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
    }
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
    try {
      expect_same(graph, read_graph(path_));
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace detent
