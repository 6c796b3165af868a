// Layers that take up the batch norm after them while they are trained.

#include <map>
#include <memory>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/var_mean.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/autograd/interpreter.h"
#include "detent/autograd/owned_rounding.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/graph/builder.h"
#include "detent/graph/folded_norm.h"
#include "detent/graph/graph_parameters.h"
#include "detent/inference/integer_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// digits_cnn prepared with these options of prepare_qat.
std::unique_ptr<PassBench> prepared(const std::string& quantizers, const std::string& folding) {
  auto bench = std::make_unique<PassBench>(build_model("digits_cnn", {1, 8, 8}, 10));
  bench->run_passes(
      fmt::format("[passes.prepare_qat]\nquantizers = \"{}\"\nnum_samples = 20\nfold_batch_norm = \"{}\"\n",
                  quantizers, folding));
  return bench;
}

at::Tensor samples(const PassBench& bench) {
  return to_torch(RandomSamples(bench.sample_shape()).samples(0, 16)).clone();
}

class FoldedNorm : public testing::TestWithParam<const char*> {};

/// Without rounding all is as with a norm of its own: results, gradients, and running statistics.
TEST_P(FoldedNorm, IsBatchNormButForRounding) {
  const auto folded = prepared("int8_lsq", GetParam());
  const auto apart = prepared("int8_lsq", "no");
  const auto run = [](PassBench& bench) {
    Interpreter interpreter(bench.graph);
    interpreter.set_rounding(false);
    const at::Tensor output = interpreter.run(samples(bench));
    output.pow(2).mean().backward();
    std::map<std::string, at::Tensor> values = {{"output", output.detach()}};
    for (const auto& [name, leaf] : interpreter.named_trainable_parameters()) {
      const bool cancels = name.ends_with(".bias") && name.starts_with("conv");
      if (leaf.grad().defined() && !cancels) values.emplace(name, leaf.grad());
    }
    for (const auto& [name, tensor] : state_dict(bench.graph)) {
      if (name.find("running") != std::string::npos) values.emplace(name, to_torch(tensor).clone());
    }
    return values;
  };
  const auto expected = run(*apart);
  const auto actual = run(*folded);
  ASSERT_GT(expected.size(), 10U);
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const double most = std::max(value.abs().max().item<double>(), 1e-3);
    EXPECT_LT(actual.at(name).sub(value).abs().max().item<double>(), 1e-3 * most) << name;
  }
}

/// The formulas, on a linear layer.
TEST_P(FoldedNorm, RoundsTheWeightsOfInference) {
  GraphBuilder builder("linear");
  NodeInput x = builder.input("x", {4});
  x = builder.batch_norm("batch_norm1d", "norm", builder.linear("fc", x, 4, 3), 3);
  PassBench bench(builder.finish(x));
  Node& fc = bench.graph.node("fc");
  const bool is_corrected = std::string(GetParam()) == "corrected";
  Quantizer quantizer(parse_quant_spec_text("int4:scale_rule=learned"));
  const auto number = [](float value) { return Tensor::from<float>({}, std::vector{value}); };
  quantizer.parameters.emplace_back("scale", Parameter{number(0.11F)});
  quantizer.norm_folding = is_corrected ? NormFolding::kCorrected : NormFolding::kBatch;
  fc.quantization["weight"] = quantizer;
  const auto parameter = [&](const char* node, const char* name) {
    return to_torch(bench.graph.node(node).find_parameter(name)->tensor).clone();
  };
  const at::Tensor weight = parameter("fc", "weight");
  const at::Tensor sigma_before = parameter("norm", "running_var").add(1e-5).sqrt();
  const at::Tensor input = samples(bench);
  const auto [variance, mean] = at::var_mean(at::linear(input, weight), 0, false);
  const at::Tensor sigma = variance.add(1e-5).sqrt();
  const at::Tensor gamma = parameter("norm", "weight");
  const at::Tensor divisor = is_corrected ? sigma_before : sigma;
  const at::Tensor rounded = round_with_owned(weight.mul(gamma.div(divisor).view({3, 1})),
                                              {quantizer.spec, {{"scale", at::full({}, 0.11F)}}}, 1, 0);
  const at::Tensor expected = at::linear(input, rounded)
                                  .mul(divisor.div(sigma))
                                  .add(parameter("norm", "bias"))
                                  .sub(mean.mul(gamma).div(sigma));
  Interpreter interpreter(bench.graph);
  EXPECT_LT(interpreter.run(input).sub(expected).abs().max().item<double>(), 1e-4);
}

TEST_P(FoldedNorm, FrozenStatisticsGiveWhatInferenceGives) {
  const auto bench = prepared("int4_lsq", GetParam());
  Interpreter training(bench->graph);
  training.freeze_running_statistics(true);
  const at::Tensor expected = training.run(samples(*bench)).detach();
  const at::Tensor actual = torch_output(bench->graph, samples(*bench));
  // An input between two codes may take the other: sums are rounded elsewhere.
  const double most = expected.abs().max().item<double>();
  EXPECT_GE(actual.sub(expected).abs().lt(0.02 * most).sum().item<int64_t>(), expected.numel() * 8 / 10);
}

TEST_P(FoldedNorm, FinishesWithTheIntegersThatWereTrained) {
  const auto bench = prepared("int4_lsq", GetParam());
  const std::vector<float> expected = bench->outputs(bench->graph);
  bench->run_passes("[passes.finish_qat]\n");
  EXPECT_THAT(bench->reported, HasSubstr("3 batch norms folded, 5 layers compute on integers"));
  const Tensor inputs = RandomSamples(bench->sample_shape()).samples(0, 8);
  const Tensor simulated = FastExecutor().run(bench->graph, {&inputs, 1});
  const IntegerProgram program(bench->graph);
  EXPECT_TRUE(program.run({&inputs, 1}).front().equals(simulated));
  bench->graph.set_requantization(std::nullopt);  // with the biases in float
  EXPECT_EQ(bench->outputs(bench->graph), expected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FoldedNorm, testing::Values("batch", "corrected"));

TEST(FoldedNormErrors, NothingToFold) {
  PassBench bench(build_model("toy", {1, 2, 2}, 2));
  EXPECT_THAT(bench.error_of("[passes.prepare_qat]\nfold_batch_norm = \"batch\"\nnum_samples = 20\n"),
              HasSubstr("no layer that is quantized has a batch norm after it"));
  PassBench learned(build_model("digits_cnn", {1, 8, 8}, 10));
  EXPECT_THAT(learned.error_of("[passes.prepare_qat]\nfold_batch_norm = \"batch\"\nnum_samples = 20\n"
                               "quantizers = \"w4a8_learned_rounding\"\n"),
              HasSubstr("where the rounding of weights is \"learned\""));
  GraphBuilder builder("linear");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {4}), 4, 3));
  Quantizer weight(parse_quant_spec_text("int4"));
  weight.norm_folding = NormFolding::kBatch;
  graph.node("fc").quantization["weight"] = weight;
  EXPECT_THAT(error_of([&] { const Interpreter interpreter(graph); }),
              HasSubstr("no batch norm alone reads it"));
  graph.node("fc").quantization["data_in_0"] = weight;
  EXPECT_THAT(error_of([&] { verify(graph); }),
              HasSubstr("got a folded batch norm, expected that of weights alone"));
}

}  // namespace
}  // namespace detent
