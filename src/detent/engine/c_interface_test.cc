#include "detent/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"

namespace detent {
namespace {

using testing::HasSubstr;

Graph sums_network() {
  GraphBuilder builder("sums");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {3}), 3, 2));
  Node& node = graph.node("fc");
  const auto weight = node.find_parameter("weight")->tensor.values<float>();
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i) - 2;
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
  node.quantization["weight"] = parse_quant_spec_text("affine:scale=1");
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

/// One head of attention as in a transformer: float nodes between layers on codes.
Graph attention_network() {
  GraphBuilder b("attention");
  const NodeInput x = b.input("x", {3, 4});
  const NodeInput last_dim = b.layer("layer_norm", "norm", {x}, {{"weight", {4}}, {"bias", {4}}},
                                     {{"normalized_shape", List{Value(4)}}});
  const NodeInput rows = b.linear("rows", last_dim, 4, 4);
  const NodeInput columns = b.call("transpose", {rows}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput shares = b.call("softmax", {b.call("matmul", {rows, columns})});
  const NodeInput mixed = b.call("gelu", {b.call("matmul", {shares, rows})});
  Graph graph = b.finish(b.linear("last", mixed, 4, 2));
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      float value = 0.7F;
      for (float& element : parameter->tensor.values<float>()) element = value = 1.3F - value * value;
    }
  }
  for (const char* layer : {"rows", "last"}) {
    graph.node(layer).quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.02");
    graph.node(layer).quantization["weight"] = parse_quant_spec_text("affine:symmetric=true,scale=0.01");
  }
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

class EngineInC : public testing::Test {
 protected:
  EngineInC() { write_graph(path_, sums_network()); }
  ~EngineInC() override { std::filesystem::remove(path_); }

  detent_program* load() const {
    detent_program* program = nullptr;
    EXPECT_EQ(detent_program_load(path_.c_str(), &program), DETENT_OK) << detent_error_text();
    return program;
  }

  std::string path_ = testing::TempDir() + "engine_in_c_" + std::to_string(getpid()) + ".mz";
  std::vector<float> x_ = {1, 2, -1, 0, 0.5F, 4};
  std::vector<float> y_ = std::vector<float>(4);
  detent_tensor input_ = {x_.data(), x_.size(), {2, 3}, 2};
  detent_tensor output_ = {y_.data(), y_.size(), {}, 0};
};

TEST_F(EngineInC, GivesWhatTheReferenceGives) {
  detent_program* program = load();
  EXPECT_EQ(detent_engine_version(), DETENT_ENGINE_VERSION);
  EXPECT_EQ(detent_program_input_count(program), 1U);
  EXPECT_STREQ(detent_program_input_name(program, 0), "x");
  EXPECT_EQ(detent_program_input_name(program, 1), nullptr);
  EXPECT_EQ(detent_program_output_count(program), 1U);
  ASSERT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_OK) << detent_error_text();
  const Tensor x = Tensor::from<float>({2, 3}, x_);
  const Tensor wanted = IntegerProgram(sums_network()).run(std::span(&x, 1)).front();
  EXPECT_EQ(Shape(output_.shape, output_.shape + output_.rank), wanted.shape());
  EXPECT_THAT(y_, testing::ElementsAreArray(wanted.values<float>()));
  detent_program_free(program);
}

TEST_F(EngineInC, ComputesFloatNodesOfTransformers) {
  write_graph(path_, attention_network());
  detent_program* program = load();
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<float> y(12);
  detent_tensor input = {x.data(), x.size(), {2, 3, 4}, 3};
  detent_tensor output = {y.data(), y.size(), {}, 0};
  ASSERT_EQ(detent_program_run(program, &input, 1, &output, 1), DETENT_OK) << detent_error_text();
  const Tensor values = Tensor::from<float>({2, 3, 4}, x);
  const Tensor wanted = IntegerProgram(attention_network()).run(std::span(&values, 1)).front();
  EXPECT_THAT(y, testing::ElementsAreArray(wanted.values<float>()));
  EXPECT_GT(std::fabs(y[0] - y[5]), 0.01F);
  detent_program_free(program);
}

TEST_F(EngineInC, ComputesValuesOfFormatsWithoutCodes) {
  Graph graph = sums_network();
  graph.node("fc").quantization["data_in_0"] = parse_quant_spec_text("scaled:scale=0.01");
  graph.node("fc").quantization["weight"] = parse_quant_spec_text("mx:element=e2m1");
  write_graph(path_, graph);
  detent_program* program = load();
  x_ = {1.37F, -2.03F, 0.71F, 0.013F, 3.9F, -0.55F};
  ASSERT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_OK) << detent_error_text();
  const Tensor x = Tensor::from<float>({2, 3}, x_);
  const Tensor wanted = IntegerProgram(graph).run(std::span(&x, 1)).front();
  EXPECT_THAT(y_, testing::ElementsAreArray(wanted.values<float>()));
  graph.node("fc").quantization.erase("data_in_0");
  EXPECT_FALSE(IntegerProgram(graph).run(std::span(&x, 1)).front().equals(wanted))
      << "inputs are not rounded";
  detent_program_free(program);
}

