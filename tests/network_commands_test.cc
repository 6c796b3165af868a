// A network of somebody's own, with several inputs, through `detent info`, `run`, `quantize` and `export` as
// users run them.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/tensor.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSamples = 12;
constexpr int64_t kLength = 5;

/// Values between -1 and 1 that look random and are the same everywhere.
Tensor waves(const Shape& shape, double step) {
  Tensor tensor(DType::kFloat32, shape);
  double angle = 0;
  for (float& value : tensor.values<float>()) value = static_cast<float>(std::sin(angle += step));
  return tensor;
}

/// tokens int64 [N, length], positions float32 [N, length, 4] -> scores [N, length, 3] and their sums.
Graph tagger() {
  GraphBuilder builder("tagger");
  const NodeInput tokens = builder.input("tokens", TensorType{DType::kInt64, {kBatchName, "length"}});
  const NodeInput positions =
      builder.input("positions", TensorType{DType::kFloat32, {kBatchName, "length", 4}});
  const NodeInput rows = builder.layer("embedding", "embed", {tokens}, {{"weight", {11, 4}}});
  const NodeInput sum = builder.call("add", {rows, positions});
  const NodeInput hidden = builder.module("relu", "relu", builder.linear("up", sum, 4, 8));
  Graph graph = builder.finish(builder.linear("down", hidden, 8, 3));
  double step = 0.7;
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters)
      parameter = Parameter{waves(parameter->tensor.shape(), step += 0.11), true};
  }
  return graph;
}

class NetworkCommands : public testing::Test {
 protected:
  NetworkCommands() : folder_(fs::temp_directory_path() / fmt::format("detent_network_{}", getpid())) {
    fs::create_directories(folder_);
    write_graph(folder_ / "tagger.mz", tagger());
    Tensor tokens(DType::kInt64, {kSamples, kLength});
    int64_t next = 0;
    for (int64_t& token : tokens.values<int64_t>()) token = (next += 7) % 11;
    tokens_ = tokens;
    positions_ = waves({kSamples, kLength, 4}, 1.3);
  }
  ~NetworkCommands() override { fs::remove_all(folder_); }

  /// The exit status; what is printed ends in `log`.
  int run(const std::string& command) { return run_in(folder_, "detent " + command); }
  void samples(const std::vector<std::pair<std::string, Tensor>>& tensors) const {
    write_safetensors(folder_ / "samples.safetensors", tensors);
  }
  std::string log() const { return read_file(folder_ / "log.txt"); }

  fs::path folder_;
  Tensor tokens_;
  Tensor positions_;
};

TEST_F(NetworkCommands, InfoTellsWhatANetworkTakesAndCosts) {
  ASSERT_EQ(run("info tagger.mz"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("inputs: tokens int64 [N, length], positions float32 [N, length, 4]\n"),
                           HasSubstr("outputs: down float32 [N, length, 3]\n"),
                           HasSubstr("operators: 1 x add, 1 x embedding, 2 x linear, 1 x relu\n"),
                           HasSubstr("parameters: 111\n")));
  // 11 biases stay float32; 44 weights of rows and 56 of layers take a byte each, and 22 scales.
  EXPECT_THAT(log(), ContainsRegex("as it is +\\| +444 \\| +32\\.00"));
  EXPECT_THAT(log(), ContainsRegex("int8:granularity=channel +\\| +232 \\| +15\\.04"));
}

TEST_F(NetworkCommands, InfoDrawsIt) {
  ASSERT_EQ(run("info tagger.mz --graph tagger.dot"), 0) << log();
  EXPECT_THAT(read_file(folder_ / "tagger.dot"),
              AllOf(HasSubstr("\"add\" -> \"up\";"), HasSubstr("label=\"up\\nlinear\\n[1, 1, 8]\"")));
  EXPECT_EQ(run("info tagger.mz --graph tagger.txt"), 1);
  EXPECT_THAT(log(), HasSubstr("got the ending \".txt\", expected .svg, .png, .pdf or .dot"));
  EXPECT_EQ(run("info log.txt --graph x.svg"), 1);
  const bool has_dot = std::system("command -v dot > /dev/null") == 0;
  const int status = run("info tagger.mz --graph tagger.svg");
  if (has_dot) {
    EXPECT_EQ(status, 0) << log();
    EXPECT_THAT(read_file(folder_ / "tagger.svg"), AllOf(HasSubstr("<svg"), HasSubstr("embedding")));
  } else {
    EXPECT_EQ(status, 1);
    EXPECT_THAT(log(), HasSubstr("install graphviz"));
    EXPECT_FALSE(fs::exists(folder_ / "tagger.svg"));
  }
}

