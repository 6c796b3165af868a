#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "detent/execution/initialize.h"
#include "detent/execution/interpreter.h"
#include "detent/graph/builder.h"
#include "detent/io/toml.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"

// The passes that simplify a network, held to what it computes.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RandomSamples final : public CalibrationSet {
 public:
  explicit RandomSamples(Shape sample) : sample_(std::move(sample)) {}
  int64_t size() const override { return 20; }
  Tensor samples(int64_t begin, int64_t end) const override {
    Shape shape = sample_;
    shape[0] = end - begin;
    Tensor batch(DType::kFloat32, shape);
    std::mt19937 generator(static_cast<uint32_t>(begin));
    std::normal_distribution<float> normal;
    for (float& value : batch.values<float>()) value = normal(generator);
    return batch;
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  Shape sample_;
};

class GraphRewriting : public testing::Test {
 protected:
  void use(Graph graph) {
    graph_ = std::move(graph);
    seed_everything(0);
    initialize_parameters(graph_);
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(0.5F, 2.0F);
    for (Node& node : graph_.nodes()) {
      if (!node.op.starts_with("batch_norm")) continue;
      for (auto& [name, parameter] : node.parameters) {
        for (float& value : parameter.tensor.values<float>()) value = uniform(generator);
      }
    }
    context_.open_calibration = [this] {
      return std::make_unique<RandomSamples>(graph_.input_shapes().begin()->second);
    };
    context_.executor = [this]() -> Executor& { return executor_; };
    context_.report = [this](const std::string& text) { reported_ += text; };
  }

  void run_passes(const std::string& toml) {
    run_pipeline(graph_, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context_);
  }

  std::string error_of(const std::string& toml) {
    try {
      run_passes(toml);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::vector<float> outputs(const Graph& graph) {
    const Tensor inputs = context_.open_calibration()->samples(0, 5);
    const Tensor result = executor_.run(graph, std::span(&inputs, 1));
    return {result.values<float>().begin(), result.values<float>().end()};
  }

  void expect_close(const std::vector<float>& expected, const std::vector<float>& actual) {
    ASSERT_EQ(expected.size(), actual.size());
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], actual[i], 1e-5F * largest) << i;
  }

  Graph graph_;
  TorchExecutor executor_;
  PassContext context_;
  std::string reported_;
};

TEST_F(GraphRewriting, BatchNormsOfResidualNetworksFold) {
  for (const char* model : {"resnet20", "mobilenet_v2"}) {
    use(build_model(model, {3, 32, 32}, 10));
    const std::vector<float> before = outputs(graph_);
    const auto unfused = graph_.deep_copy();
    run_passes("[passes.fuse_batch_norm]");
    EXPECT_THAT(graph_.node_names(), Not(testing::Contains(HasSubstr("bn")))) << model;
    expect_close(before, outputs(graph_));
    EXPECT_LT(graph_.parameter_count(), unfused.parameter_count());
    EXPECT_EQ(outputs(unfused), before) << "the copy shares no parameters";
  }
  EXPECT_THAT(reported_, HasSubstr("fuse_batch_norm: 19 of 19 folded; outputs differ by at most"));
}

TEST_F(GraphRewriting, BatchNormsFoldIntoEveryKindOfLayer) {
  GraphBuilder builder("layers");
  NodeInput x = builder.input("x", {4, 9, 9});
  x = builder.layer("convtranspose2d", "up", {x}, {{"weight", {4, 3, 2, 2}}, {"bias", {6}}},
                    {{"groups", 2}, {"stride", 2}});
  x = builder.batch_norm("batch_norm2d", "bn1", x, 6);
  x = builder.convolution("depthwise", x, 6, 6, {3, 3}, {{"groups", 6}}, false);
  x = builder.batch_norm("batch_norm2d", "bn2", x, 6);
  x = builder.call("flatten", {x});
  x = builder.linear("fc", x, 6 * 16 * 16, 7);
  x = builder.batch_norm("batch_norm1d", "bn3", x, 7);
  use(builder.finish(x));
  const std::vector<float> before = outputs(graph_);
  run_passes("[passes.fuse_batch_norm]");
  EXPECT_THAT(graph_.node_names(), ElementsAre("x", "up", "depthwise", "flatten", "fc", "output"));
  expect_close(before, outputs(graph_));
}

