#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "detent/core/error_of_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/toml.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/mase_metadata.h"
#include "detent/graph/random_parameters_for_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"
#include "detent/passes/staged_runs/staged_run.h"
#include "detent/passes/stat_to_conf.h"

// The passes that make a quantized network better without training it, held to what it computes.

namespace detent {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

class CalibrationSamples final : public CalibrationSet {
 public:
  explicit CalibrationSamples(Tensor samples) : samples_(std::move(samples)) {}
  int64_t size() const override { return samples_.dim(0); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    return {samples_.rows(begin, end).clone()};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  Tensor samples_;
};

Tensor random_samples(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (float& value : tensor.values<float>()) value = normal(generator);
  return tensor;
}

std::vector<float> elements_of(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

class PostTraining : public testing::Test {
 protected:
  PostTraining() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    context_.output_dir =
        std::filesystem::temp_directory_path() / fmt::format("detent_{}_{}", name, getpid());
    context_.open_calibration = [this] { return std::make_unique<CalibrationSamples>(samples_); };
    context_.executor = [this]() -> Executor& { return executor_; };
    context_.report = [this](const std::string& text) { reported_ += text; };
    context_.warn = [this](const std::string& text) { warned_ += text + "\n"; };
  }
  ~PostTraining() override { std::filesystem::remove_all(context_.output_dir); }

  /// With random parameters and `count` random samples.
  void use(Graph graph, int64_t count = 100) {
    graph_ = std::move(graph);
    draw_parameters(graph_);
    Shape shape = graph_.input_shapes().begin()->second;
    shape[0] = count;
    samples_ = random_samples(shape, 1);
  }

  void run_passes(const std::string& toml) {
    run_pipeline(graph_, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context_);
  }

  std::string error_of(const std::string& toml) {
    return detent::error_of([&] { run_passes(toml); });
  }

  Tensor& parameter(const std::string& node, const std::string& name) {
    return graph_.node(node).find_parameter(name)->tensor;
  }
  void set(const std::string& node, const std::string& name, const std::vector<float>& values) {
    std::ranges::copy(values, parameter(node, name).values<float>().begin());
  }

  Tensor outputs(const Graph& graph) { return executor_.run(graph, std::span(&samples_, 1)); }

  double output_error(const Graph& graph, const Tensor& expected) {
    const Tensor actual = outputs(graph);
    double sum = 0;
    for (size_t i = 0; i < actual.values<float>().size(); ++i) {
      sum += std::pow(static_cast<double>(actual.values<float>()[i] - expected.values<float>()[i]), 2);
    }
    return sum / static_cast<double>(actual.numel());
  }

  Graph graph_;
  Tensor samples_;
  FastExecutor executor_;
  PassContext context_;
  std::string reported_;
  std::string warned_;
};

/// Convolutions (one with groups and a stride), a residual, a flatten through `size` and `view`, two linear
/// layers.
Graph small_residual_network() {
  GraphBuilder b("small");
  const NodeInput x = b.input("x", {3, 8, 8});
  const NodeInput first =
      b.module("relu", "relu", b.convolution("conv1", x, 3, 6, {3, 3}, Table{{"padding", 1}}));
  const NodeInput left =
      b.convolution("conv2", first, 6, 8, {3, 3}, Table{{"padding", 1}, {"stride", 2}, {"groups", 2}});
  const NodeInput right = b.convolution("shortcut", first, 6, 8, {1, 1}, Table{{"stride", 2}}, false);
  const NodeInput sum = b.module("relu", "relu2", b.call("add", {left, right}));
  const NodeInput flat = b.call("view", {sum, b.call("size", {x, constant(0)}), constant(-1)});
  const NodeInput hidden = b.module("relu", "relu3", b.linear("fc1", flat, 128, 20));
  return b.finish(b.linear("fc2", hidden, 20, 5));
}

const char* const kQuantize =
    "[passes.quantize]\nby = \"type\"\nreport = false\n"
    "[passes.quantize.default.config]\nname = \"NA\"\n"
    "[passes.quantize.conv2d.config]\nname = \"affine\"\nweight_width = 3\nweight_symmetric = true\n"
    "weight_granularity = \"channel\"\ndata_in_width = 8\ndata_in_scale = 0.03\n"
    "[passes.quantize.linear.config]\nname = \"affine\"\nweight_width = 3\nweight_symmetric = true\n"
    "weight_granularity = \"channel\"\ndata_in_width = 8\ndata_in_scale = 0.03\n";

TEST_F(PostTraining, StagesGiveTheInputsOfTheWholeNetwork) {
  for (const char* model : {"small", "mnist_cnn", "resnet20", "vit_cifar"}) {
    use(std::string(model) == "small"
            ? small_residual_network()
            : build_model(
                  model, {model[0] == 'm' ? 1 : 3, model[0] == 'm' ? 28 : 32, model[0] == 'm' ? 28 : 32}, 10),
        3);
    std::map<std::string, Tensor> expected;
    executor_.run(graph_, std::span(&samples_, 1),
                  {[&](const Node& node, std::string_view operand, const Tensor& value) {
                    if (operand == "data_in_0") expected[node.name] = value.clone();
                  }});
    StagedRun run(graph_, {.num_samples = 3}, context_);
    int compared = 0;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.op != "conv2d" && node.op != "linear") continue;
      run.inputs_of(i, [&](const Tensor& input) {
        EXPECT_TRUE(input.equals(expected.at(node.name))) << model << " " << node.name;
        ++compared;
      });
    }
    EXPECT_GT(compared, 2) << model;
  }
}

