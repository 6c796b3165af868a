#include "detent/formats/groups/learned_scale.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/owned_rounding.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/toml.h"
#include "detent/graph/builder.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

at::Tensor vector_of(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return to_torch(Tensor::from<float>({count}, values));
}

Tensor& scale_of(Node& node, const char* operand) {
  return node.quantization.at(operand)->find_parameter("scale")->tensor;
}

at::Tensor rounded_with_scale(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& scale,
                              int64_t samples) {
  return round_with_owned(input, {spec, {{"scale", scale}}}, samples, 0);
}

TEST(LearnedScale, ValuesAndGradientsAreThoseWorkedByHand) {
  // Codes -4 ... 3, scale 1/2: x / scale = -6, -1.2, 0.6, 1.6, 4.
  const QuantSpec spec = parse_quant_spec_text("fixed:width=3,scale_rule=learned");
  const at::Tensor x = vector_of({-3, -0.6F, 0.3F, 0.8F, 2}).clone().set_requires_grad(true);
  const at::Tensor scale =
      to_torch(Tensor::from<float>({}, std::vector<float>{0.5F})).clone().set_requires_grad(true);
  const at::Tensor result = rounded_with_scale(x, spec, scale, 1);
  EXPECT_TRUE(result.equal(vector_of({-2, -0.5F, 0.5F, 1, 1.5F})));
  result.backward(vector_of({1, 2, 3, 4, 5}));
  EXPECT_TRUE(x.grad().equal(vector_of({0, 2, 3, 4, 0})));
  // The scale's gradient: -4, -1 + 1.2, 1 - 0.6, 2 - 1.6, 3, weighted, over sqrt(5 elements * largest code
  // 3).
  EXPECT_NEAR(scale.grad().item<double>(), (-4 + 2 * 0.2 + 3 * 0.4 + 4 * 0.4 + 5 * 3) / std::sqrt(15), 1e-5);
}

TEST(LearnedScale, OneAChannelIsOneATensorForEachChannel) {
  seed_everything(1);
  const at::Tensor x = at::randn({2, 3, 4});
  const QuantSpec spec = parse_quant_spec_text("fixed:width=4,scale_rule=learned");
  const QuantSpec per_channel =
      parse_quant_spec_text("fixed:width=4,scale_rule=learned,granularity=channel,axis=-2");
  const at::Tensor scales = vector_of({0.1F, 0.2F, 0.4F}).clone().set_requires_grad(true);
  const at::Tensor all = rounded_with_scale(x, per_channel, scales, 2);
  all.pow(2).sum().backward();
  for (int64_t c = 0; c < 3; ++c) {
    const at::Tensor scale = scales.detach()[c].clone().set_requires_grad(true);
    const at::Tensor one = rounded_with_scale(x.select(1, c), spec, scale, 2);
    EXPECT_TRUE(all.select(1, c).equal(one));
    one.pow(2).sum().backward();
    EXPECT_TRUE(at::allclose(scales.grad()[c], scale.grad(), 1e-5));
  }
}

TEST(LearnedScale, OneAGroupIsOneATensorForEachGroup) {
  seed_everything(1);
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,scale_rule=learned");
  const at::Tensor x = at::randn({2, 5, 3});  // 5 channels of 6 elements in groups of 4 and 2
  const QuantSpec groups = parse_quant_spec_text("int4_g4:scale_rule=learned,axis=1");
  ASSERT_EQ(scale_shape(groups, {2, 5, 3}), Shape{10});
  const at::Tensor scales = at::rand({10}).add(0.1).set_requires_grad(true);
  const at::Tensor all = rounded_with_scale(x, groups, scales, 1);
  all.pow(2).sum().backward();
  for (int64_t g = 0; g < 10; ++g) {
    const auto of_group = [&](const at::Tensor& tensor) {
      return tensor.select(1, g / 2).reshape({6}).slice(0, g % 2 * 4, g % 2 * 2 + 4);
    };
    const at::Tensor scale = scales.detach()[g].clone().set_requires_grad(true);
    const at::Tensor one = rounded_with_scale(of_group(x).contiguous(), spec, scale, 1);
    EXPECT_TRUE(of_group(all).equal(one)) << g;
    one.pow(2).sum().backward();
    // Both are divided by the root of the elements a scale: on average 3, and here.
    const double ratio = std::sqrt(static_cast<double>(one.numel()) / 3);
    EXPECT_TRUE(at::allclose(scales.grad()[g], scale.grad().mul(ratio), 1e-4, 1e-5)) << g;
  }
}

