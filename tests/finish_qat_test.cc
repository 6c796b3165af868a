// From quantization-aware training to integer execution: the integers that were trained are those that are
// executed.

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/graph/owned_parameters.h"
#include "detent/graph/traits.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// digits_cnn after some steps of training with the preset.
class FinishQat : public testing::TestWithParam<const char*> {
 protected:
  FinishQat() : bench_(build_model("digits_cnn", {1, 8, 8}, 10)) {
    for (Node& node : bench_.graph.nodes()) {  // some channels change their sign in the norm
      if (Parameter* gamma = node.op == "batch_norm2d" ? node.find_parameter("weight") : nullptr)
        gamma->tensor.values<float>()[0] *= -1;
    }
    bench_.run_passes(
        fmt::format("[passes.prepare_qat]\nquantizers = \"{}\"\nnum_samples = 20\n", GetParam()));
    train();
  }

  void train() {
    Interpreter interpreter(bench_.graph);
    const Tensor inputs = RandomSamples(bench_.sample_shape()).samples(0, 8);
    for (int step = 0; step < 3; ++step) {
      interpreter.run(to_torch(inputs)).pow(2).mean().backward();
      for (const at::Tensor& leaf : interpreter.trainable_parameters()) {
        if (!leaf.grad().defined()) continue;
        leaf.detach().sub_(leaf.grad(), 0.01);
        leaf.mutable_grad() = at::Tensor();
      }
    }
  }

  /// Magnitudes of the weights' codes, layer by layer.
  std::vector<long> code_magnitudes() const {
    std::vector<long> codes;
    for (const Node& node : bench_.graph.nodes()) {
      if (!is_weighted_sum(node)) continue;
      const Tensor& weight = node.find_parameter("weight")->tensor;
      const SettledOperand settled = settle(*node.find_quantizer("weight"), weight);
      QuantSpec rounding = *settled.quantizer.effective_spec();
      if (std::get<Affine>(rounding.format).scale.empty()) rounding = with_given_parameters(rounding, weight);
      const std::vector<float>& scales = std::get<Affine>(rounding.format).scale;
      const Tensor values = fake_quantize(rounding, settled.values);
      EXPECT_TRUE(values.equals(fake_quantize(*node.find_quantizer("weight"), weight))) << node.name;
      const WeightChannels channels(node);
      int64_t index = 0;
      for (const float value : values.values<float>()) {
        const auto channel = static_cast<size_t>(channels.output(index++));
        codes.push_back(std::labs(std::lround(value / scales[scales.size() == 1 ? 0 : channel])));
      }
    }
    return codes;
  }

  PassBench bench_;
};

TEST_P(FinishQat, KeepsIntegersAndResults) {
  const std::vector<long> codes = code_magnitudes();
  const std::vector<float> expected = bench_.outputs(bench_.graph);
  bench_.run_passes("[passes.finish_qat]\n");
  EXPECT_THAT(bench_.reported, HasSubstr("3 batch norms folded, 5 layers compute on integers"));
  EXPECT_EQ(code_magnitudes(), codes);
  bench_.graph.set_requantization(std::nullopt);  // with the biases in float
  const std::vector<float> actual = bench_.outputs(bench_.graph);
  ASSERT_EQ(actual.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  // An input that lies between two codes may take the other one: sums are rounded elsewhere.
  size_t close = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::fabs(actual[i] - expected[i]) < 1e-4F * largest) ++close;
  }
  EXPECT_GE(close, expected.size() * 8 / 10);
}

TEST_P(FinishQat, IntegersGiveTheBitsOfTheSimulation) {
  bench_.run_passes("[passes.finish_qat]\n");
  const Tensor inputs = RandomSamples(bench_.sample_shape()).samples(0, 8);
  const Tensor simulated = FastExecutor().run(bench_.graph, {&inputs, 1});
  const IntegerProgram program(bench_.graph);
  EXPECT_TRUE(program.run({&inputs, 1}).front().equals(simulated));
}

TEST_P(FinishQat, PackedWeightsGiveEqualResults) {
  bench_.run_passes("[passes.finish_qat]\n");
  const std::string path = testing::TempDir() + fmt::format("detent_finish_qat_{}.mz", getpid());
  write_packed_graph(path, bench_.graph);
  EXPECT_EQ(bench_.outputs(read_graph(path)), bench_.outputs(bench_.graph));
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Presets, FinishQat,
                         testing::Values("int8_lsq", "int4_lsq", "int8_pot", "int4_pact", "mixed_lsq",
                                         "int4_lsq_plus", "int4_stochastic", "w4a8_learned_rounding",
                                         "int2_dorefa"));

/// Formats without integers keep their norms, and their values.
class FinishQatInFloat : public testing::TestWithParam<const char*> {};

TEST_P(FinishQatInFloat, KeepsValuesAndPacksThem) {
  PassBench bench(build_model("digits_cnn", {1, 8, 8}, 10));
  bench.run_passes(
      fmt::format("[passes.prepare_qat]\nquantizers = \"{}\"\nnum_samples = 20\n"
                  "first_last_layers = \"as_others\"\n",
                  GetParam()));
  for (Node& node : bench.graph.nodes()) {
    for (auto& [operand, quantizer] : node.quantization) {  // as training leaves them
      for (auto& [name, parameter] : quantizer->parameters) {
        if (name == kExponentBias) parameter->tensor.values<float>()[0] -= 0.7F;
        if (name == kCodebook) std::ranges::reverse(parameter->tensor.values<float>());
      }
    }
  }
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes("[passes.finish_qat]\n");
  EXPECT_THAT(bench.reported, HasSubstr("0 batch norms folded, 0 layers compute on integers"));
  EXPECT_EQ(bench.outputs(bench.graph), expected);
  const std::string path = testing::TempDir() + fmt::format("detent_finish_qat_float_{}.mz", getpid());
  write_packed_graph(path, bench.graph);
  EXPECT_EQ(bench.outputs(read_graph(path)), expected);
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Presets, FinishQatInFloat, testing::Values("codebook4_a8", "fp6_learned_bias"));

}  // namespace
}  // namespace detent
