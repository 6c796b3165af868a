#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "detent/datasets/collected_samples.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/builder.h"
#include "detent/workflows/network_report.h"

namespace detent {
namespace {

Graph layer_for(Dimension samples) {
  GraphBuilder b("layer");
  const NodeInput x = b.input("x", TensorType{DType::kFloat32, {std::move(samples), 2}});
  return b.finish(b.linear("layer", x, 2, 3));
}

std::unique_ptr<Dataset> samples_of_two(int64_t count) {
  CollectedSamples samples({{"x", DType::kFloat32, {}}}, std::filesystem::temp_directory_path(), "samples");
  samples.add(std::vector{Tensor(DType::kFloat32, {count, 2})});
  return samples.finish(0);
}

/// A network that takes 600 samples at once takes no fewer, whatever they cost.
TEST(FirstInputs, AreAWholeBatchWhereTheNetworkFixesIt) {
  const auto dataset = samples_of_two(1200);
  constexpr double kFewProducts = 120;
  EXPECT_EQ(first_inputs(layer_for(600), *dataset, 64, kFewProducts).at(0).shape(), (Shape{600, 2}));
  EXPECT_EQ(first_inputs(layer_for("N"), *dataset, 64, kFewProducts).at(0).shape(), (Shape{10, 2}));
  EXPECT_EQ(first_inputs(layer_for("N"), *dataset, 4, kFewProducts).at(0).shape(), (Shape{4, 2}));
}

TEST(CheckedIntegers, CompareAWholeBatch) {
  Graph graph = layer_for(600);
  Node& layer = graph.node("layer");
  for (const char* operand : {"data_in_0", "weight", "data_out_0"})
    layer.quantization[operand] = parse_quant_spec_text("affine:scale=0.1");
  graph.set_requantization(Requantization::kFloat);
  const CheckedIntegers checked = check_integers(graph, *samples_of_two(1200), {.shows_progress = false});
  EXPECT_THAT(checked.text, testing::HasSubstr("600 samples"));
  EXPECT_THAT(checked.text, testing::HasSubstr("all integers equal"));
}

}  // namespace
}  // namespace detent