/// The gradients of Esser et al. 2019, in double and one element at a time: value s (q - z) with q =
/// clamp(round(x / s) + z); gradient of x 1 inside, 0 outside; of s q - z - x / s inside, the outermost q - z
/// outside, times 1 / sqrt(elements * Q_P). Inside ends where formats saturate: where the code next to the
/// outermost one would be nearer. `low` and `high` are the codes' ends minus z.
struct LsqOracle {
  double low;
  double high;

  bool inside(double x, double s) const { return x / s >= low - 0.5 && x / s <= high + 0.5; }
  double code(double x, double s) const { return std::clamp(std::nearbyint(x / s), low, high); }
  double slope_of_scale(double x, double s) const { return code(x, s) - (inside(x, s) ? x / s : 0); }
  double slope_of_input(double x, double s) const { return inside(x, s) ? 1 : 0; }
};

/// x of shape [samples, channels, 5], upstream gradients 0.1, 0.2, ...
void expect_lsq(const std::string& text, const LsqOracle& oracle, double largest_code,
                const std::vector<float>& scales) {
  SCOPED_TRACE(text);
  seed_everything(2);
  const QuantSpec spec = parse_quant_spec_text(text);
  const auto channels = static_cast<int64_t>(scales.size());
  const at::Tensor x = at::randn({4, channels, 5}).set_requires_grad(true);
  const at::Tensor scale =
      to_torch(Tensor::from<float>(channels == 1 ? Shape{} : Shape{channels}, scales)).clone();
  scale.set_requires_grad(true);
  const at::Tensor result = rounded_with_scale(x, spec, scale, 4);
  const at::Tensor upstream = to_torch([&] {
    Tensor tensor(DType::kFloat32, {4, channels, 5});
    float next = 0;
    for (float& value : tensor.values<float>()) value = next += 0.1F;
    return tensor;
  }());
  result.backward(upstream);
  const Tensor inputs = from_torch(x);
  const Tensor got = from_torch(result);
  const Tensor input_gradients = from_torch(x.grad());
  const Tensor scale_gradients = from_torch(scale.grad());
  int saturated = 0;
  for (int64_t channel = 0; channel < channels; ++channel) {
    const double s = double{scales[static_cast<size_t>(channel)]};
    double expected = 0;
    for (int64_t i = 0; i < 20; ++i) {
      const auto at = static_cast<size_t>((i / 5 * channels + channel) * 5 + i % 5);
      const double value = double{inputs.values<float>()[at]};
      const double weight = double{from_torch(upstream).values<float>()[at]};
      EXPECT_NEAR(got.values<float>()[at], s * oracle.code(value, s), 1e-5);
      EXPECT_NEAR(input_gradients.values<float>()[at], weight * oracle.slope_of_input(value, s), 1e-5);
      saturated += oracle.slope_of_input(value, s) == 0 ? 1 : 0;
      expected += weight * oracle.slope_of_scale(value, s);
    }
    // Elements of one sample that share the scale, as everywhere: the batch is no part of it.
    expected /= std::sqrt(5 * largest_code);
    EXPECT_NEAR(scale_gradients.values<float>()[static_cast<size_t>(channel)], expected, 1e-4);
  }
  EXPECT_GT(saturated, 0);
  EXPECT_LT(saturated, 20 * channels);
}

