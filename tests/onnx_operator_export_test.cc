#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/operators/onnx_export.h"

#include "operator_cases_test.h"

// Every operator is written in ONNX's format, and read again as nodes that compute the same.

namespace detent {
namespace {

TEST(OnnxOperatorExport, EveryOperatorCanBeWritten) {
  for (const OperatorSchema& schema : all_operators()) {
    const bool computes = schema.role == OperatorRole::kComputes || schema.role == OperatorRole::kNumber;
    EXPECT_EQ(find_onnx_exporter(schema.name) != nullptr, computes) << schema.name;
  }
}

/// Operators that ONNX has in steps, each of which rounds, or computes in another order.
const std::set<std::string>& operators_in_steps() {
  static const std::set<std::string> names = {"layer_norm", "group_norm", "rms_norm", "silu",
                                              "hardswish",  "softplus",   "mish"};
  return names;
}

/// Attributes' requests that ONNX lacks, by operator.
const std::map<std::string, std::string>& refused_cases() {
  static const std::map<std::string, std::string> reasons = {{"adaptive_avg_pool1d", "are not equal ones"},
                                                             {"adaptive_avg_pool2d", "are not equal ones"},
                                                             {"adaptive_avg_pool3d", "are not equal ones"},
                                                             {"adaptive_max_pool1d", "are not equal ones"},
                                                             {"adaptive_max_pool2d", "are not equal ones"},
                                                             {"adaptive_max_pool3d", "are not equal ones"},
                                                             {"lut", "truth tables"},
                                                             {"lut_conv1d", "truth tables"},
                                                             {"lut_conv2d", "truth tables"},
                                                             {"lutnet_linear", "trained tables"},
                                                             {"lutnet_conv1d", "trained tables"},
                                                             {"lutnet_conv2d", "trained tables"}};
  return reasons;
}

/// In the oldest operator set if that has the operator, else in the one that export chooses; its error where
/// none has.
std::string write(const Graph& graph, const std::filesystem::path& path) {
  std::string problem;
  for (const std::optional<int64_t> opset : {std::optional<int64_t>(13), std::optional<int64_t>()}) {
    try {
      export_onnx(graph, path, {.opset = opset});
      return "";
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  return problem;
}

std::string export_difference(const Tensor& expected, const Tensor& actual, bool in_steps) {
  if (expected.dtype() != actual.dtype() || expected.shape() != actual.shape())
    return fmt::format("{} of {} became {} of {}", dtype_name(expected.dtype()), shape_text(expected.shape()),
                       dtype_name(actual.dtype()), shape_text(actual.shape()));
  if (expected.equals(actual)) return "";
  if (expected.dtype() != DType::kFloat32) return "elements differ";
  float largest = 0;
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    const float a = expected.values<float>()[i];
    const float b = actual.values<float>()[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    largest = std::max(largest, std::fabs(a - b) / std::max(1.0F, std::fabs(a)));
  }
  constexpr float kRounding = 1e-5F;
  return largest <= (in_steps ? kRounding : 0) ? "" : fmt::format("differs by {}", largest);
}

TEST(OnnxOperatorExport, GivesTheSameWhenReadAgain) {
  const TemporaryPath path("model.onnx");
  size_t index = 0;
  std::set<std::string> written;
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(fmt::format("{}, case {}", c.op, index++));
    seed_everything(1);
    const Graph graph = one_operator_graph(c);
    const std::string problem = write(graph, path.get());
    if (!problem.empty()) {
      const auto reason = refused_cases().find(c.op);
      EXPECT_TRUE(reason != refused_cases().end() && problem.find(reason->second) != std::string::npos)
          << problem;
      continue;
    }
    written.insert(c.op);
    std::vector<Tensor> inputs;
    for (const at::Tensor& input : random_inputs(c, 2)) inputs.push_back(from_torch(input));
    try {
      const Graph imported = import_onnx(path.get(), {.shapes = {}, .frees_batch = false});
      const std::vector<Tensor> expected = IntegerExecutor().compile(graph)->run(inputs);
      const std::vector<Tensor> actual = IntegerExecutor().compile(imported)->run(inputs);
      ASSERT_EQ(expected.size(), actual.size());
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(export_difference(expected[i], actual[i], operators_in_steps().contains(c.op)), "");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  for (const OperatorSchema& schema : all_operators())
    EXPECT_TRUE(schema.role != OperatorRole::kComputes || written.contains(schema.name) ||
                refused_cases().contains(schema.name))
        << schema.name;
}

}  // namespace
}  // namespace detent
