#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/pass.h"

#include "operator_cases_test.h"

namespace detent {
namespace {

/// Keys without which a format does not work.
Table needed_keys(const std::string& format) {
  const std::vector<std::pair<std::string, Table>> needs = {
      {"codebook", {{"values", List{Value(-2.0), Value(-0.5), Value(0.0), Value(0.5), Value(2.0)}}}},
  };
  for (const auto& [name, keys] : needs) {
    if (name == format) return keys;
  }
  return {};
}

std::vector<std::string> prefixes_of(const Node& node) {
  std::set<std::string> prefixes;
  for (const std::string& operand : quantizable_operands(node)) {
    if (operand.starts_with("data_in")) prefixes.insert("data_in");
    if (operand == "data_in_1" && find_operator(node.op).reduction_dim(operand)) prefixes.insert("weight");
    if (operand == "data_out_0") prefixes.insert("data_out");
    if (operand == "weight" || operand == "bias") prefixes.insert(operand);
  }
  return {prefixes.begin(), prefixes.end()};
}

class OperatorFormatTable : public testing::TestWithParam<std::string> {
 protected:
  OperatorFormatTable() {
    directory_ =
        std::filesystem::temp_directory_path() / fmt::format("detent_table_{}_{}", GetParam(), getpid());
    std::filesystem::create_directories(directory_);
    context_.output_dir = directory_;
    context_.report = [](const std::string&) {};
    context_.warn = [](const std::string& text) { ADD_FAILURE() << text; };
  }
  ~OperatorFormatTable() override { std::filesystem::remove_all(directory_); }

  /// By type, that format on every operand of the node.
  void quantize(Graph& graph) {
    const Node& node = graph.node("layer");
    Table config = {{"name", GetParam()}};
    for (const std::string& prefix : prefixes_of(node)) {
      config[prefix + "_name"] = GetParam();
      for (const auto& [key, value] : needed_keys(GetParam())) config[prefix + "_" + key] = value;
    }
    const Table entry = {{"config", config}};
    const Table options = {{"by", "type"}, {"report", false}, {node.op, entry}};
    run_pipeline(graph, {{"quantize", options}}, "table", context_);
  }

  std::filesystem::path directory_;
  PassContext context_;
};

void expect_finite_gradients(const OperatorCase& c, const Graph& graph, std::vector<at::Tensor> inputs) {
  Interpreter interpreter(graph);
  std::vector<at::Tensor> leaves = interpreter.trainable_parameters();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.has_gradient(i)) leaves.push_back(inputs[i].set_requires_grad(true));
  }
  const at::Tensor output = interpreter.run(inputs);
  output.backward(at::randn(output.sizes()));
  for (const at::Tensor& leaf : leaves) {
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_TRUE(!c.is_total || at::isfinite(leaf.grad()).all().item<bool>());
  }
}

/// Gives ternary a threshold for a result that is 0 wherever it is finite, as the logarithm of ternary
/// operands is: none follows from it.
void give_threshold_of_zeros(Graph& graph, const std::vector<at::Tensor>& inputs) {
  Graph unrounded = graph;
  std::erase_if(unrounded.node("layer").quantization,
                [](const auto& entry) { return entry.first.starts_with("data_out_"); });
  const at::Tensor result = torch_output(unrounded, inputs);
  if (result.isfinite().logical_and(result.ne(0)).any().item<bool>()) return;
  for (auto& [operand, quantizer] : graph.node("layer").quantization) {
    if (operand.starts_with("data_out_"))
      quantizer = QuantizerRef(parse_quant_spec_text("ternary:threshold=0.05"));
  }
}

/// Counts float operands, but for running statistics.
size_t quantized_operand_count(const Graph& graph) {
  const Node& node = graph.node("layer");
  const ValueTypes values = infer_shapes(graph);
  return static_cast<size_t>(
      std::ranges::count_if(quantizable_operands(node), [&](const std::string& operand) {
        return !operand.starts_with("running_") &&
               operand_type(node, operand, values).dtype == DType::kFloat32;
      }));
}

TEST_P(OperatorFormatTable, EveryOperatorRunsTrainsAndIsSaved) {
  constexpr double kNarrow = 8;  // bits; a wider format may hold the few numbers of a test exactly
  const bool is_narrow =
      bits_per_value(parse_quant_spec(GetParam(), needed_keys(GetParam()), "table").format) <= kNarrow;
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(c.op);
    if (!find_operator(c.op).quantizable) continue;
    seed_everything(4);
    Graph graph = one_operator_graph(c);
    const std::vector<at::Tensor> inputs = random_inputs(c, 2);
    const at::Tensor plain = torch_output(graph, inputs);
    quantize(graph);
    if (GetParam() == "ternary") give_threshold_of_zeros(graph, inputs);
    EXPECT_EQ(graph.node("layer").quantization.size(), quantized_operand_count(graph));

    const at::Tensor output = torch_output(graph, inputs);
    EXPECT_TRUE(!c.is_total || at::isfinite(output).all().item<bool>());
    EXPECT_EQ(output.sizes(), plain.sizes());
    EXPECT_FALSE(is_narrow && c.gradient == CaseGradient::kSmooth && output.equal(plain));

    write_graph(directory_ / "layer.mz", graph);
    const Graph loaded = read_graph(directory_ / "layer.mz");
    EXPECT_EQ(loaded.node("layer").quantization, graph.node("layer").quantization);
    EXPECT_TRUE(at::allclose(torch_output(loaded, inputs), output, 0, 0, /*equal_nan=*/true));
    if (c.gradient != CaseGradient::kNone) expect_finite_gradients(c, graph, inputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, OperatorFormatTable, testing::ValuesIn(format_names()),
                         [](const auto& format) { return format.param; });

}  // namespace
}  // namespace detent