TEST(LearnedScale, OfAffineFollowsThePaper) {
  expect_lsq("affine:width=4,scale_rule=learned", {-8, 7}, 7, {0.15F});
  expect_lsq("affine:width=4,narrow_range=true,scale_rule=learned", {-7, 7}, 7, {0.15F});
  expect_lsq("affine:width=3,signed=false,scale_rule=learned", {0, 7}, 7, {0.15F});
  expect_lsq("affine:width=4,scale=1.0,zero_point=3,scale_rule=learned", {-11, 4}, 4, {0.2F});
}

TEST(LearnedScale, OfAffinePerChannelFollowsThePaper) {
  expect_lsq("affine:width=4,granularity=channel,axis=1,scale_rule=learned", {-8, 7}, 7, {0.1F, 0.2F, 0.15F});
  expect_lsq("affine:width=3,signed=false,granularity=channel,axis=1,scale_rule=learned", {0, 7}, 7,
             {0.1F, 0.2F, 0.15F});
}

/// Where an element has saturated, its value is a multiple of the scale, so the difference quotient is exact.
TEST(LearnedScale, OfAffineAgreesWithTheDifferenceQuotientWhereItSaturates) {
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,scale_rule=learned");
  const at::Tensor x = vector_of({-9, 5, 7, -30});
  const auto loss_at = [&](float s) {
    const at::Tensor scale = to_torch(Tensor::from<float>({}, std::vector<float>{s})).clone();
    return rounded_with_scale(x, spec, scale, 1).pow(2).sum().item<double>();
  };
  const at::Tensor scale = to_torch(Tensor::from<float>({}, std::vector<float>{0.5F})).clone();
  scale.set_requires_grad(true);
  rounded_with_scale(x, spec, scale, 1).pow(2).sum().backward();
  const double quotient = (loss_at(0.5F + 0x1p-8F) - loss_at(0.5F - 0x1p-8F)) / 0x1p-7;
  EXPECT_NEAR(scale.grad().item<double>() * std::sqrt(4 * 7.0), quotient, 1e-3 * std::fabs(quotient));
}

TEST(LearnedScale, IsCheckedWhereItIsUsed) {
  const auto error_of = [](const auto& action) -> std::string { return detent::error_of([&] { action(); }); };
  const at::Tensor x = vector_of({1, 2});
  const QuantSpec spec = parse_quant_spec_text("fixed:scale_rule=learned");
  EXPECT_THAT(error_of([&] { rounded_with_scale(x, spec, x, 1); }), HasSubstr("has shape [2], expected []"));
  EXPECT_THAT(error_of([&] { rounded_with_scale(x, spec, x[0] - 1, 1); }),
              HasSubstr("is 0, expected above 0"));
  EXPECT_THAT(error_of([&] { fake_quantize(spec, from_torch(x)); }), HasSubstr("needs a network"));
  EXPECT_THAT(
      error_of([] { parse_quant_spec_text("log:scale_rule=learned"); }),
      HasSubstr("key \"scale_rule\": got \"learned\", expected \"given\": log has no scale to train"));
}

/// Two linear layers after the quantize pass.
class LearnedScaleGraph : public testing::Test {
 protected:
  LearnedScaleGraph() {
    seed_everything(3);
    GraphBuilder builder("regression");
    NodeInput x = builder.input("x", {8});
    x = builder.linear("hidden", x, 8, 16);
    x = builder.module("relu", "act", x);
    graph_ = builder.finish(builder.linear("out", x, 16, 2));
    initialize_parameters(graph_);
    inputs_ = at::randn({64, 8});
    targets_ = at::linear(inputs_, at::randn({2, 8})).tanh();
    context_.output_dir = directory_;
    context_.report = [](const std::string&) {};
    context_.warn = [](const std::string& text) { ADD_FAILURE() << text; };
  }
  ~LearnedScaleGraph() override { std::filesystem::remove_all(directory_); }

  void quantize(const std::string& keys) {
    const Table table = parse_toml("[passes.quantize]\nby = \"type\"\nreport = false\n" + keys, "t.toml");
    run_pipeline(graph_, *table.find("passes")->get_if<Table>(), "t.toml", context_);
  }

