#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/datasets/published_data_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_file.h"

// ONNX's own tests of single operators, where they are at hand (https://github.com/onnx/onnx,
// backend/test/data/node).

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Cases that do not pass, and why.
const std::map<std::string, std::string>& known_failures() {
  static const std::string strings = "strings are no tensors here";
  static const std::string random = "draws at random as NumPy does";
  static const std::string bfloat16 = "its data are of UINT16 where the model says BFLOAT16";
  static const std::string sequences = "an input is a sequence or an optional, not a tensor";
  static const std::map<std::string, std::string> failures = {
#include "onnx_node_tests_known_failures.inc"
  };
  return failures;
}

std::vector<Tensor> read_tensors(const fs::path& folder, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (size_t i = 0;; ++i) {
    const fs::path file = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(file)) return tensors;
    tensors.push_back(read_onnx_tensor(file));
  }
}

std::string output_difference(const Tensor& got, const Tensor& wanted) {
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape()) {
    return fmt::format("got {} of shape {}, expected {} of shape {}", dtype_name(got.dtype()),
                       shape_text(got.shape()), dtype_name(wanted.dtype()), shape_text(wanted.shape()));
  }
  if (!is_floating_point(got.dtype())) return got.equals(wanted) ? "" : "integers differ";
  const Tensor ours_tensor = to_float32(got);
  const Tensor theirs_tensor = to_float32(wanted);
  const auto ours = ours_tensor.values<float>();
  const auto theirs = theirs_tensor.values<float>();
  for (size_t i = 0; i < ours.size(); ++i) {
    const double a = static_cast<double>(ours[i]);
    const double b = static_cast<double>(theirs[i]);
    const bool equal =
        a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b);
    if (!equal) return fmt::format("element {}: got {}, expected {}", i, a, b);
  }
  return "";
}

/// "" where all outputs are as expected.
std::string result_of(const fs::path& test, const Executor& executor) {
  try {
    const Graph graph = import_onnx(test / "model.onnx");
    const auto program = executor.compile(graph);
    for (size_t set = 0; fs::exists(test / fmt::format("test_data_set_{}", set)); ++set) {
      const fs::path folder = test / fmt::format("test_data_set_{}", set);
      const std::vector<Tensor> outputs = program->run(read_tensors(folder, "input"));
      const std::vector<Tensor> wanted = read_tensors(folder, "output");
      if (outputs.size() != wanted.size())
        return fmt::format("{} outputs of {}", outputs.size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        const std::string text = output_difference(outputs[i], wanted[i]);
        if (!text.empty()) return fmt::format("output {}: {}", i, text);
      }
    }
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void expect_all_but_those_listed(const Executor& executor) {
  const auto data = published_data({"onnx-node-tests-v1.12/test_add/model.onnx"});
  if (!data) GTEST_SKIP() << "the tests of ONNX are not there: set DETENT_DATA";
  size_t count = 0;
  size_t passed = 0;
  for (const auto& entry : fs::directory_iterator(*data / "onnx-node-tests-v1.12")) {
    if (!fs::exists(entry.path() / "model.onnx")) continue;
    const std::string name = entry.path().filename();
    const std::string result = result_of(entry.path(), executor);
    const bool is_listed = known_failures().contains(name);
    ++count;
    if (result.empty()) ++passed;
    EXPECT_EQ(result.empty(), !is_listed) << name << ": " << (is_listed ? "is listed, but passes" : result);
  }
  testing::Test::RecordProperty("passed", fmt::format("{} of {}", passed, count));
  EXPECT_GE(static_cast<double>(passed), 0.85 * static_cast<double>(count)) << passed << " of " << count;
}

TEST(OnnxNodeTests, PassInTheReferenceButForThoseThatAreListed) {
  expect_all_but_those_listed(IntegerExecutor());
}

TEST(OnnxNodeTests, PassInTheEngineButForThoseThatAreListed) { expect_all_but_those_listed(FastExecutor()); }

}  // namespace
}  // namespace detent
