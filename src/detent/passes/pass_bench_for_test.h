#pragma once

#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "detent/core/error_of_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/toml.h"
#include "detent/graph/random_parameters_for_test.h"
#include "detent/passes/pass.h"

namespace detent {

/// Samples of a normal distribution; the same ones each time.
class RandomSamples final : public CalibrationSet {
 public:
  explicit RandomSamples(Shape sample) : sample_(std::move(sample)) {}
  int64_t size() const override { return 20; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override { return {samples(begin, end)}; }
  Tensor samples(int64_t begin, int64_t end) const {
    Shape shape = sample_;
    shape[0] = end;
    Tensor first(DType::kFloat32, shape);
    std::mt19937 generator(0);
    std::normal_distribution<float> normal;
    for (float& value : first.values<float>()) value = normal(generator);
    return first.rows(begin, end);
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  Shape sample_;
};

/// A network with random weights and running statistics, and passes to run on it.
class PassBench {
 public:
  explicit PassBench(Graph network, uint64_t seed = 0) : graph(std::move(network)) {
    draw_parameters(graph, seed);
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(0.5F, 2.0F);
    for (Node& node : graph.nodes()) {
      if (!node.op.starts_with("batch_norm")) continue;
      for (auto& [name, parameter] : node.parameters) {
        for (float& value : parameter->tensor.values<float>()) value = uniform(generator);
      }
    }
    context.open_calibration = [this] { return std::make_unique<RandomSamples>(sample_shape()); };
    context.executor = [this]() -> Executor& { return executor; };
    context.report = [this](const std::string& text) { reported += text; };
    context.warn = [this](const std::string& text) { reported += text + "\n"; };
    context.output_dir = testing::TempDir() + "detent_pass_bench_" + std::to_string(getpid());
  }

  PassBench(const PassBench&) = delete;
  PassBench& operator=(const PassBench&) = delete;

  Shape sample_shape() const { return graph.input_shapes().begin()->second; }

  void run_passes(const std::string& toml) {
    run_pipeline(graph, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context);
  }

  /// "" when they succeed.
  std::string error_of(const std::string& toml) {
    return detent::error_of([&] { run_passes(toml); });
  }

  std::vector<float> outputs(const Graph& network) {
    const Tensor inputs = RandomSamples(sample_shape()).samples(0, 5);
    const Tensor result = executor.run(network, std::span(&inputs, 1));
    return {result.values<float>().begin(), result.values<float>().end()};
  }

  Graph graph;
  FastExecutor executor;
  PassContext context;
  std::string reported;
};

/// To float32's precision of the largest value.
inline void expect_close(const std::vector<float>& expected, const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], actual[i], 1e-5F * largest) << i;
}

}  // namespace detent