TEST_F(GraphRewriting, BatchNormsThatCannotFoldStayAndSayWhy) {
  GraphBuilder builder("stubborn");
  const NodeInput x = builder.input("x", {2, 5, 5});
  const NodeInput first = builder.batch_norm("batch_norm2d", "bn0", x, 2);
  const NodeInput shared = builder.convolution("conv1", first, 2, 2, {3, 3}, {{"padding", 1}});
  const NodeInput second = builder.batch_norm("batch_norm2d", "bn1", shared, 2);
  const NodeInput quantized = builder.convolution("conv2", second, 2, 2, {3, 3}, {{"padding", 1}});
  const NodeInput third = builder.batch_norm("batch_norm2d", "bn2", quantized, 2);
  use(builder.finish(builder.call("add", {third, shared})));
  graph_.node("conv2").quantization["weight"] = parse_quant_spec_text("fixed:width=8,frac_width=6");
  const std::vector<float> before = outputs(graph_);
  run_passes("[passes.fuse_batch_norm]");
  EXPECT_EQ(outputs(graph_), before);
  EXPECT_THAT(reported_, HasSubstr("bn0 stays: x is no convolution or linear layer"));
  EXPECT_THAT(reported_, HasSubstr("bn1 stays: conv1 has other readers"));
  EXPECT_THAT(reported_, HasSubstr("bn2 stays: conv2 is quantized"));
  EXPECT_THAT(reported_, HasSubstr("0 of 3 folded"));
}

TEST_F(GraphRewriting, ADifferenceBeyondTheToleranceIsAnError) {
  use(build_model("resnet20", {3, 32, 32}, 10));
  EXPECT_THAT(error_of("[passes.fuse_batch_norm]\ntolerance = 0.0"),
              HasSubstr("t.toml, [passes.fuse_batch_norm]: the outputs of 16 samples differ by"));
}

TEST_F(GraphRewriting, DeadNodesGo) {
  GraphBuilder builder("dead");
  const NodeInput x = builder.input("x", {6});
  const NodeInput kept = builder.linear("fc", x, 6, 6);
  builder.call("relu", {builder.linear("unused", x, 6, 3)});
  use(builder.finish(kept));
  const std::vector<float> before = outputs(graph_);
  run_passes("[passes.remove_dead_nodes]");
  EXPECT_THAT(graph_.node_names(), ElementsAre("x", "fc", "output"));
  EXPECT_EQ(outputs(graph_), before);
  EXPECT_THAT(reported_, HasSubstr("2 of 5 nodes removed"));
}

TEST_F(GraphRewriting, ConstantsAreComputedOnce) {
  GraphBuilder builder("constants");
  const NodeInput x = builder.input("x", {6});
  const NodeInput owned = builder.call("tanh", {builder.call("relu", {builder.parameter("table", {1, 6})})});
  use(builder.finish(builder.call("mul", {builder.call("add", {x, owned}), x})));
  const auto table = graph_.node("table").find_parameter("value")->tensor.values<float>();
  std::iota(table.begin(), table.end(), -2.5F);
  const std::vector<float> before = outputs(graph_);
  run_passes("[passes.fold_constants]");
  EXPECT_THAT(graph_.node_names(), ElementsAre("x", "tanh", "add", "mul", "output"));
  EXPECT_EQ(graph_.node("tanh").op, "get_attr");
  EXPECT_EQ(outputs(graph_), before);
  EXPECT_THAT(reported_, HasSubstr("fold_constants: 2 nodes computed"));
}

}  // namespace
}  // namespace detent
