#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error.h"
#include "detent/io/temporary_file_test.h"
#include "detent/models/model.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "pass_bench_test.h"

// What is written in ONNX's format and read again is the same network.

namespace detent {
namespace {

using testing::HasSubstr;

std::vector<Tensor> results(const Graph& graph, const Tensor& input) {
  return TorchExecutor().compile(graph)->run(std::span(&input, 1));
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                  const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].shape(), actual[i].shape()) << what;
    float largest = 0;
    for (size_t e = 0; e < expected[i].values<float>().size(); ++e)
      largest = std::max(largest, std::fabs(expected[i].values<float>()[e] - actual[i].values<float>()[e]));
    EXPECT_TRUE(expected[i].equals(actual[i])) << what << ": the largest difference is " << largest;
  }
}

Graph exported_and_imported(const Graph& graph, const OnnxExportOptions& options = {}) {
  const TemporaryPath file("model.onnx");
  export_onnx(graph, file.get(), options);
  return import_onnx(file.get());
}

class BuiltInModel : public testing::TestWithParam<std::string> {};

TEST_P(BuiltInModel, GivesTheSameBytesWhenImportedAgain) {
  const ModelInfo& model = find_model(GetParam());
  const PassBench bench(model.build(model.sample_shape, model.class_count));
  const Graph imported = exported_and_imported(bench.graph);
  EXPECT_EQ(imported.input_names(), bench.graph.input_names());
  EXPECT_EQ(imported.parameter_count(), bench.graph.parameter_count());
  const Tensor input = RandomSamples(bench.sample_shape()).samples(0, 2);
  expect_equal(results(bench.graph, input), results(imported, input), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInModel, testing::ValuesIn(model_names()));

}  // namespace
}  // namespace detent
