#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "counted_memory_for_test.h"
#include "detent/engine.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"

// Memory of sessions of the C interface.

namespace detent {
namespace {

constexpr int64_t kSide = 512;

Graph square_network() {
  GraphBuilder builder("square");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {kSide}), kSide, kSide));
  Node& node = graph.node("fc");
  const auto weight = node.find_parameter("weight")->tensor.values<float>();
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 100) - 50;
  node.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.5");
  node.quantization["weight"] = parse_quant_spec_text("affine:scale=1");
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

class EngineSessions : public testing::Test {
 protected:
  EngineSessions() { write_graph(path_, square_network()); }
  ~EngineSessions() override { std::filesystem::remove(path_); }

  detent_program* open_and_run() {
    detent_program* program = nullptr;
    EXPECT_EQ(detent_program_load(path_.c_str(), &program), DETENT_OK) << detent_error_text();
    const detent_tensor input = {x_.data(), x_.size(), {1, kSide}, 2};
    detent_tensor output = {y_.data(), y_.size(), {}, 0};
    EXPECT_EQ(detent_program_run(program, &input, 1, &output, 1), DETENT_OK) << detent_error_text();
    return program;
  }

  std::string path_ = testing::TempDir() + "engine_sessions_" + std::to_string(getpid()) + ".mz";
  std::vector<float> x_ = std::vector<float>(kSide, 1);
  std::vector<float> y_ = std::vector<float>(kSide);
};

TEST_F(EngineSessions, TakeAByteAWeightOnceForAll) {
  constexpr int64_t kWeights = kSide * kSide;
  detent_program_free(open_and_run());
  const int64_t before = Memory::live();
  detent_program* first = open_and_run();
  const int64_t one = Memory::live() - before;
  EXPECT_GT(one, kWeights);
  EXPECT_LT(one, kWeights * 5 / 4);
  detent_program* second = open_and_run();
  EXPECT_LT(Memory::live() - before - one, 4096);
  detent_program_free(first);
  detent_program_free(second);
}

TEST_F(EngineSessions, LeaveNothingAfterAThousand) {
  detent_program_free(open_and_run());
  const int64_t before = Memory::live();
  for (int i = 0; i < 1000; ++i) detent_program_free(open_and_run());
  EXPECT_LT(Memory::live() - before, 4096);
}

}  // namespace
}  // namespace detent