/// Rows of a table by the indices of tokens, how many there are, and which of two outputs is larger.
Graph tokens_network() {
  GraphBuilder b("tokens");
  const NodeInput tokens = b.input("tokens", TensorType{DType::kInt64, {kBatchName, "length"}});
  const NodeInput rows = b.layer("embedding", "rows", {tokens}, {{"weight", {5, 2}}});
  const NodeInput larger = b.call("argmax", {rows}, {{"dim", -1}, {"keepdim", false}});
  const NodeInput positive = b.call("gt", {rows, NodeInput::of_constant(Value(0.0))});
  Graph graph = b.finish({rows, larger, positive});
  const auto weight = graph.node("rows").find_parameter("weight")->tensor.values<float>();
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = i % 3 == 0 ? -static_cast<float>(i) : static_cast<float>(i);
  return graph;
}

TEST_F(EngineInC, TakesAndGivesTensorsOfIntegers) {
  write_graph(path_, tokens_network());
  detent_program* program = load();
  detent_description about = {};
  ASSERT_EQ(detent_program_input(program, 0, &about), DETENT_OK);
  EXPECT_STREQ(about.name, "tokens");
  EXPECT_EQ(about.type, DETENT_INT64);
  EXPECT_EQ(Shape(about.shape, about.shape + about.rank), Shape({-1, -1}));
  ASSERT_EQ(detent_program_output(program, 0, &about), DETENT_OK);
  EXPECT_EQ(about.type, DETENT_FLOAT32);
  EXPECT_EQ(Shape(about.shape, about.shape + about.rank), Shape({-1, -1, 2}));
  ASSERT_EQ(detent_program_output(program, 1, &about), DETENT_OK);
  EXPECT_EQ(about.type, DETENT_INT64);
  EXPECT_EQ(detent_type_size(about.type), sizeof(int64_t));

  int64_t tokens[] = {1, 4, 2};
  detent_value input = {DETENT_INT64, tokens, sizeof(tokens), {1, 3}, 2};
  float rows[6] = {};
  int64_t larger[3] = {};
  bool positive[6] = {};
  detent_value outputs[] = {{DETENT_FLOAT32, rows, sizeof(rows), {}, 0},
                            {DETENT_FLOAT32, larger, sizeof(larger), {}, 0},
                            {DETENT_FLOAT32, positive, sizeof(positive), {}, 0}};
  ASSERT_EQ(detent_program_run_values(program, &input, 1, outputs, 3), DETENT_OK) << detent_error_text();
  EXPECT_THAT(rows, testing::ElementsAre(2, -3, 8, -9, 4, 5));
  EXPECT_EQ(outputs[1].type, DETENT_INT64);
  EXPECT_EQ(Shape(outputs[1].shape, outputs[1].shape + outputs[1].rank), Shape({1, 3}));
  EXPECT_THAT(larger, testing::ElementsAre(0, 0, 1));
  EXPECT_EQ(outputs[2].type, DETENT_BOOL);
  EXPECT_THAT(positive, testing::ElementsAre(true, false, true, false, true, true));

  tokens[1] = 5;
  EXPECT_EQ(detent_program_run_values(program, &input, 1, outputs, 3), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("got the index 5 of a dimension of 5"));
  outputs[1].bytes = 8;
  tokens[1] = 0;
  EXPECT_EQ(detent_program_run_values(program, &input, 1, outputs, 3), DETENT_BAD_ARGUMENT);
  EXPECT_STREQ(detent_error_text(), "output 1: got room for 1 elements, expected 3");
  input.type = DETENT_INT32;
  EXPECT_EQ(detent_program_run_values(program, &input, 1, outputs, 3), DETENT_BAD_INPUT);
  EXPECT_STREQ(detent_error_text(), "input 0: got 6 elements for the shape [1, 3]");
  input.type = static_cast<detent_type>(15);
  EXPECT_EQ(detent_program_run_values(program, &input, 1, outputs, 3), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("got the type 15"));
  detent_tensor as_float = {rows, 6, {1, 3}, 2};
  detent_tensor floats[] = {output_, output_, output_};
  EXPECT_EQ(detent_program_run(program, &as_float, 1, floats, 3), DETENT_BAD_ARGUMENT);
  EXPECT_THAT(detent_error_text(), HasSubstr("is int64: detent_program_run_values gives it"));
  EXPECT_EQ(detent_program_output(program, 3, &about), DETENT_BAD_ARGUMENT);
  EXPECT_STREQ(detent_error_text(), "got the index 3 of 3");
  EXPECT_EQ(detent_program_input(program, 0, nullptr), DETENT_BAD_ARGUMENT);
  EXPECT_EQ(detent_type_size(static_cast<detent_type>(15)), 0U);
  detent_program_free(program);
}