TEST_F(PostTraining, RoundedNetworksStillComputeInIntegers) {
  use(small_residual_network());
  const Tensor expected = outputs(graph_);
  run_passes("[passes.static_quantize]\nweights = \"int3\"\nreport = false\nnum_samples = 100\n");
  const double nearest = output_error(graph_, expected);
  run_passes("[passes.gptq]\nnum_samples = 100\n[passes.bias_correction]\nnum_samples = 100\n");
  EXPECT_LT(output_error(graph_, expected), nearest);
  IntegerProgram integers(graph_);
  EXPECT_EQ(elements_of(integers.run(std::span(&samples_, 1)).front()), elements_of(outputs(graph_)));

  std::map<std::string, Tensor> inputs;
  executor_.run(graph_, std::span(&samples_, 1),
                {[&](const Node& node, std::string_view operand, const Tensor& value) {
                   if (operand == "data_in_0") inputs[node.name] = value.clone();
                 },
                 ObservedValues::kBeforeQuantization});
  StagedRun run(graph_, {.num_samples = 100}, context_);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (node.find_parameter("weight") == nullptr) continue;
    int64_t begin = 0;
    run.inputs_of(i, [&](const Tensor& input) {
      EXPECT_TRUE(input.equals(inputs.at(node.name).rows(begin, begin + input.dim(0)))) << node.name;
      begin += input.dim(0);
    });
    EXPECT_EQ(begin, 100);
  }
}

Graph network_of_volumes() {
  GraphBuilder b("volumes");
  NodeInput x = b.input("x", {2, 4, 6, 5});
  x = b.module("relu", "relu", b.convolution("conv1", x, 2, 6, {2, 3, 3}, Table{{"padding", 1}}));
  x = b.convolution("conv2", x, 6, 4, {3, 2, 3}, Table{{"stride", 2}, {"groups", 2}}, false);
  x = b.module("max_pool3d", "pool", x, Table{{"kernel_size", List{Value(1), Value(2), Value(1)}}});
  return b.finish(b.linear("fc", b.call("flatten", {x}), 16, 5));
}

TEST_F(PostTraining, LayersOfVolumesAreServedAsOthers) {
  for (const char* pass : {"gptq", "gptaq", "adaround", "signround"}) {
    use(network_of_volumes());
    const Tensor expected = outputs(graph_);
    run_passes("[passes.equalize]\n");
    EXPECT_THAT(reported_, HasSubstr("conv2"));
    EXPECT_LT(output_error(graph_, expected), 1e-10);
    run_passes("[passes.static_quantize]\nweights = \"int3\"\nreport = false\nnum_samples = 100\n");
    const double nearest = output_error(graph_, expected);
    run_passes(
        fmt::format("[passes.{}]\nnum_samples = 100\n[passes.bias_correction]\nnum_samples = 100\n", pass));
    EXPECT_LT(output_error(graph_, expected), nearest) << pass;
    EXPECT_NE(graph_.node("conv2").find_parameter("bias"), nullptr);
    IntegerProgram integers(graph_);
    EXPECT_EQ(elements_of(integers.run(std::span(&samples_, 1)).front()), elements_of(outputs(graph_)));
  }
}

/// Layers that read either part of a split, and windows of all samples in one dimension.
Graph network_of_parts_and_windows() {
  GraphBuilder b("parts");
  const NodeInput x = b.input("x", {4, 4, 6});
  const NodeInput parts = b.call("split", {x}, {{"sizes", List{Value(2), Value(2)}}, {"dim", 1}});
  const NodeInput first = b.convolution("conv1", parts, 2, 3, {3, 3}, Table{{"padding", 1}});
  const NodeInput second =
      b.convolution("conv2", NodeInput::of(parts.node, 1), 2, 3, {3, 3}, Table{{"padding", 1}});
  NodeInput y = b.call("view", {b.call("add", {first, second}), constant(-1), constant(12)});
  y = b.module("relu", "relu", b.linear("windows", y, 12, 12));
  return b.finish(b.linear("fc", b.call("view", {y, constant(-1), constant(72)}), 72, 5));
}