TEST_F(NetworkCommands, RunTakesInputsByNameAndShowsValuesInside) {
  write_npy(folder_ / "tokens.npy", tokens_);
  write_npy(folder_ / "positions.npy", positions_);
  const std::string inputs = "run tagger.mz --input tokens=tokens.npy --input positions=positions.npy ";
  ASSERT_EQ(run(inputs + "--value add --output-dir out"), 0) << log();
  EXPECT_THAT(log(),
              AllOf(ContainsRegex("down +\\| float32 \\| \\[12, 5, 3\\]"), HasSubstr("2 arrays in out")));
  const Tensor sum = read_npy(folder_ / "out/add.npy");
  const Tensor rows = tagger().node("embed").find_parameter("weight")->tensor;
  const auto row = static_cast<size_t>(tokens_.values<int64_t>()[1]);
  EXPECT_EQ(sum.values<float>()[4], rows.values<float>()[4 * row] + positions_.values<float>()[4]);
  ASSERT_EQ(run(inputs + "--compare down=out/down.npy"), 0) << log();
  EXPECT_THAT(log(), ContainsRegex("down +\\| +0 \\| +0 \\| +0 \\| equal"));
  for (const char* engine : {"reference", "fast"})
    EXPECT_EQ(run(inputs + "--compare down=out/down.npy --engine " + engine), 0) << log();
  EXPECT_EQ(run(inputs + "--integers"), 1);
  EXPECT_THAT(log(), HasSubstr("is not quantized for integer execution"));
  for (const char* engine : {"simulation", "reference", "fast"})
    EXPECT_EQ(run(inputs + "--value add --before-quantization --compare add=out/add.npy --engine " + engine),
              0)
        << log();
  EXPECT_EQ(run(inputs + "--compare down=out/add.npy"), 1);
  EXPECT_THAT(log(), HasSubstr("got shape [12, 5, 3], out/add.npy has [12, 5, 4]"));
  EXPECT_EQ(run("run tagger.mz --input token=tokens.npy"), 1);
  EXPECT_THAT(log(), HasSubstr("did you mean \"tokens\""));
  EXPECT_EQ(run("run tagger.mz --input tokens=positions.npy"), 1);
  EXPECT_THAT(log(), HasSubstr("got float32, expected int64 for the input \"tokens\""));
}

/// Each of its outputs is twice the input and more.
Graph with_outputs(const std::vector<std::string>& names) {
  GraphBuilder builder("named");
  NodeInput value = builder.input("x", {3});
  std::vector<NodeInput> outputs;
  for (size_t i = 0; i < names.size(); ++i) outputs.push_back(value = builder.call("add", {value, value}));
  Graph graph = builder.finish(outputs.front());
  Node& output = graph.node(graph.nodes().back().name);
  output.inputs = outputs;
  output.source_names = names;
  return graph;
}

TEST_F(NetworkCommands, RunWritesEachOutputIntoAFileOfItsOwn) {
  const std::vector<std::string> names = {"a b", "a/b", "a_b", "a_b_2", "plain"};
  write_graph(folder_ / "named.mz", with_outputs(names));
  write_npy(folder_ / "one.npy", Tensor::from<float>({1, 3}, {1, 1, 1}));
  ASSERT_EQ(run("run named.mz --input x=one.npy --output-dir out"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("5 arrays in out\na b in a_b_3.npy\na/b in a_b_4.npy\n"),
                           Not(HasSubstr("plain in"))));
  float expected = 1;
  for (const char* file : {"a_b_3", "a_b_4", "a_b", "a_b_2", "plain"}) {
    const Tensor array = read_npy(folder_ / "out" / fmt::format("{}.npy", file));
    EXPECT_EQ(array.values<float>()[0], expected *= 2) << file;
  }
}

TEST_F(NetworkCommands, RunComparesWithWhatWasThereBefore) {
  write_graph(folder_ / "named.mz", with_outputs({"y"}));
  write_npy(folder_ / "one.npy", Tensor::from<float>({1, 3}, {1, 1, 1}));
  write_npy(folder_ / "out/y.npy", Tensor(DType::kFloat32, {1, 3}));
  const std::string before = read_file(folder_ / "out/y.npy");
  const std::string command = "run named.mz --input x=one.npy --output-dir out ";
  EXPECT_EQ(run(command + "--compare y=out/y.npy"), 1);
  EXPECT_THAT(log(), HasSubstr("--output-dir: out/y.npy is read, and would be replaced"));
  EXPECT_EQ(run(command + "--compare y=out/y.npy --overwrite"), 1);
  EXPECT_EQ(run(command), 1);
  EXPECT_THAT(log(), HasSubstr("out/y.npy exists: give another name, or replace it with --overwrite"));
  EXPECT_EQ(read_file(folder_ / "out/y.npy"), before);
  EXPECT_EQ(run("run named.mz --input x=one.npy --compare y=out/y.npy"), 1) << log();
  EXPECT_THAT(log(), ContainsRegex("y +\\| +2 "));
  EXPECT_EQ(run(command + "--overwrite"), 0) << log();
  EXPECT_NE(read_file(folder_ / "out/y.npy"), before);
}

