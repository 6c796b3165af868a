// `detent quantize` of a network and a folder of images, as its users run it.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/datasets/image_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/graph/builder.h"
#include "detent/graph_files/graph_file.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Numbers between -1 and 1 that look random and are the same everywhere.
void fill_with_waves(Graph& graph) {
  double angle = 0;
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters)
      for (float& value : parameter->tensor.values<float>())
        value = static_cast<float>(std::sin(angle += 0.7));
  }
}

/// images [N, 3, height, width] -> [N, classes]
Graph network(Dimension height, Dimension width) {
  GraphBuilder builder("images");
  NodeInput x = builder.input(
      "images", TensorType{DType::kFloat32, {kBatchName, 3, std::move(height), std::move(width)}});
  x = builder.call("relu", {builder.convolution("conv", x, 3, 8, {3, 3}, {{"stride", 2}, {"padding", 1}})});
  x = builder.call("adaptive_avg_pool2d", {x}, {{"output_size", 1}});
  Graph graph = builder.finish(builder.linear("fc", builder.call("flatten", {x}, {{"start_dim", 1}}), 8, 4));
  fill_with_waves(graph);
  return graph;
}

class ImageCalibration : public testing::Test {
 protected:
  ImageCalibration() { fs::create_directories(folder_ / "im"); }
  ~ImageCalibration() override { fs::remove_all(folder_); }

  void put(const std::string& name, uint32_t height, uint32_t width, size_t seed) {
    std::vector<std::vector<uint8_t>> rows(height, std::vector<uint8_t>(size_t{3} * width));
    for (auto& row : rows)
      for (uint8_t& level : row) level = static_cast<uint8_t>((seed = seed * 6364136223846793005U + 1) >> 56);
    std::ofstream(folder_ / "im" / name, std::ios::binary)
        << png_bytes({.width = width, .height = height, .color_type = PNG_COLOR_TYPE_RGB}, rows);
  }
  int quantize(const std::string& options) {
    return run_in(folder_, "detent quantize net.mz --calibration im --project q --overwrite " + options);
  }
  std::string log() { return read_file(folder_ / "log.txt"); }
  std::string inputs_of_result() {
    run_in(folder_, "detent info $(find . -name graph_module.mz)");
    return log();
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_image_calibration_{}", getpid());
};

TEST_F(ImageCalibration, AnOpenSizeIsThatOfTheImagesOrAskedFor) {
  write_graph(folder_ / "net.mz", network("height", "width"));
  for (uint32_t k = 0; k < 12; ++k) put(fmt::format("{:02}.png", k), 40, 64, k);
  ASSERT_EQ(quantize(""), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("height = 40, as the samples have it"),
                           HasSubstr("width = 64, as the samples have it")));
  EXPECT_THAT(inputs_of_result(), HasSubstr("float32 [N, 3, height, width]"))
      << "only ranges were calibrated";
  put("12.png", 41, 64, 12);
  ASSERT_EQ(quantize(""), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("height = 40 to 41, as the samples have it"),
                           HasSubstr("width = 64, as the samples have it")));
  EXPECT_THAT(inputs_of_result(), HasSubstr("float32 [N, 3, height, width]"));
  ASSERT_EQ(quantize("--image-size 24"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("height = 24, as the samples have it"));
  EXPECT_THAT(inputs_of_result(), HasSubstr("float32 [N, 3, height, width]"));
}

TEST_F(ImageCalibration, ANetworkOfSeveralImagesAtOnceNeedsThemAlike) {
  GraphBuilder builder("images");
  const TensorType four_images{DType::kFloat32, {4, 3, Dimension("height", 8), Dimension("width", 8)}};
  const NodeInput x = builder.input("images", four_images);
  Graph four = builder.finish(builder.convolution("conv", x, 3, 2, {3, 3}, {}));
  fill_with_waves(four);
  write_graph(folder_ / "net.mz", four);
  for (uint32_t k = 0; k < 9; ++k) put(fmt::format("{:02}.png", k), 16, 16 + k / 8, k);
  EXPECT_EQ(quantize(""), 1);
  EXPECT_THAT(log(), AllOf(HasSubstr("08.png 16x17"), HasSubstr("give --image-size N")));
  fs::remove(folder_ / "im/08.png");
  ASSERT_EQ(quantize(""), 0) << log();
  EXPECT_THAT(log(), HasSubstr("8 samples profiled"));
  EXPECT_THAT(inputs_of_result(), HasSubstr("float32 [4, 3, height, width]"));
}