TEST_F(PostTraining, LayersAfterASplitAndOfWindowsAreServedAsOthers) {
  use(network_of_parts_and_windows());
  std::map<std::string, Tensor> expected_inputs;
  executor_.run(graph_, std::span(&samples_, 1),
                {[&](const Node& node, std::string_view operand, const Tensor& value) {
                  if (operand == "data_in_0") expected_inputs[node.name] = value.clone();
                }});
  StagedRun run(graph_, {.num_samples = 100}, context_);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (node.find_parameter("weight") == nullptr) continue;
    int64_t begin = 0;
    run.inputs_of(i, [&](const Tensor& input) {
      const Tensor expected = expected_inputs.at(node.name).rows(begin, begin + input.dim(0));
      EXPECT_TRUE(input.equals(expected)) << node.name;
      begin += input.dim(0);
    });
    EXPECT_EQ(begin, expected_inputs.at(node.name).dim(0)) << node.name;
  }
  for (const char* pass : {"gptq", "gptaq", "qronos", "adaround", "signround"}) {
    use(network_of_parts_and_windows());
    const Tensor expected = outputs(graph_);
    run_passes("[passes.static_quantize]\nweights = \"int3\"\nnum_samples = 100\n");
    const double nearest = output_error(graph_, expected);
    run_passes(
        fmt::format("[passes.{}]\nnum_samples = 100\n[passes.bias_correction]\nnum_samples = 100\n", pass));
    EXPECT_LT(output_error(graph_, expected), nearest) << pass;
  }
}

// Eight layers one after another, whose errors add up where each only keeps what it gave before.
Graph deep_layers() {
  GraphBuilder b("deep");
  NodeInput x = b.input("x", {16});
  for (int i = 0; i < 8; ++i)
    x = b.module("relu", fmt::format("relu{}", i), b.linear(fmt::format("fc{}", i), x, 16, 16));
  return b.finish(b.linear("out", x, 16, 4));
}

TEST_F(PostTraining, AsymmetricCalibrationMakesUpForEarlierLayers) {
  std::map<std::string, double> errors;
  for (const char* pass : {"gptq", "gptaq", "qronos"}) {
    use(deep_layers(), 400);
    // As large as the rectifiers need for values to keep their size (He et al. 2015, arXiv:1502.01852).
    for (int i = 0; i < 8; ++i)
      for (float& weight : parameter(fmt::format("fc{}", i), "weight").values<float>())
        weight *= std::sqrt(6.0F);
    const Tensor expected = outputs(graph_);
    run_passes(
        fmt::format("[passes.static_quantize]\nweights = \"int3\"\nreport = false\nnum_samples = 400\n"
                    "[passes.{}]\nnum_samples = 400\n",
                    pass));
    errors[pass] = output_error(graph_, expected);
  }
  EXPECT_LT(errors["gptaq"], 0.8 * errors["gptq"]);
  EXPECT_LT(errors["qronos"], 0.8 * errors["gptq"]);
}

TEST_F(PostTraining, StagesSeeWhatBecameOfEarlierLayers) {
  use(small_residual_network());
  StagedRun run(graph_, {.num_samples = 10}, context_);
  const auto index = [&](const char* name) {
    return static_cast<size_t>(&graph_.node(name) - graph_.nodes().data());
  };
  run.inputs_of(index("conv1"), [](const Tensor&) {});
  parameter("conv1", "weight") = Tensor(DType::kFloat32, parameter("conv1", "weight").shape());
  parameter("conv1", "bias") = Tensor(DType::kFloat32, {6});
  run.inputs_of(index("conv2"), [](const Tensor& input) { EXPECT_THAT(elements_of(input), Each(0.0F)); });
}

TEST_F(PostTraining, RoundingPassesBeatNearestAndKeepTheirChoice) {
  for (const char* pass : {"[passes.gptq]", "[passes.gptq]\nact_order = true", "[passes.gptaq]",
                           "[passes.gptaq]\nact_order = true", "[passes.adaround]"}) {
    use(small_residual_network(), 200);
    const Tensor expected = outputs(graph_);
    run_passes(kQuantize);
    const double nearest = output_error(graph_, expected);
    run_passes(pass);
    EXPECT_LT(output_error(graph_, expected), 0.7 * nearest) << pass;
    const Graph once = graph_.deep_copy();
    for (const Node& node : graph_.nodes()) {
      const QuantSpec* spec = node.find_quantization("weight");
      if (spec == nullptr) continue;
      const Tensor& weight = node.find_parameter("weight")->tensor;
      EXPECT_TRUE(fake_quantize(*spec, weight).equals(weight)) << node.name;
    }
    run_passes(pass);
    for (const Node& node : graph_.nodes()) {
      if (node.find_quantization("weight") == nullptr) continue;
      EXPECT_EQ(elements_of(node.find_parameter("weight")->tensor),
                elements_of(once.node(node.name).find_parameter("weight")->tensor))
          << pass << " " << node.name;
    }
  }
  EXPECT_THAT(reported_, HasSubstr("nearest, SQNR dB"));
}

