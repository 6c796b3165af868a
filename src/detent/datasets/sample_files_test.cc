#include "detent/datasets/datasets.h"
#include "detent/datasets/whole_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/files/zip.h"
#include "detent/graph/graph_parameters.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class SampleFiles : public testing::Test {
 protected:
  SampleFiles() { fs::create_directories(directory_); }
  ~SampleFiles() override { fs::remove_all(directory_); }

  void write_safetensors_split(const std::string& split, const Tensor& inputs, const Tensor& labels) {
    const StateDict tensors = {{"labels", labels}, {"inputs", inputs}};
    write_safetensors(directory_ / (split + ".safetensors"), tensors);
  }

  std::unique_ptr<Dataset> make(const char* name, Split split) {
    return make_dataset(name, split, {directory_});
  }

  std::string message_of(const char* name, Split split) {
    return detent::error_of([&] { make(name, split); });
  }

  fs::path directory_ = fs::temp_directory_path() / ("detent_samples_" + std::to_string(getpid()));
};

const std::vector<int64_t> kBoth = {1, 0};

TEST_F(SampleFiles, ArraysOfNpz) {
  const auto npy_bytes = [&](const Tensor& tensor) {
    write_npy(directory_ / "array.npy", tensor);
    return read_file(directory_ / "array.npy");
  };
  ZipWriter writer(directory_ / "test.npz");
  writer.add("labels.npy", npy_bytes(Tensor::from<int64_t>({2}, std::vector<int64_t>{2, 1})));
  writer.add("inputs.npy", npy_bytes(Tensor::from<double>({2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6})));
  writer.commit();
  const auto test = make("npz", Split::kTest);
  EXPECT_EQ(test->class_count(), 3);
  EXPECT_THAT(test->batch(kBoth).inputs[0].values<float>(), ElementsAre(4, 5, 6, 1, 2, 3));
  ZipWriter other(directory_ / "test.npz");
  other.add("x.npy", npy_bytes(Tensor(DType::kFloat32, {2, 3})));
  other.commit();
  EXPECT_THAT(message_of("npz", Split::kTest), HasSubstr("test.npz: holds no tensor"));
}

TEST_F(SampleFiles, SafetensorsOfAnyShapeAndDtype) {
  write_safetensors_split("train", Tensor::from<uint8_t>({2, 1, 2}, std::vector<uint8_t>{1, 2, 3, 255}),
                          Tensor::from<int64_t>({2}, std::vector<int64_t>{0, 4}));
  write_safetensors_split("test", Tensor::from<float>({1, 1, 2}, std::vector<float>{0.5F, -1}),
                          Tensor::from<uint8_t>({1}, std::vector<uint8_t>{6}));
  const auto train = make("safetensors", Split::kTrain);
  EXPECT_EQ(train->sample_shape(), (Shape{1, 2}));
  EXPECT_EQ(train->class_count(), 7);  // of all splits
  EXPECT_EQ(train->source(), directory_.string());
  const Batch batch = train->batch(kBoth);
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{2, 1, 2}));
  EXPECT_THAT(batch.inputs[0].values<float>(), ElementsAre(3, 255, 1, 2));
  EXPECT_THAT(batch.labels.values<int64_t>(), ElementsAre(4, 0));
  for (const Split split : {Split::kTest, Split::kValidation, Split::kPrediction}) {
    EXPECT_THAT(make("safetensors", split)->labels(), ElementsAre(6));
  }
  write_safetensors_split("validation", Tensor::from<float>({1, 1, 2}, std::vector<float>{0, 0}),
                          Tensor::from<uint8_t>({1}, std::vector<uint8_t>{3}));
  EXPECT_THAT(make("safetensors", Split::kValidation)->labels(), ElementsAre(3));
  EXPECT_THAT(make("safetensors", Split::kTest)->labels(), ElementsAre(6));
}