TEST_F(EngineInC, ComputesNetworksWithoutQuantizersInFloat) {
  GraphBuilder b("float");
  Graph graph = b.finish(b.call("softmax", {b.linear("fc", b.input("x", {3}), 3, 2)}));
  for (float& weight : graph.node("fc").find_parameter("weight")->tensor.values<float>()) weight = 0.25F;
  write_graph(path_, graph);
  detent_program* program = load();
  ASSERT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_OK) << detent_error_text();
  EXPECT_THAT(y_, testing::Each(0.5F));
  x_[0] = NAN;
  ASSERT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_OK);
  EXPECT_TRUE(std::isnan(y_[0]) && !std::isnan(y_[2])) << "no codes that NaN would not have";
  detent_program_free(program);
}

TEST_F(EngineInC, SaysWhatDoesNotFit) {
  detent_program* program = load();
  EXPECT_EQ(detent_program_run(program, &input_, 0, &output_, 1), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("got 0 inputs, expected 1"));
  EXPECT_EQ(detent_program_run(program, &input_, 1, &output_, 2), DETENT_BAD_ARGUMENT);
  detent_tensor wrong = input_;
  wrong.shape[1] = 2;
  EXPECT_EQ(detent_program_run(program, &wrong, 1, &output_, 1), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("got 6 elements for the shape [2, 2]"));
  wrong = {x_.data(), 6, {3, 2}, 2};
  EXPECT_EQ(detent_program_run(program, &wrong, 1, &output_, 1), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("expected float32 [N, 3]"));
  output_.size = 3;
  EXPECT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_BAD_ARGUMENT);
  EXPECT_THAT(detent_error_text(), HasSubstr("got room for 3 elements, expected 4"));
  EXPECT_EQ(output_.shape[1], 2);
  x_[4] = NAN;
  EXPECT_EQ(detent_program_run(program, &input_, 1, &output_, 1), DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("element 4 of its input is NaN"));
  for (const int32_t threads : {0, -1, 100'000}) {
    EXPECT_EQ(detent_set_threads(threads), DETENT_BAD_ARGUMENT);
    EXPECT_THAT(detent_error_text(), HasSubstr("expected 1 to 4096"));
  }
  detent_program_free(program);
  detent_program_free(nullptr);
}

TEST_F(EngineInC, RefusesDamagedFiles) {
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  detent_program* program = nullptr;
  for (size_t size = 0; size < bytes.size(); size += 61) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
    EXPECT_EQ(detent_program_load(path_.c_str(), &program), DETENT_BAD_FILE) << size;
    EXPECT_EQ(program, nullptr);
    EXPECT_STRNE(detent_error_text(), "");
  }
  EXPECT_EQ(detent_program_load("no-such-file.mz", &program), DETENT_BAD_FILE);
  EXPECT_EQ(detent_program_load(nullptr, &program), DETENT_BAD_ARGUMENT);
}

TEST_F(EngineInC, RefusesWhatIsNoGraph) {
  detent_program* program = nullptr;
  EXPECT_EQ(detent_program_load(testing::TempDir().c_str(), &program), DETENT_BAD_FILE);
  EXPECT_THAT(detent_error_text(), HasSubstr("it is a folder, expected a graph (.mz)"));
  EXPECT_EQ(detent_program_load("/dev/null", &program), DETENT_BAD_FILE);
  EXPECT_THAT(detent_error_text(), HasSubstr("it is a device"));
  const std::string fifo = path_ + ".fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(detent_program_load(fifo.c_str(), &program), DETENT_BAD_FILE);
  EXPECT_THAT(detent_error_text(), HasSubstr("it is a FIFO"));
  std::filesystem::remove(fifo);
  std::ofstream(path_, std::ios::binary) << "\x08\x08\x12\x07pytorch and so on";
  EXPECT_EQ(detent_program_load(path_.c_str(), &program), DETENT_BAD_FILE);
  EXPECT_THAT(detent_error_text(),
              HasSubstr("it is an ONNX model, expected a graph (.mz): `detent quantize"));
}

TEST_F(EngineInC, ManySessionsOfOneFileRunAtOnce) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 125; ++i) {
        detent_program* program = load();
        std::vector<float> y(4);
        detent_tensor output = {y.data(), y.size(), {}, 0};
        EXPECT_EQ(detent_program_run(program, &input_, 1, &output, 1), DETENT_OK);
        detent_program_free(program);
      }
    });
  }
}

}  // namespace
}  // namespace detent