TEST_F(PostTraining, NeitherBatchSizeNorMemoryChangeWhatIsChosen) {
  for (const char* pass : {"gptq", "gptaq"}) {
    std::vector<std::vector<float>> chosen;
    for (const char* budget : {"512", "0"}) {
      use(small_residual_network(), 150);
      context_.batch_size = chosen.empty() ? 1 : 77;
      run_passes(
          fmt::format("{}[passes.{}]\nnum_samples = 150\nmemory_budget = {}\n", kQuantize, pass, budget));
      chosen.push_back(elements_of(outputs(graph_)));
    }
    EXPECT_EQ(chosen[0], chosen[1]);
  }
  for (const auto& entry : std::filesystem::directory_iterator(context_.output_dir)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("spilled")));
  }
}

TEST_F(PostTraining, SpilledValuesComeBackAndLeaveNothing) {
  const Tensor a = random_samples({4, 5}, 1);
  const Tensor b = random_samples({2, 5}, 2);
  {
    SpilledTensors values(100, context_.output_dir);  // bytes: a fits, b no more
    values.put("x", 0, a);
    values.put("x", 1, b);
    values.put("y", 0, b);
    EXPECT_EQ(values.spilled_bytes(), 80);
    EXPECT_TRUE(values.get("x", 0).equals(a));
    EXPECT_TRUE(values.get("x", 1).equals(b));
    EXPECT_TRUE(values.get("y", 0).equals(b));
    values.erase("x");
    EXPECT_FALSE(values.contains("x"));
    values.put("z", 0, a);
    EXPECT_EQ(values.spilled_bytes(), 80) << "erasing made room";
  }
  EXPECT_TRUE(std::filesystem::is_empty(context_.output_dir));
}

TEST_F(PostTraining, RoundingRefusesWhatItCannotKnow) {
  use(small_residual_network());
  EXPECT_THAT(error_of("[passes.gptq]"), HasSubstr("no linear layer or convolution has a quantized weight"));
  run_passes(
      "[passes.quantize]\nby = \"type\"\nreport = false\n[passes.quantize.linear.config]\nname = \"mx\"\n"
      "weight_element = \"e2m1\"\n[passes.quantize.default.config]\nname = \"NA\"\n");
  const std::vector<float> before = elements_of(parameter("fc1", "weight"));
  EXPECT_THAT(error_of("[passes.adaround]"),
              AllOf(HasSubstr("node \"fc1\", operand \"weight\": mx: the scale of a block follows"),
                    HasSubstr("such as affine or fixed, or the pass gptq")));
  EXPECT_EQ(elements_of(parameter("fc1", "weight")), before);
  run_passes(
      "[passes.quantize]\nby = \"type\"\nrequantize = true\nreport = false\n"
      "[passes.quantize.linear.config]\nname = \"nvfp4\"\n"
      "[passes.quantize.default.config]\nname = \"NA\"\n");
  EXPECT_THAT(error_of("[passes.signround]"),
              HasSubstr("operand \"weight\": nvfp4: the scale of a block follows"));

  use(small_residual_network());
  run_passes(kQuantize);
  samples_ = Tensor(DType::kFloat32, {0, 3, 8, 8});
  EXPECT_THAT(error_of("[passes.gptq]"), HasSubstr("no samples to calibrate with"));
  samples_ = random_samples({4, 3, 8, 8}, 1);
  for (float& value : samples_.values<float>()) value = std::nanf("");
  EXPECT_THAT(error_of("[passes.gptq]"), HasSubstr("node \"conv1\": the Gram matrix of the inputs"));
  EXPECT_THAT(error_of("[passes.adaround]"), HasSubstr("node \"conv1\": the Gram matrix of the inputs"));
}

TEST_F(PostTraining, GptqImprovesBlockFormats) {
  for (const char* format : {"\"mx\"\nweight_element = \"e2m1\"", "\"block_fp\"\nweight_width = 5",
                             "\"block_minifloat\"\nweight_width = 5\nweight_exponent_width = 2",
                             "\"nvfp4\"\nweight_name = \"nvfp4\""}) {
    use(small_residual_network(), 200);
    const Tensor expected = outputs(graph_);
    const std::string config = fmt::format("name = {}\nbias_name = \"NA\"\n", format);
    run_passes(
        fmt::format("[passes.quantize]\nby = \"type\"\nreport = false\n"
                    "[passes.quantize.default.config]\nname = \"NA\"\n"
                    "[passes.quantize.conv2d.config]\n{0}[passes.quantize.linear.config]\n{0}",
                    config));
    const double nearest = output_error(graph_, expected);
    run_passes("[passes.gptq]");
    EXPECT_LT(output_error(graph_, expected), 0.8 * nearest) << format;
    for (const Node& node : graph_.nodes()) {
      const QuantSpec* spec = node.find_quantization("weight");
      if (spec == nullptr) continue;
      const Tensor& rounded = node.find_parameter("weight")->tensor;
      EXPECT_TRUE(fake_quantize(*spec, rounded).equals(rounded)) << format << " " << node.name;
    }
  }
}