  /// The loss after gradient descent on all parameters, or on all but the scales (those of rank 0).
  double trained_loss(Graph& graph, bool train_scales) {
    Interpreter interpreter(graph);
    const std::vector<at::Tensor> leaves = interpreter.trainable_parameters();
    const auto loss = [&] { return interpreter.run(inputs_).sub(targets_).pow(2).mean(); };
    for (int step = 0; step < 400; ++step) {
      loss().backward();
      for (const at::Tensor& leaf : leaves) {
        const bool is_scale = leaf.dim() == 0;
        if (!is_scale || train_scales) leaf.detach().sub_(leaf.grad(), is_scale ? 0.02 : 0.2);
        leaf.mutable_grad() = at::Tensor();
      }
    }
    return loss().item<double>();
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / fmt::format("detent_learned_scale_{}", getpid());
  Graph graph_;
  at::Tensor inputs_;
  at::Tensor targets_;
  PassContext context_;
};

constexpr const char* kLearned = R"([passes.quantize.linear.config]
name = "fixed"
data_in_width = 3
data_in_frac_width = 0
data_in_scale_rule = "learned"
weight_width = 3
weight_scale_rule = "learned"
bias_name = "NA"
)";

TEST_F(LearnedScaleGraph, PassPlacesParametersAndRemovesThem) {
  const int64_t count = graph_.parameter_count();
  const int64_t values = storage_bits(graph_).weight_values;
  quantize(kLearned);
  verify(graph_);
  EXPECT_EQ(graph_.parameter_count(), count + 4);
  EXPECT_EQ(storage_bits(graph_).weight_values, values);
  EXPECT_EQ(storage_bits(graph_).weight_bits, (8 * 16 + 16 * 2) * 3 + 18 * 32 + 4 * 32);
  Node& node = graph_.node("hidden");
  EXPECT_THAT(quantizable_operands(node), ElementsAre("data_in_0", "weight", "bias", "data_out_0"));
  EXPECT_EQ(scale_of(node, "data_in_0").values<float>()[0], 1);
  const at::Tensor weight = to_torch(node.find_parameter("weight")->tensor);
  EXPECT_THAT(scale_of(node, "weight").values<float>(),
              ElementsAre(FloatNear(2 * weight.abs().mean().item<float>() / std::sqrt(3.0F), 1e-6F)));

  scale_of(graph_.node("hidden"), "weight").values<float>()[0] = 0.75F;
  quantize(kLearned);  // a trained scale stays
  EXPECT_EQ(scale_of(graph_.node("hidden"), "weight").values<float>()[0], 0.75F);
  quantize(
      "requantize = true\n[passes.quantize.linear.config]\nname = \"fixed\"\nweight_width = 3\n"
      "weight_scale_rule = \"learned\"\nweight_granularity = \"channel\"\n");
  EXPECT_EQ(scale_of(graph_.node("hidden"), "weight").shape(), Shape{16});
  EXPECT_EQ(scale_of(graph_.node("hidden"), "bias").shape(), Shape{16});
  torch_output(graph_, inputs_);
  quantize(
      "requantize = true\n[passes.quantize.linear.config]\nname = \"fixed\"\ndata_in_name = \"NA\"\n"
      "weight_name = \"NA\"\nbias_name = \"NA\"\n");
  EXPECT_EQ(graph_.parameter_count(), count);
  graph_.node("out").quantization["weight"] = parse_quant_spec_text("fixed:scale_rule=learned");
  EXPECT_THROW(verify(graph_), Error);
}

constexpr const char* kLearnedAffine = R"([passes.quantize.linear.config]
name = "affine"
data_in_width = 4
data_in_scale_rule = "learned"
weight_width = 4
weight_scale_rule = "learned"
bias_name = "NA"
)";

/// As profile_statistics stores it.
void store_mean_magnitude(Node& node, const char* operand, const Value& mean) {
  node.statistics[operand]["abs_mean"] = Table{{"abs_mean", mean}, {"count", 64}};
}