TEST_F(NetworkCommands, NamesThatAreNoUtf8DoNotStopJson) {
  write_npy(folder_ / "t\xff.npy", tokens_);
  ASSERT_EQ(run("run tagger.mz --input 'tokens=t\xff.npy' --output-dir 'o\xff' --json"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("o\xef\xbf\xbd/down.npy"));
  fs::copy(folder_ / "tagger.mz", folder_ / "n\xff.mz");
  EXPECT_EQ(run("info 'n\xff.mz' --json"), 0) << log();
}

TEST_F(NetworkCommands, QuantizeCalibratesWithSeveralInputsAndShowsEachOutput) {
  samples({{"positions", positions_}, {"tokens", tokens_}});
  ASSERT_EQ(run("quantize tagger.mz --calibration samples.safetensors --project q -o tagger.onnx"), 0)
      << log();
  EXPECT_THAT(log(),
              AllOf(HasSubstr("length = 5, as the samples have it"), HasSubstr("12 samples profiled"),
                    ContainsRegex("\\| down +\\| +[2-6][0-9]\\.[0-9]+ \\| +0\\.999"),
                    HasSubstr("accuracy: not measured"), HasSubstr("all integers equal fake quantization")));
  EXPECT_THAT(read_file(folder_ / "detent_output/q/software/quantize/quantization_outputs.csv"),
              HasSubstr("output,SQNR,cosine"));
  const std::string quantized = "detent_output/q/software/quantize/graph_module.mz";
  write_npy(folder_ / "tokens.npy", tokens_);
  write_npy(folder_ / "positions.npy", positions_);
  const std::string inputs = " --input tokens=tokens.npy --input positions=positions.npy ";
  ASSERT_EQ(run("run " + quantized + inputs + "--output-dir out"), 0) << log();
  ASSERT_EQ(run("run tagger.onnx" + inputs + "--compare down=out/down.npy --rtol 0 --atol 0"), 0) << log();
  ASSERT_EQ(run("bench " + quantized + " --seconds 0.01 --profile"), 0) << log();
  EXPECT_THAT(log(), ContainsRegex("\\| [a-z]+ +\\| float "));
}

TEST_F(NetworkCommands, CalibrationFilesThatDoNotFitAreNamed) {
  samples({{"positions", positions_}, {"token", tokens_}});
  EXPECT_EQ(run("quantize tagger.mz --calibration samples.safetensors"), 1);
  EXPECT_THAT(log(), HasSubstr("holds positions, token, but no \"tokens\", an input of the network"));
  write_npy(folder_ / "tokens.npy", tokens_);
  EXPECT_EQ(run("quantize tagger.mz --calibration tokens.npy"), 1);
  EXPECT_THAT(log(), HasSubstr("it holds one input, the network takes 2"));
  samples({{"positions", positions_}, {"tokens", positions_}});
  EXPECT_EQ(run("quantize tagger.mz --calibration samples.safetensors"), 1);
  EXPECT_THAT(log(), HasSubstr("samples.safetensors: tokens: got float32, the network takes int64"));
  samples({{"positions", positions_.rows(0, 7)}, {"tokens", tokens_}});
  EXPECT_EQ(run("quantize tagger.mz --calibration samples.safetensors"), 1);
  EXPECT_THAT(log(), HasSubstr("got positions [7, 5, 4], expected [12, ...]"));
  samples({{"positions", waves({kSamples, 4, 4}, 1)}, {"tokens", tokens_}});
  EXPECT_EQ(run("quantize tagger.mz --calibration samples.safetensors"), 1);
  EXPECT_THAT(log(),
              HasSubstr("takes int64 [N, length], float32 [N, length, 4], the data set has int64 [1, 5], "
                        "float32 [1, 4, 4]"));
  EXPECT_FALSE(fs::exists(folder_ / "detent_output")) << "nothing was begun";
}

TEST_F(NetworkCommands, NetworksWithoutInputsTakeNoSamples) {
  GraphBuilder builder("table");
  const NodeInput numbers =
      builder.call("full", {NodeInput::of_constant(Value(std::vector<int64_t>{2, 3}))}, {{"value", 0.5}});
  write_graph(folder_ / "table.mz", builder.finish(numbers));
  samples({{"tokens", tokens_}});
  for (const char* command : {"quantize", "search"}) {
    EXPECT_EQ(run(fmt::format("{} table.mz --calibration samples.safetensors", command)), 1);
    EXPECT_THAT(log(), HasSubstr("table.mz: graph \"table\" has no inputs"));
  }
}

}  // namespace
}  // namespace detent