/// Sums over samples are exact, or come in an order that samples themselves decide.
TEST_F(PostTraining, NothingDependsOnTheOrderOfSamples) {
  use(small_residual_network(), 90);
  const Graph network = graph_;
  const Tensor forwards = samples_;
  Tensor backwards(DType::kFloat32, forwards.shape());
  const size_t size = forwards.values<float>().size() / 90;
  for (size_t n = 0; n < 90; ++n) {
    std::ranges::copy(forwards.values<float>().subspan((89 - n) * size, size),
                      backwards.values<float>().begin() + static_cast<int64_t>(n * size));
  }
  for (const std::string pass :
       {"bias_correction", "scale_search", "gptq", "gptaq", "qronos", "adaround", "signround"}) {
    std::vector<Graph> results;
    for (const auto& [samples, batch] : {std::pair(forwards, 16), std::pair(backwards, 7)}) {
      graph_ = network.deep_copy();
      samples_ = samples;
      context_.batch_size = batch;
      run_passes("[passes.static_quantize]\nweights = 'int4'\n[passes." + pass + "]\n");
      results.push_back(graph_);
    }
    for (const Node& node : results[0].nodes()) {
      for (const auto& [name, parameter] : node.parameters) {
        const Parameter* other = results[1].node(node.name).find_parameter(name);
        EXPECT_TRUE(other != nullptr && other->tensor.equals(parameter->tensor)) << pass << node.name << name;
      }
    }
  }
}

// The worked example of the behaviour specification, section 13.2.
TEST_F(PostTraining, BiasCorrectionWorkedExample) {
  GraphBuilder b("example");
  use(b.finish(b.linear("fc", b.input("x", {3}), 3, 2, false)));
  set("fc", "weight", {0.9F, 0.2F, -0.35F, 0.1F, -0.6F, 0.45F});
  samples_ = Tensor::from({3, 3}, std::vector<float>{1, 2, 3, 2, 1, 0, 0.5F, 1, 1.5F});
  run_passes(
      "[passes.quantize]\nby = \"type\"\nreport = false\n[passes.quantize.linear.config]\nname = \"affine\"\n"
      "weight_width = 3\nweight_narrow_range = true\nweight_symmetric = true\n[passes.bias_correction]\n");
  EXPECT_THAT(elements_of(parameter("fc", "bias")),
              Pointwise(FloatNear(1e-6F), std::vector<float>{-0.2083333F, -0.1083333F}));
  const std::string warning = "there are only 3 samples, num_samples expects ";
  EXPECT_THAT(warned_, HasSubstr(warning));
  EXPECT_EQ(warned_.find(warning), warned_.rfind(warning)) << warned_;
}

/// A module that is called twice has one name, until its calls get biases of their own.
TEST_F(PostTraining, CorrectedBiasesOfAModuleHaveTheirNames) {
  GraphBuilder b("twice");
  const NodeInput first = b.linear("fc", b.input("x", {3}), 3, 3);
  Graph graph = b.finish(b.linear("again", b.call("relu", {first}), 3, 3));
  graph.node("again").target = "fc";
  graph.node("again").parameters = graph.node("fc").parameters;
  use(std::move(graph));
  set("fc", "weight", {0.9F, 0.2F, -0.35F, 0.1F, -0.6F, 0.45F, 0.3F, 0.77F, -0.2F});
  samples_ = Tensor::from({3, 3}, std::vector<float>{1, 2, 3, 2, 1, 0, 0.5F, 1, 1.5F});
  run_passes("[passes.static_quantize]\nweights = 'int3'\n[passes.bias_correction]\n");
  EXPECT_FALSE(parameter("fc", "bias").equals(parameter("again", "bias")));
  std::set<std::string> names;
  for (const auto& [name, tensor] : state_dict(graph_)) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_THAT(names, testing::Contains("again.bias"));
}

