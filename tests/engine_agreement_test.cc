// Every operator with operands of every kind of format: the engine gives what the plain reference gives,
// values inside included, before and after they are rounded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include <ATen/core/Tensor.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "operator_cases_test.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::IsEmpty;

using OperandValues = std::map<std::pair<std::string, std::string>, Tensor>;

struct ObservedRun {
  OperandValues values;
  std::vector<Tensor> outputs;
};

ObservedRun observed_run(const Program& program, const std::vector<Tensor>& inputs, ObservedValues when,
                         const std::optional<Observation::Operands>& operands = {}) {
  ObservedRun run;
  const auto keep = [&](const Node& node, std::string_view operand, const Tensor& value) {
    run.values[{node.name, std::string(operand)}] = value.clone();
  };
  run.outputs = program.run(inputs, {keep, when, operands});
  return run;
}

/// NaNs of any kind are equal.
bool equal_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::kFloat32 || b.dtype() != DType::kFloat32) return a.equals(b);
  const auto is_same = [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y)) ||
           (x == 0 && y == 0);
  };
  return a.shape() == b.shape() && std::ranges::equal(a.values<float>(), b.values<float>(), is_same);
}

std::vector<std::string> differences(const ObservedRun& expected, const ObservedRun& actual) {
  std::vector<std::string> found;
  for (const auto& [operand, value] : expected.values) {
    const auto other = actual.values.find(operand);
    if (other == actual.values.end()) {
      found.push_back(operand.first + " " + operand.second + " is not there");
    } else if (!equal_bits(value, other->second)) {
      found.push_back(operand.first + " " + operand.second);
    }
  }
  for (const auto& [operand, value] : actual.values) {
    if (!expected.values.contains(operand)) found.push_back(operand.first + " " + operand.second + " is new");
  }
  for (size_t i = 0; i < expected.outputs.size(); ++i)
    if (!equal_bits(expected.outputs[i], actual.outputs[i])) found.push_back(fmt::format("output {}", i));
  return found;
}

void expect_agreement(const Graph& graph, const std::vector<Tensor>& inputs) {
  const IntegerProgram reference(graph);
  const FastProgram engine(graph);
  for (const auto when : {ObservedValues::kBeforeQuantization, ObservedValues::kAfterQuantization}) {
    SCOPED_TRACE(when == ObservedValues::kBeforeQuantization ? "before" : "after");
    const ObservedRun expected = observed_run(reference, inputs, when);
    EXPECT_THAT(differences(expected, observed_run(engine, inputs, when)), IsEmpty()) << "all observed";
    for (const auto& [operand, value] : expected.values) {
      ObservedRun only{{{operand, value}}, expected.outputs};
      EXPECT_THAT(differences(only, observed_run(engine, inputs, when, Observation::Operands{operand})),
                  IsEmpty())
          << "where only " << operand.first << " " << operand.second << " is observed";
    }
  }
  const std::vector<Tensor> expected = reference.run(inputs);
  EXPECT_THAT(differences({{}, expected}, {{}, engine.run(inputs)}), IsEmpty()) << "nothing observed";
}

/// Kinds of formats for values, and for parameters.
struct Formats {
  const char* values;
  const char* results;
  const char* parameters;
};

class EngineAgreement : public testing::TestWithParam<Formats> {};

TEST_P(EngineAgreement, OfEveryOperator) {
  for (const OperatorCase& c : operator_cases()) {
    if (!find_operator(c.op).quantizable) continue;
    for (const auto& way : std::vector<std::optional<Requantization>>{std::nullopt, Requantization::kFloat,
                                                                      Requantization::kFixedPoint}) {
      SCOPED_TRACE(c.op + (way ? (*way == Requantization::kFloat ? ", float" : ", fixed point") : ""));
      seed_everything(4);
      Graph graph = one_operator_graph(c);
      Node& node = graph.node("layer");
      for (const std::string& operand : quantizable_operands(node)) {
        if (operand == "bias" || operand.starts_with("running_")) continue;
        const char* format = operand.starts_with("data_out")  ? GetParam().results
                             : operand.starts_with("data_in") ? GetParam().values
                                                              : GetParam().parameters;
        if (*format != '\0') node.quantization[operand] = parse_quant_spec_text(format);
      }
      graph.set_requantization(way);
      std::vector<Tensor> inputs;
      for (const at::Tensor& input : random_inputs(c, 2)) inputs.push_back(from_torch(input.contiguous()));
      const auto refuses = [&](const auto& run) { return !detent::error_of(run).empty(); };
      if (refuses([&] { IntegerProgram(graph).run(inputs); })) {
        EXPECT_TRUE(refuses([&] { FastProgram(graph).run(inputs); }));
        continue;
      }
      expect_agreement(graph, inputs);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, EngineAgreement,
    testing::Values(Formats{"affine:scale=0.03,symmetric=true", "affine:width=4,scale=0.21",
                            "affine:scale=0.03,symmetric=true"},
                    Formats{"affine:scale=0.03,zero_point=3,signed=false,width=6", "mx:element=e2m1",
                            "affine:scale=0.03,symmetric=true"},
                    Formats{"mx:element=e4m3", "affine:width=4,scale=0.21", "mx:element=int8"},
                    Formats{"minifloat_ieee:width=6,exponent_width=3", "fixed:width=5,frac_width=2", ""},
                    Formats{"affine", "log:width=5", "binary"},
                    Formats{"", "affine:width=16,scale=0.001", "ternary"},
                    Formats{"binary", "affine:scale=0.1", "affine:scale=0.03,symmetric=true"}));

/// Layers that a kernel computes together where nobody looks.
TEST(EngineAgreement, OfFusedLayers) {
  for (const char* options : {"", "activations = \"uint4\"", "keep_float = [\"conv\", \"fc\"]"}) {
    for (const bool is_quantized : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", options, is_quantized));
      GraphBuilder b("fused");
      const NodeInput x = b.convolution("first", b.input("x", {3, 6, 6}), 3, 3, {3, 3}, {{"padding", 1}});
      const NodeInput y = b.convolution("conv", b.call("relu", {x}), 3, 3, {3, 3}, {{"padding", 1}});
      const NodeInput pooled =
          b.module("avg_pool2d", "pool", b.call("relu", {b.call("add", {x, y})}), {{"kernel_size", 2}});
      PassBench bench(b.finish(b.linear("fc", b.call("flatten", {pooled}, {{"start_dim", 1}}), 27, 4)));
      if (is_quantized)
        bench.run_passes(fmt::format("[passes.static_quantize]\nnum_samples = 8\n{}\n", options));
      expect_agreement(bench.graph, {RandomSamples(bench.sample_shape()).samples(0, 3)});
    }
  }
}

}  // namespace
}  // namespace detent
