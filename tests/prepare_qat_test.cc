#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error_of_for_test.h"
#include "detent/graph/traits.h"
#include "detent/models/model.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/passes/qat/qat_presets.h"

namespace detent {
namespace {

using testing::HasSubstr;

PassBench digits_bench() { return PassBench(build_model("digits_cnn", {1, 8, 8}, 10)); }

std::vector<const Node*> layers_of(const Graph& graph) {
  std::vector<const Node*> layers;
  for (const Node& node : graph.nodes()) {
    if (is_weighted_sum(node)) layers.push_back(&node);
  }
  return layers;
}

int width(const Node& layer, const char* operand) {
  return std::get<Affine>(layer.find_quantization(operand)->format).width;
}

TEST(PrepareQat, QuantizesLayersAndKeepsEightBitsAtTheEnds) {
  PassBench bench = digits_bench();
  bench.run_passes("[passes.prepare_qat]\nquantizers = \"int2_lsq\"\nnum_samples = 20\n");
  const auto layers = layers_of(bench.graph);
  ASSERT_GE(layers.size(), 3U);
  for (const Node* layer : layers) {
    const bool is_first_or_last = layer == layers.front() || layer == layers.back();
    EXPECT_EQ(width(*layer, "weight"), is_first_or_last ? 8 : 2) << layer->name;
    EXPECT_EQ(width(*layer, "data_in_0"), is_first_or_last ? 8 : 2) << layer->name;
    const Quantizer& weight = *layer->find_quantizer("weight");
    const Parameter* scale = weight.find_parameter(is_first_or_last ? "log2_scale" : "scale");
    ASSERT_NE(scale, nullptr) << "learned";
    EXPECT_EQ(scale->tensor.shape().size(), 1U) << "a channel";
  }
  EXPECT_THAT(bench.reported, HasSubstr(fmt::format("prepare_qat: {0} of {0} layers", layers.size())));
}

TEST(PrepareQat, CodesAreUnsignedWhereInputsAreNeverNegative) {
  PassBench bench = digits_bench();
  bench.run_passes("[passes.prepare_qat]\nquantizers = \"int4_lsq\"\nnum_samples = 20\n");
  for (const Node* layer : layers_of(bench.graph)) {
    const bool is_first = layer == layers_of(bench.graph).front();  // of samples from a normal distribution
    EXPECT_EQ(std::get<Affine>(layer->find_quantization("data_in_0")->format).is_signed, is_first)
        << layer->name;
  }
}

TEST(PrepareQat, LeavesInFloatWhatItIsTold) {
  PassBench bench = digits_bench();
  const std::string kept = layers_of(bench.graph)[1]->name;
  bench.run_passes(fmt::format(
      "[passes.prepare_qat]\nedge_layers = \"float\"\nkeep_float = [\"{}\"]\nnum_samples = 20\n", kept));
  const auto layers = layers_of(bench.graph);
  for (const Node* layer : {layers.front(), layers[1], layers.back()})
    EXPECT_TRUE(layer->quantization.empty()) << layer->name;
  EXPECT_FALSE(layers[2]->quantization.empty());
}

TEST(PrepareQat, EveryPresetRunsAndTrains) {
  for (const QatPreset& preset : all_qat_presets()) {
    PassBench bench = digits_bench();
    bench.run_passes(
        fmt::format("[passes.prepare_qat]\nquantizers = \"{}\"\nnum_samples = 20\n", preset.name));
    Interpreter interpreter(bench.graph);
    interpreter.run(to_torch(RandomSamples(bench.sample_shape()).samples(0, 4))).pow(2).sum().backward();
    for (const auto& [name, parameter] : interpreter.named_trainable_parameters())
      EXPECT_TRUE(parameter.grad().defined()) << preset.name << ": " << name;
  }
}

TEST(PrepareQat, MistakesAreNamed) {
  const auto error_of = [](const std::string& options) -> std::string {
    PassBench bench = digits_bench();
    return detent::error_of([&] { bench.run_passes("[passes.prepare_qat]\n" + options); });
  };
  EXPECT_THAT(error_of("quantizers = \"int4_lqs\"\n"), HasSubstr("int4_lsq"));
  EXPECT_THAT(error_of("keep_float = [\"nothing.*\"]\n"), HasSubstr("nothing.*"));
  EXPECT_THAT(error_of("keep_float = [\".*\"]\nnum_samples = 20\n"),
              HasSubstr("no layer with weights is left"));
}

}  // namespace
}  // namespace detent