/// Large outputs that take one another back leave the small ones as they are, whenever these come.
TEST_F(PostTraining, BiasCorrectionAddsExactly) {
  GraphBuilder b("example");
  use(b.finish(b.linear("fc", b.input("x", {1}), 1, 1, false)));
  set("fc", "weight", {0.75F});
  const Graph network = graph_;
  for (const std::vector<float>& samples :
       {std::vector<float>{0x1p60F, 2, 1, -0x1p60F}, {0x1p60F, -0x1p60F, 1, 2}, {1, 0x1p60F, 2, -0x1p60F}}) {
    graph_ = network.deep_copy();
    samples_ = Tensor::from({4, 1}, samples);
    run_passes(
        "[passes.quantize]\nby = 'type'\nreport = false\n[passes.quantize.linear.config]\nname = 'fixed'\n"
        "weight_width = 4\nweight_frac_width = 0\n[passes.bias_correction]\n");
    EXPECT_EQ(elements_of(parameter("fc", "bias")), std::vector<float>{-0.1875F});
  }
}

TEST_F(PostTraining, BiasCorrectionComparesWithTheNetworkBeforeRounding) {
  use(small_residual_network(), 200);
  const Graph original = graph_.deep_copy();
  run_passes(std::string(kQuantize) + "[passes.gptq]\n");
  const double before = output_error(graph_, outputs(original));
  run_passes("[passes.bias_correction]");
  EXPECT_LT(output_error(graph_, outputs(original)), before);
  ASSERT_NE(graph_.node("shortcut").find_parameter("bias"), nullptr);
  // The last layer's outputs then have the means of the float network's.
  const Tensor expected = outputs(original);
  const Tensor corrected = outputs(graph_);
  for (size_t c = 0; c < 5; ++c) {
    double difference = 0;
    for (size_t n = 0; n < 200; ++n) {
      difference +=
          static_cast<double>(expected.values<float>()[n * 5 + c] - corrected.values<float>()[n * 5 + c]);
    }
    EXPECT_NEAR(difference / 200, 0, 1e-5);
  }
}

TEST_F(PostTraining, BiasCorrectionNamesNodesWhoseFloatWeightsAreGone) {
  use(small_residual_network());
  run_passes(kQuantize);
  run_passes("[passes.bias_correction]");
  EXPECT_THAT(warned_, Not(HasSubstr("were rounded")));
  run_passes("[passes.gptq]");
  run_passes("[passes.bias_correction]");
  EXPECT_THAT(warned_, Not(HasSubstr("were rounded")));
  context_.float_network = nullptr;  // as of a graph that was saved and loaded
  run_passes("[passes.bias_correction]");
  EXPECT_THAT(warned_, HasSubstr("bias_correction]: the weights of \"conv1\", "));
  EXPECT_THAT(warned_, HasSubstr("\"fc2\" were rounded before the graph was saved"));
}

TEST_F(PostTraining, BiasCorrectionNeedsQuantizedLayersThatWereThere) {
  use(small_residual_network());
  EXPECT_THAT(error_of("[passes.bias_correction]"), HasSubstr("no linear layer or convolution is quantized"));
  run_passes(kQuantize);
  GraphBuilder b("other");
  context_.float_network = std::make_shared<Graph>(b.finish(b.linear("fc9", b.input("x", {3}), 3, 2)));
  EXPECT_THAT(error_of("[passes.bias_correction]"), HasSubstr("node \"conv1\" was not there before weights"));
}

TEST_F(PostTraining, ActivationsHaveAScaleForEachChannelOfAnyDimension) {
  for (const int64_t axis : {1, 2, 3}) {
    GraphBuilder b("relu");
    use(b.finish(b.module("relu", "act", b.input("x", {2, 3, 4}))), 20);
    const int64_t size = samples_.dim(axis);
    const int64_t inner = element_count({samples_.shape().begin() + axis + 1, samples_.shape().end()});
    std::vector<float> largest(static_cast<size_t>(size));
    for (int64_t i = 0; i < samples_.numel(); ++i) {
      float& value = samples_.values<float>()[static_cast<size_t>(i)];
      const int64_t channel = i / inner % size;
      value = std::fabs(value) * static_cast<float>(channel + 1);
      largest[static_cast<size_t>(channel)] = std::max(largest[static_cast<size_t>(channel)], value);
    }
    run_passes(
        fmt::format("[passes.init_metadata]\n[passes.add_common_metadata]\n[passes.profile_statistics]\n"
                    "by = \"name\"\ntarget_activation_nodes = [\"act\"]\nnum_samples = 20\n"
                    "[passes.profile_statistics.activation_statistics]\n"
                    "range_min_max = {{ dims = {{ keep = [{}] }} }}\n",
                    axis));
    const QuantSpec spec =
        parse_quant_spec_text(fmt::format("affine:signed=false,granularity=channel,axis={}", axis));
    const Table configuration = stat_to_conf({.statistics = metadata_table(graph_),
                                              .statistics_file = "statistics",
                                              .formats = {{"data_in", spec}},
                                              .calibration = CalibrationOptions{}},
                                             context_.warn);
    run_pipeline(graph_, *configuration.find("passes")->get_if<Table>(), "configuration", context_);
    const QuantSpec* quantized = graph_.node("act").find_quantization("data_in_0");
    ASSERT_NE(quantized, nullptr);
    std::vector<float> expected = largest;
    for (float& value : expected) value /= 255;
    EXPECT_EQ(std::get<Affine>(quantized->format).scale, expected) << axis;
    const Tensor result = outputs(graph_);
    for (int64_t i = 0; i < samples_.numel(); ++i) {
      const float scale = expected[static_cast<size_t>(i / inner % size)];
      const float value = samples_.values<float>()[static_cast<size_t>(i)];
      ASSERT_EQ(result.values<float>()[static_cast<size_t>(i)], std::nearbyint(value / scale) * scale) << i;
    }
  }
}