TEST_F(SampleFiles, NpyPairs) {
  write_npy(directory_ / "test_inputs.npy",
            Tensor::from<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  write_npy(directory_ / "test_labels.npy", Tensor::from<int32_t>({2}, std::vector<int32_t>{1, 0}));
  const auto test = make("npy", Split::kTest);
  EXPECT_EQ(test->class_count(), 2);
  EXPECT_THAT(test->batch(kBoth).inputs[0].values<float>(), ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(message_of("npy", Split::kTrain),
              HasSubstr("no directory holds train_inputs.npy and train_labels.npy; tried:"));
}

TEST_F(SampleFiles, CsvHasTheLabelLast) {
  write_file(directory_ / "train.csv", "a,b,label\n0.5,1,0\n-2,3,2\n");
  write_file(directory_ / "test.csv", "7,8,1\n");
  const auto train = make("csv", Split::kTrain);
  EXPECT_EQ(train->sample_shape(), Shape{2});
  EXPECT_EQ(train->class_count(), 3);
  EXPECT_THAT(train->labels(), ElementsAre(0, 2));
  EXPECT_THAT(train->batch(kBoth).inputs[0].values<float>(), ElementsAre(-2, 3, 0.5F, 1));
  EXPECT_THAT(make("csv", Split::kTest)->labels(), ElementsAre(1));
}

TEST_F(SampleFiles, InputsWithoutLabelsAreOneFile) {
  const Tensor two = Tensor::from<float>({2, 1}, std::vector<float>{1, 2});
  write_npy(directory_ / "x.npy", two);
  write_safetensors(directory_ / "x.safetensors", StateDict{{"other", two}, {"inputs", two}});
  for (const char* name : {"x.npy", "x.safetensors"}) {
    const auto data = make_dataset("unlabelled", Split::kTrain, {.data_dir = directory_ / name});
    EXPECT_FALSE(data->has_labels());
    EXPECT_EQ(data->class_count(), 0);
    EXPECT_THAT(data->batch(kBoth).inputs[0].values<float>(), ElementsAre(2, 1));
  }
  testing::internal::CaptureStderr();
  set_up_logging("info");
  make_dataset("unlabelled", Split::kTrain, {.data_dir = directory_ / "x.safetensors"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("\"other\" is left out: it is no input"));
  write_safetensors(directory_ / "x.safetensors", StateDict{{"a", two}, {"b", two}});
  const auto error_of = [&](const std::string& name) -> std::string {
    return detent::error_of(
        [&] { make_dataset("unlabelled", Split::kTrain, {.data_dir = directory_ / name}); });
  };
  EXPECT_THAT(error_of("x.safetensors"), HasSubstr("holds 2 tensors, expected one, or one called"));
  fs::create_directories(directory_ / "none");
  EXPECT_THAT(error_of("none"), HasSubstr("holds no .npy, .npz or .safetensors"));
  EXPECT_THAT(error_of("../x.bin"), HasSubstr("expected a file of inputs"));
  write_npy(directory_ / "x.npy", Tensor(DType::kFloat32, {2}));
  EXPECT_THAT(error_of("x.npy"), HasSubstr("expected [n, ...]"));
}

TEST_F(SampleFiles, TokensOfALanguageModelNeedNothingBesideThem) {
  const Tensor tokens = Tensor::from<int64_t>({2, 3}, std::vector<int64_t>{5, 6, 7, 8, 9, 4});
  write_npy(directory_ / "ids.npy", tokens);
  DatasetOptions options{.data_dir = directory_ / "ids.npy"};
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids"})
    options.inputs.push_back({name, DType::kInt64, {-1, 3}});
  const Batch batch = make_dataset("unlabelled", Split::kTrain, options)->batch(std::vector<int64_t>{1});
  EXPECT_THAT(batch.inputs[0].values<int64_t>(), ElementsAre(8, 9, 4));
  EXPECT_THAT(batch.inputs[1].values<int64_t>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(batch.inputs[2].values<int64_t>(), ElementsAre(0, 0, 0));
  options.inputs.push_back({"pixels", DType::kFloat32, {-1, 3}});
  EXPECT_THAT(detent::error_of([&] { make_dataset("unlabelled", Split::kTrain, options); }),
              HasSubstr("it holds one input, the network takes 4"));
}

TEST_F(SampleFiles, ATextIsWindowsOfTokensSpreadOverIt) {
  write_file(directory_ / "text.txt", std::string(1000, 'a') + std::string(1000, 'b'));
  DatasetOptions options{.data_dir = directory_ / "text.txt"};
  options.inputs = {{"input_ids", DType::kInt64, {-1, -1}}, {"attention_mask", DType::kInt64, {-1, -1}}};
  const auto error = [&] {
    return detent::error_of([&] { make_dataset("unlabelled", Split::kTrain, options); });
  };
  EXPECT_THAT(error(), HasSubstr("text.txt: a text calibrates language models that come with a tokenizer"));
  options.tokenize = [](const std::string& text) { return std::vector<int64_t>(text.begin(), text.end()); };
  options.text_window = 10;
  const auto data = make_dataset("unlabelled", Split::kTrain, options);
  ASSERT_EQ(data->size(), 64);
  const Batch ends = data->batch(std::vector<int64_t>{0, 31, 32, 63});
  ASSERT_EQ(ends.inputs[0].shape(), (Shape{4, 10}));
  const auto tokens = std::as_const(ends.inputs[0]).values<int64_t>();
  EXPECT_THAT(tokens.first(20), Each('a'));
  EXPECT_THAT(tokens.last(20), Each('b'));
  EXPECT_THAT(std::as_const(ends.inputs[1]).values<int64_t>(), Each(1));
  options.text_window = 5000;
  EXPECT_EQ(
      make_dataset("unlabelled", Split::kTrain, options)->batch(std::vector<int64_t>{0}).inputs[0].shape(),
      (Shape{1, 2000}));
  write_file(directory_ / "text.txt", "");
  EXPECT_THAT(error(), HasSubstr("text.txt: holds no text"));
}

/// A streaming network: a state of two layers, and a rate that is one number.
TEST_F(SampleFiles, InputsThatDoNotBeginWithTheBatchAreWhole) {
  DatasetOptions options{.data_dir = directory_ / "x.safetensors"};
  options.inputs = {
      {"x", DType::kFloat32, {1, 2}}, {"state", DType::kFloat32, {2, 1, 1}}, {"rate", DType::kInt64, {}}};
  const Tensor x = Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor state = Tensor::from<float>({4, 1, 1}, std::vector<float>{5, 6, 7, 8});
  const Tensor rate = Tensor::from<int64_t>({}, std::vector<int64_t>{16000});
  for (const bool is_stacked : {false, true}) {
    write_safetensors(directory_ / "x.safetensors",
                      StateDict{{"x", is_stacked ? x.reshaped({2, 1, 2}) : x},
                                {"state", is_stacked ? state.reshaped({2, 2, 1, 1}) : state},
                                {"rate", rate}});
    const auto data = make_dataset("unlabelled", Split::kTrain, options);
    ASSERT_EQ(data->size(), 2);
    const Batch batch = data->batch(std::vector<int64_t>{1});
    EXPECT_EQ(batch.inputs[0].shape(), (Shape{1, 2}));
    EXPECT_THAT(batch.inputs[0].values<float>(), ElementsAre(3, 4));
    EXPECT_EQ(batch.inputs[1].shape(), (Shape{2, 1, 1}));
    EXPECT_THAT(batch.inputs[1].values<float>(), ElementsAre(7, 8));
    EXPECT_EQ(batch.inputs[2].shape(), Shape{});
    EXPECT_THAT(batch.inputs[2].values<int64_t>(), ElementsAre(16000));
  }
  write_safetensors(directory_ / "x.safetensors", StateDict{{"x", x}, {"state", x}, {"rate", rate}});
  EXPECT_THAT(detent::error_of([&] { make_dataset("unlabelled", Split::kTrain, options); }),
              HasSubstr("state: got [2, 2], expected [n, ...] of the network's shape [2, 1, 1]"));
}

/// Nodes and edges of a graph have no batch: a file is one sample.
TEST_F(SampleFiles, InputsWithoutACommonSizeAreOneSample) {
  DatasetOptions options{.data_dir = directory_ / "graph.safetensors"};
  options.inputs = {{"nodes", DType::kFloat32, {-1, 4}}, {"edges", DType::kInt64, {2, -1}}};
  const auto read = [&](int64_t edge_rows) {
    write_safetensors(directory_ / "graph.safetensors",
                      StateDict{{"nodes", Tensor(DType::kFloat32, {20, 4})},
                                {"edges", Tensor(DType::kInt64, {edge_rows, 7})}});
    return make_dataset("unlabelled", Split::kTrain, options);
  };
  const auto data = read(2);
  ASSERT_EQ(data->size(), 1);
  const Batch batch = data->batch(std::vector<int64_t>{0});
  EXPECT_EQ(batch.inputs[0].shape(), (Shape{20, 4}));
  EXPECT_EQ(batch.inputs[1].shape(), (Shape{2, 7}));
  EXPECT_THAT(detent::error_of([&] { read(6); }), HasSubstr("has 3 samples, others 20"));
}

/// Images and texts, of each of which there may be any number.
TEST_F(SampleFiles, OpenFirstSizesThatDifferAreOfOneSample) {
  DatasetOptions options{.data_dir = directory_ / "pair.safetensors"};
  options.inputs = {{"images", DType::kFloat32, {-1, 4}}, {"texts", DType::kInt64, {kOwnFirstSize, -1}}};
  for (const int64_t texts : {2, 5}) {
    write_safetensors(
        directory_ / "pair.safetensors",
        StateDict{{"images", Tensor(DType::kFloat32, {2, 4})}, {"texts", Tensor(DType::kInt64, {texts, 7})}});
    const auto data = make_dataset("unlabelled", Split::kTrain, options);
    ASSERT_EQ(data->size(), texts == 2 ? 2 : 1);
    const Batch batch = data->batch(std::vector<int64_t>{0});
    EXPECT_EQ(batch.inputs[0].shape(), (Shape{texts == 2 ? 1 : 2, 4}));
    EXPECT_EQ(batch.inputs[1].shape(), (Shape{texts == 2 ? 1 : 5, 7}));
  }
  options.inputs[1].shape[0] = -1;
  EXPECT_THAT(detent::error_of([&] { make_dataset("unlabelled", Split::kTrain, options); }),
              HasSubstr("got texts [5, 7], expected [2, ...]"));
}

/// A network for batches of three: what is stacked is taken apart.
TEST_F(SampleFiles, StackedBatchesAreSamples) {
  DatasetOptions options{.data_dir = directory_ / "x.npy"};
  options.inputs = {{"x", DType::kFloat32, {3, 1}}};
  write_npy(directory_ / "x.npy", Tensor(DType::kFloat32, {2, 3, 1}));
  const auto data = make_dataset("unlabelled", Split::kTrain, options);
  EXPECT_EQ(data->size(), 6);
  EXPECT_EQ(data->batch(kBoth).inputs[0].shape(), (Shape{2, 1}));
}

TEST_F(SampleFiles, FilesOfAFolderMayHaveSamplesOfOtherSizes) {
  const auto put = [&](const char* name, const Shape& shape, float value) {
    Tensor tensor(DType::kFloat32, shape);
    std::ranges::fill(tensor.values<float>(), value);
    write_npy(directory_ / name, tensor);
  };
  put("a.npy", {2, 3}, 1);
  put("b.npy", {1, 4}, 2);
  put("c.npy", {2, 3}, 3);
  const auto samples = make("unlabelled", Split::kTrain);
  EXPECT_EQ(samples->size(), 5);
  EXPECT_EQ(samples->size_count(), 2U);
  const std::vector<int64_t> alike = {4, 0};
  EXPECT_THAT(samples->batch(alike).inputs[0].values<float>(), ElementsAre(3, 3, 3, 1, 1, 1));
  EXPECT_EQ(samples->batch(std::vector<int64_t>{2}).inputs[0].shape(), (Shape{1, 4}));
  const std::vector<int64_t> order = {0, 1, 2, 3};
  EXPECT_EQ(samples->same_size_end(order, 0, 4), 2);
  EXPECT_EQ(samples->same_size_end(order, 2, 4), 3);
  EXPECT_THAT(error_of([&] { samples->batch(order); }),
              HasSubstr("sample 0 has the shape [3] and sample 2 [4]"));
}

TEST_F(SampleFiles, WhatDoesNotFitIsNamed) {
  const Tensor two = Tensor::from<float>({2, 1}, std::vector<float>{1, 2});
  const auto labels = [](const std::vector<float>& values) {
    return Tensor::from<float>({static_cast<int64_t>(values.size())}, values);
  };
  write_safetensors_split("test", two, labels({0, 1, 1}));
  EXPECT_THAT(message_of("safetensors", Split::kTest),
              HasSubstr("test.safetensors: got inputs [2, 1] and labels [3], expected [n, ...] and [n]"));
  for (const float wrong : {-1.0F, 0.5F, 1e9F}) {
    write_safetensors_split("test", two, labels({0, wrong}));
    EXPECT_THAT(message_of("safetensors", Split::kTest), HasSubstr("test.safetensors: label 1 is ")) << wrong;
  }
  write_safetensors(directory_ / "test.safetensors", StateDict{{"inputs", two}});
  EXPECT_THAT(message_of("safetensors", Split::kTest), HasSubstr("holds no tensor \"labels\""));
  write_safetensors_split("test", two, labels({0, 1}));
  write_safetensors_split("train", Tensor::from<float>({1, 2}, std::vector<float>{1, 2}), labels({0}));
  EXPECT_THAT(message_of("safetensors", Split::kTest),
              HasSubstr("test.safetensors: got inputs [2, 1], but those of the other splits are [1, 2]"));
  write_file(directory_ / "test.csv", "1\n2\n");
  EXPECT_THAT(message_of("csv", Split::kTest), HasSubstr("test.csv: got one column"));
  write_file(directory_ / "test.csv", "1,0\n2,x\n");
  EXPECT_THAT(message_of("csv", Split::kTest), HasSubstr("test.csv, line 2, column 2: got \"x\""));
}

}  // namespace
}  // namespace detent