TEST_F(LearnedScaleGraph, ActivationsBeginFromTheirStatistics) {
  try {
    quantize(kLearnedAffine);
    ADD_FAILURE() << "a scale with nothing to begin from";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("operand \"data_in_0\": key \"scale\": a learned scale needs one"));
    EXPECT_THAT(error.what(), HasSubstr("profile_statistics with abs_mean"));
  }
  for (const char* name : {"hidden", "out"}) store_mean_magnitude(graph_.node(name), "data_in_0", 0.5);
  quantize(kLearnedAffine);
  for (const char* name : {"hidden", "out"}) {
    EXPECT_THAT(scale_of(graph_.node(name), "data_in_0").values<float>(),
                ElementsAre(FloatNear(2 * 0.5F / std::sqrt(7.0F), 1e-6F)));
  }
}

TEST_F(LearnedScaleGraph, ActivationsPerChannelNeedStatisticsPerChannel) {
  const std::string per_channel =
      std::string(kLearnedAffine) + "data_in_granularity = \"channel\"\ndata_in_axis = 1\n";
  List means;
  for (int i = 1; i <= 8; ++i) means.emplace_back(i / 8.0);
  store_mean_magnitude(graph_.node("hidden"), "data_in_0", means);
  store_mean_magnitude(graph_.node("out"), "data_in_0", 0.5);
  try {
    quantize(per_channel);
    ADD_FAILURE() << "one mean for 16 channels";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("node \"out\", operand \"data_in_0\", statistic abs_mean: got 1 mean "
                                        "magnitudes, expected 16"));
  }
  List more;
  for (int i = 1; i <= 16; ++i) more.emplace_back(i / 16.0);
  store_mean_magnitude(graph_.node("out"), "data_in_0", more);
  quantize(per_channel);
  const Tensor& scale = scale_of(graph_.node("hidden"), "data_in_0");
  ASSERT_EQ(scale.shape(), Shape{8});
  for (size_t i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ(scale.values<float>()[i], 2 * (static_cast<float>(i) + 1) / 8 / std::sqrt(7.0F));
}

TEST_F(LearnedScaleGraph, GroupsAreForParameters) {
  quantize(
      "[passes.quantize.linear.config]\nname = \"int4_g4\"\nweight_scale_rule = \"learned\"\n"
      "bias_name = \"NA\"\n");
  EXPECT_EQ(scale_of(graph_.node("hidden"), "weight").shape(), Shape{16 * 2});
  verify(graph_);
  Interpreter interpreter(graph_);
  interpreter.run(inputs_).sum().backward();
  try {
    quantize("[passes.quantize.linear.config]\nname = \"int4_g4\"\ndata_in_scale_rule = \"learned\"\n");
    ADD_FAILURE() << "groups of an activation";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("granularity = \"group\", which is for parameters"));
  }
}

TEST_F(LearnedScaleGraph, IsSavedAndInTheStateDict) {
  quantize(kLearned);
  scale_of(graph_.node("out"), "weight").values<float>()[0] = 0.25F;
  const at::Tensor output = torch_output(graph_, inputs_);
  std::filesystem::create_directories(directory_);
  write_graph(directory_ / "g.mz", graph_);
  EXPECT_TRUE(torch_output(read_graph(directory_ / "g.mz"), inputs_).equal(output));
  Graph other = graph_.deep_copy();
  scale_of(other.node("out"), "weight").values<float>()[0] = 1;
  EXPECT_FALSE(torch_output(other, inputs_).equal(output));
  load_state_dict(other, state_dict(graph_), "test");
  EXPECT_TRUE(torch_output(other, inputs_).equal(output));
}

TEST_F(LearnedScaleGraph, TrainingItReducesTheLoss) {
  quantize(kLearned);
  Graph frozen = graph_.deep_copy();
  const double with_frozen_scales = trained_loss(frozen, false);
  const double with_learned_scales = trained_loss(graph_, true);
  EXPECT_LT(with_learned_scales, 0.9 * with_frozen_scales);
}

}  // namespace
}  // namespace detent