// The worked examples of the behaviour specification, section 13.4.
TEST_F(PostTraining, EqualizeWorkedExample) {
  GraphBuilder b("example");
  const NodeInput hidden = b.module("relu", "relu", b.linear("fc1", b.input("x", {2}), 2, 3));
  use(b.finish(b.linear("fc2", hidden, 3, 2, false)));
  set("fc1", "weight", {4, -8, 0.1F, 0.05F, 1, 1});
  set("fc1", "bias", {1, 0.2F, -0.5F});
  set("fc2", "weight", {0.1F, 2, 0.5F, -0.2F, 1, 0.25F});
  run_passes("[passes.equalize]");
  const auto near = [](const std::vector<float>& expected) { return Pointwise(FloatNear(1e-6F), expected); };
  EXPECT_THAT(elements_of(parameter("fc1", "weight")),
              near({0.632456F, -1.264911F, 0.447214F, 0.223607F, 0.707107F, 0.707107F}));
  EXPECT_THAT(elements_of(parameter("fc1", "bias")), near({0.158114F, 0.894427F, -0.353553F}));
  EXPECT_THAT(elements_of(parameter("fc2", "weight")),
              near({0.632456F, 0.447214F, 0.707107F, -1.264911F, 0.223607F, 0.353553F}));
}

TEST_F(PostTraining, SmoothQuantWorkedExample) {
  GraphBuilder b("example");
  use(b.finish(b.linear("fc2", b.linear("fc1", b.input("x", {3}), 3, 3, false), 3, 2, false)));
  set("fc1", "weight", {1, 0, 0, 0, 1, 0, 0, 0, 1});
  set("fc2", "weight", {0.1F, 2, 0.5F, -0.2F, 1, 0.25F});
  samples_ = Tensor::from({2, 3}, std::vector<float>{-20, 0.1F, 1, 3, -0.2F, 2});
  run_passes("[passes.smooth_quant]");
  EXPECT_THAT(elements_of(parameter("fc1", "weight")),
              Pointwise(FloatNear(1e-6F), std::vector<float>{0.1F, 0, 0, 0, 3.1622777F, 0, 0, 0, 0.5F}));
  EXPECT_THAT(elements_of(parameter("fc2", "weight")),
              Pointwise(FloatNear(1e-6F), std::vector<float>{1, 0.6324555F, 1, -2, 0.3162278F, 0.5F}));
}

/// Depthwise and grouped convolutions, a transposed one, pooling, a flatten: every kind of pair, channels of
/// very different ranges.
Graph uneven_network() {
  GraphBuilder b("uneven");
  NodeInput x = b.module("relu", "r1", b.convolution("conv1", b.input("x", {3, 8, 8}), 3, 6, {3, 3}));
  x = b.module("relu", "r2",
               b.convolution("depthwise", x, 6, 6, {3, 3}, Table{{"groups", 6}, {"padding", 1}}));
  x = b.module("relu", "r3", b.convolution("grouped", x, 6, 4, {1, 1}, Table{{"groups", 2}}, false));
  x = b.module("max_pool2d", "pool", x, Table{{"kernel_size", 2}});
  x = b.layer("convtranspose2d", "up", {x}, {{"weight", {4, 3, 2, 2}}, {"bias", {6}}}, Table{{"groups", 2}});
  x = b.module("relu", "r4", x);
  x = b.call("flatten", {x}, Table{{"start_dim", 1}});
  return b.finish(b.linear("fc", x, 96, 5));
}

