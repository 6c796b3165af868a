// Values of a quantized operand that observers see: for every operator the value before it is rounded to its
// format, or the value that the format leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "operator_cases_test.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

constexpr auto kBefore = ObservedValues::kBeforeQuantization;
constexpr auto kAfter = ObservedValues::kAfterQuantization;

Tensor observed(const Graph& graph, const std::vector<Tensor>& inputs, const char* operand,
                ObservedValues values) {
  Tensor result;
  const auto keep = [&](const Node& node, std::string_view seen, const Tensor& value) {
    if (node.name == "layer" && seen == operand) result = value.clone();
  };
  IntegerProgram(graph).run(inputs, {keep, values, {}});
  return result;
}

/// NaNs of any kind are equal.
bool equal_values(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::ranges::equal(a.values<float>(), b.values<float>(),
                            [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Formats on all that the node takes in and on its result, such that it computes on codes where it can.
void quantize_layer(Graph& graph) {
  Node& node = graph.node("layer");
  for (const std::string& operand : quantizable_operands(node)) {
    if (operand == "bias" || operand.starts_with("running_")) continue;
    const bool is_result = operand == "data_out_0";
    node.quantization[operand] =
        parse_quant_spec_text(is_result ? "affine:width=4,scale=0.21" : "affine:scale=0.03,symmetric=true");
  }
}

TEST(ObservedValues, OfEveryOperatorAreBeforeOrAfterRounding) {
  std::vector<std::optional<Requantization>> ways = {std::nullopt, Requantization::kFloat,
                                                     Requantization::kFixedPoint};
  int on_codes = 0;
  for (const OperatorCase& c : operator_cases()) {
    if (!find_operator(c.op).quantizable) continue;
    for (const auto& way : ways) {
      SCOPED_TRACE(c.op + (way ? (*way == Requantization::kFloat ? ", float" : ", fixed point") : ""));
      seed_everything(4);
      Graph graph = one_operator_graph(c);
      const ValueTypes types = infer_shapes(graph);
      const Node& plain = graph.node("layer");
      if (operand_type(plain, "data_in_0", types).dtype != DType::kFloat32) continue;  // has no format
      if (result_count(plain) > 1) continue;  // the graph's output is made of several
      quantize_layer(graph);
      graph.set_requantization(way);
      const Node& node = graph.node("layer");
      on_codes += way && node_form(node, *way) ? 1 : 0;
      std::vector<Tensor> inputs;
      for (const at::Tensor& input : random_inputs(c, 2)) inputs.push_back(from_torch(input.contiguous()));
      const Tensor result = IntegerProgram(graph).run(inputs).front();
      EXPECT_TRUE(equal_values(observed(graph, inputs, "data_out_0", kAfter), result));
      Graph unrounded = graph;
      unrounded.node("layer").quantization.erase("data_out_0");
      const Tensor before = observed(graph, inputs, "data_out_0", kBefore);
      EXPECT_TRUE(equal_values(before, IntegerProgram(unrounded).run(inputs).front()));
      EXPECT_TRUE(moves_codes(node) || !equal_values(before, result));
      if (const QuantSpec* spec = node.find_quantization("data_in_0")) {
        EXPECT_TRUE(equal_values(observed(graph, inputs, "data_in_0", kBefore), inputs[0]));
        const Tensor taken = observed(graph, inputs, "data_in_0", kAfter);
        EXPECT_TRUE(equal_values(fake_quantize(*spec, inputs[0]), taken));
      }
    }
  }
  EXPECT_GT(on_codes, 20) << "sums, tables, pairs and averages";
}

/// Whether the smallest and the largest result of a node that were profiled are multiples of the result's
/// scale.
bool profiled_on_grid(PassBench& bench, const std::string& node, const std::string& options) {
  bench.run_passes(
      fmt::format("[passes.profile_statistics]\nby = \"name\"\ntarget_activation_nodes = [\"{}\"]\n"
                  "profile_output_activation = true\nnum_samples = 4\nexact_num_samples = true\n{}\n"
                  "[passes.profile_statistics.activation_statistics.range_min_max]\n",
                  node, options));
  const Node& profiled = bench.graph.node(node);
  const auto& affine = std::get<Affine>(profiled.find_quantization("data_out_0")->format);
  const Table& range =
      *profiled.statistics.results.find("data_out_0")->find("range_min_max")->get_if<Table>();
  const auto is_multiple = [&](const char* key) {
    const double steps = *range.find(key)->get_if<double>() / static_cast<double>(affine.scale[0]);
    return std::fabs(steps - std::round(steps)) < 1e-4;
  };
  return is_multiple("min") && is_multiple("max");
}

TEST(ObservedValues, OfProfilesFollowTheOption) {
  GraphBuilder b("residual");
  const NodeInput x = b.convolution("first", b.input("x", {3, 6, 6}), 3, 3, {3, 3}, {{"padding", 1}});
  const NodeInput y = b.convolution("conv", x, 3, 3, {3, 3}, {{"padding", 1}});
  const NodeInput pooled = b.module("avg_pool2d", "pool", b.call("add", {x, y}), {{"kernel_size", 2}});
  PassBench bench(b.finish(b.linear("fc", b.call("flatten", {pooled}, {{"start_dim", 1}}), 27, 4)));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 20\nreport = false\nactivations = \"uint6\"\n");
  for (const char* node : {"conv", "add", "pool"}) {
    EXPECT_FALSE(profiled_on_grid(bench, node, "")) << node;
    EXPECT_FALSE(profiled_on_grid(bench, node, "observed_values = \"before_quantization\"")) << node;
    EXPECT_TRUE(profiled_on_grid(bench, node, "observed_values = \"after_quantization\"")) << node;
  }
}

}  // namespace
}  // namespace detent