TEST_F(ImageCalibration, WhatIsNoSquareTakesImagesThatAreNone) {
  write_graph(folder_ / "net.mz", network(20, 30));
  for (uint32_t k = 0; k < 12; ++k) put(fmt::format("{:02}.png", k), 20, 30, k);
  ASSERT_EQ(quantize(""), 0) << log();
  fs::remove_all(folder_ / "im");
  fs::create_directories(folder_ / "im");
  put("a.png", 20, 31, 1);
  EXPECT_EQ(quantize(""), 1);
  EXPECT_THAT(log(), HasSubstr("takes float32 [N, 3, 20, 30], the data set has float32 [1, 3, 20, 31]"));
}

/// Files of arrays, each with samples of its own sizes.
TEST_F(ImageCalibration, SamplesOfSeveralSizesCalibrateTogether) {
  write_graph(folder_ / "net.mz", network({"height", 9}, {"width", 9}));
  fs::create_directories(folder_ / "arrays");
  for (int64_t k = 0; k < 3; ++k) {
    Tensor samples(DType::kFloat32, {5, 3, 12 + k, 20});
    for (float& value : samples.values<float>()) value = static_cast<float>(k + 1);
    write_npy(folder_ / fmt::format("arrays/{}.npy", k), samples);
  }
  const auto run = [&](const std::string& options) {
    return run_in(folder_, "detent quantize net.mz --calibration arrays --project q --overwrite " + options);
  };
  ASSERT_EQ(run(""), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("height = 12 to 14, as the samples have it"),
                           HasSubstr("15 samples profiled"), HasSubstr("all integers equal")));
  EXPECT_THAT(inputs_of_result(), HasSubstr("float32 [N, 3, height, width]"));
  EXPECT_EQ(run("--improve gptq,bias_correction"), 0) << log();
  EXPECT_EQ(run("--shape images=1,3,12,20"), 1);
  EXPECT_THAT(log(), HasSubstr("takes float32 [N, 3, 12, 20], the data set has float32 [1, 3, 13, 20]"));
  EXPECT_EQ(run("--shape images=1,4,12,20"), 1);
  EXPECT_THAT(log(), HasSubstr("--shape images: got [1, 4, 12, 20], expected one that fits"));
}

/// Samples that are folded into the steps of one sequence.
TEST_F(ImageCalibration, SamplesThatABatchWouldMixRunOneAtATime) {
  GraphBuilder builder("folded");
  const NodeInput x = builder.input("x", TensorType{DType::kFloat32, {kBatchName, 6, 8}});
  const NodeInput y = builder.linear("fc", x, 8, 4);
  Graph graph = builder.finish(builder.call("cumsum", {y, NodeInput::of_constant(int64_t{0})}));
  fill_with_waves(graph);
  write_graph(folder_ / "net.mz", graph);
  Tensor samples(DType::kFloat32, {10, 6, 8});
  std::ranges::fill(samples.values<float>(), 1.0F);
  write_npy(folder_ / "samples.npy", samples);
  ASSERT_EQ(run_in(folder_, "detent quantize net.mz --calibration samples.npy --project q --overwrite"), 0)
      << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("it runs one at a time"), HasSubstr("10 samples profiled")));
}

TEST_F(ImageCalibration, LabelledImagesSayWhatTheyAreUsedFor) {
  write_graph(folder_ / "net.mz", network(16, 16));
  std::string labels = "file,class\n";
  for (uint32_t k = 0; k < 24; ++k) {
    put(fmt::format("{:02}.png", k), 16, 16, k);
    labels += fmt::format("{:02}.png,{}\n", k, k % 4);
  }
  write_file(folder_ / "labels.csv", labels);
  ASSERT_EQ(quantize("--labels labels.csv"), 0) << log();
  EXPECT_THAT(log(),
              AllOf(HasSubstr("calibration: 12 of 24 samples of im, drawn at random from each class\n"),
                    HasSubstr("accuracy: 12 others of these\n")));
  EXPECT_THAT(log(),
              ContainsRegex("test after:  loss [0-9.]+, accuracy [0-9.]+ \\+- 0\\.[0-9]+ \\([0-9]+/12\\)"));
  ASSERT_EQ(quantize("--num-samples 8"), 0) << log();
  EXPECT_THAT(log(),
              AllOf(HasSubstr("calibration: 8 of 24 samples of im\n"), Not(HasSubstr("accuracy: 12"))));
}

}  // namespace
}  // namespace detent