TEST_F(PostTraining, EqualizeReachesEveryKindOfLayerAndKeepsTheOutput) {
  use(uneven_network());
  for (Node& node : graph_.nodes()) {
    if (Parameter* weight = node.find_parameter("weight")) {
      std::span<float> values = weight->tensor.values<float>();
      for (size_t i = 0; i < values.size(); i += 3) values[i] *= 100;
    }
  }
  const Graph before = graph_.deep_copy();
  const Tensor expected = outputs(graph_);
  run_passes("[passes.equalize]\nthreshold = 1e-3\niterations = 200\n");
  double largest = 0;
  for (const float value : expected.values<float>())
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  EXPECT_LT(std::sqrt(output_error(graph_, expected)), 1e-6 * largest);
  for (const char* node : {"conv1", "depthwise", "grouped", "up", "fc"}) {
    EXPECT_NE(elements_of(parameter(node, "weight")),
              elements_of(before.node(node).find_parameter("weight")->tensor));
  }
  EXPECT_THAT(reported_, HasSubstr("last factors within 0.00"));
  // A second time there is nothing left to do.
  reported_.clear();
  run_passes("[passes.equalize]\nthreshold = 1e-2\n");
  EXPECT_THAT(reported_, HasSubstr("equalize: 1 rounds"));
}

TEST_F(PostTraining, EqualizeHelpsRoundingPerTensor) {
  use(uneven_network());
  // A channel that is large here and small there.
  for (float& value : parameter("conv1", "weight").values<float>().first(27)) value *= 50;
  parameter("conv1", "bias").values<float>()[0] *= 50;
  for (float& value : parameter("depthwise", "weight").values<float>().first(9)) value /= 50;
  const Tensor expected = outputs(graph_);
  const std::string quantize =
      "[passes.quantize]\nby = \"type\"\nreport = false\n[passes.quantize.conv2d.config]\nname = \"affine\"\n"
      "weight_width = 5\nweight_symmetric = true\n[passes.quantize.default.config]\nname = \"NA\"\n";
  const Graph original = graph_.deep_copy();
  run_passes(quantize);
  const double plain = output_error(graph_, expected);
  graph_ = original;
  run_passes("[passes.equalize]\n" + quantize);
  EXPECT_LT(output_error(graph_, expected), 0.5 * plain);
}

TEST_F(PostTraining, EqualizeSaysWhereItCannot) {
  GraphBuilder b("blocked");
  NodeInput x = b.module("relu6", "clamped", b.convolution("conv1", b.input("x", {3, 8, 8}), 3, 6, {3, 3}));
  x = b.convolution("conv2", x, 6, 6, {3, 3}, Table{{"padding", 1}});
  const NodeInput twice = b.call("add", {x, b.convolution("conv3", x, 6, 6, {1, 1})});
  use(b.finish(b.convolution("conv4", twice, 6, 2, {1, 1})));
  EXPECT_THAT(error_of("[passes.equalize]"), HasSubstr("no two layers can be equalized"));
  EXPECT_THAT(reported_, HasSubstr("clamped: clamped (relu6) cannot take up a factor a channel"));
  EXPECT_THAT(reported_, HasSubstr("conv2: add (add) reads it, too"));
  EXPECT_THAT(reported_, HasSubstr("x: x (placeholder) cannot take up a factor a channel"));
}

TEST_F(PostTraining, SmoothQuantIsTakenUpByNorms) {
  GraphBuilder b("norms");
  NodeInput x = b.module("relu", "r", b.batch_norm("batch_norm2d", "bn", b.input("x", {4, 6, 6}), 4));
  x = b.convolution("conv", x, 4, 8, {3, 3});
  x = b.call("flatten", {x}, Table{{"start_dim", 2}});
  x = b.layer("layer_norm", "norm", {x}, {{"weight", {16}}, {"bias", {16}}},
              Table{{"normalized_shape", List{Value(16)}}});
  use(b.finish(b.call("add", {b.linear("query", x, 16, 8), b.linear("key", x, 16, 8)})));
  std::span<float> values = samples_.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= i / 36 % 4 == 2 ? 200 : 1;
  const Tensor expected = outputs(graph_);
  run_passes("[passes.smooth_quant]");
  double largest = 0;
  for (const float value : expected.values<float>())
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  EXPECT_LT(std::sqrt(output_error(graph_, expected)), 1e-6 * largest);
  EXPECT_THAT(reported_, HasSubstr("| query, key "));
  const std::span<const float> scale = parameter("bn", "weight").values<float>();
  EXPECT_LT(scale[2], 0.2F * scale[1]);
}

TEST_F(PostTraining, SmoothQuantRefusesANamedNodeItCannotServe) {
  use(small_residual_network());
  EXPECT_THAT(
      error_of("[passes.smooth_quant]\nnodes = [\"fc1\"]\n"),
      HasSubstr("key \"nodes\": the input of \"fc1\" cannot be smoothed: view: add (add) cannot take up"));
  EXPECT_THAT(error_of("[passes.smooth_quant]\nnodes = [\"fc3\"]\n"), HasSubstr("fc2"));
  run_passes("[passes.smooth_quant]\nnodes = [\"fc2\"]\n");
  run_passes(kQuantize);
  EXPECT_THAT(error_of("[passes.smooth_quant]\nnodes = [\"fc2\"]\n"), HasSubstr("fc2 is quantized already"));
}

}  // namespace
}  // namespace detent
