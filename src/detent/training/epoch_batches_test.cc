#include "detent/training/epoch_batches.h"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ATen/ops/randn.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/file.h"
#include "detent/graph/graph_parameters.h"
#include "detent/models/model.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TrainingOptions batches_of(int64_t batch_size, DropLast drop_last = DropLast::kAuto) {
  TrainingOptions options;
  options.batch_size = batch_size;
  options.drop_last = drop_last;
  return options;
}

TEST(EpochBatches, LeaveOutWhatBatchNormHasNoVarianceOf) {
  const Graph jets = build_model("jsc_tiny", {16}, 5);
  EXPECT_EQ(batches_of_epoch(jets, 128, batches_of(128), 1), 1);
  EXPECT_EQ(batches_of_epoch(jets, 129, batches_of(128), 1), 1);
  EXPECT_EQ(batches_of_epoch(jets, 130, batches_of(128), 1), 2);
  EXPECT_EQ(batches_of_epoch(jets, 129, batches_of(128), 2), 1);
  EXPECT_EQ(batches_of_epoch(jets, 130, batches_of(128), 2), 2);  // one a worker
  EXPECT_EQ(batches_of_epoch(jets, 130, batches_of(128), 3), 1);
  EXPECT_EQ(batches_of_epoch(jets, 131, batches_of(128), 3), 2);
  // Every sample has many values a channel, but each worker needs one; or there is no batch norm.
  EXPECT_EQ(batches_of_epoch(build_model("digits_cnn", {1, 8, 8}, 10), 129, batches_of(128), 1), 2);
  EXPECT_EQ(batches_of_epoch(build_model("digits_cnn", {1, 8, 8}, 10), 129, batches_of(128), 2), 1);
  EXPECT_EQ(batches_of_epoch(build_model("mnist_cnn", {1, 28, 28}, 10), 129, batches_of(128), 2), 2);
}

TEST(EpochBatches, AreThoseAskedForOrAnError) {
  const Graph jets = build_model("jsc_tiny", {16}, 5);
  EXPECT_EQ(batches_of_epoch(jets, 250, batches_of(128, DropLast::kAlways), 1), 1);
  EXPECT_EQ(batches_of_epoch(jets, 256, batches_of(128, DropLast::kAlways), 1), 2);
  EXPECT_EQ(batches_of_epoch(jets, 250, batches_of(128, DropLast::kNever), 1), 2);
  const auto expect_error = [&](int64_t samples, const TrainingOptions& options, int workers,
                                const char* message) {
    EXPECT_THAT([&] { batches_of_epoch(jets, samples, options, workers); },
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_error(100, batches_of(128, DropLast::kAlways), 1, "100 samples are less than a batch of 128");
  expect_error(129, batches_of(128, DropLast::kNever), 1,
               "drop_last: got never, but the last batch of an epoch has 1 of 128 samples, and batch norm "
               "\"seq_blocks_0\" sees one value a channel");
  expect_error(1, batches_of(128), 1, "the training set has 1 samples, but batch norm");
  expect_error(100, batches_of(3), 4, "batch_size: got 3, but batch norm");
  expect_error(100, batches_of(1), 1, "batch_size: got 1, but batch norm");
}

/// 129 samples in batches of 128.
TEST(EpochBatches, ATrainingKeepsItsRunningStatisticsFinite) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("detent_batches_{}", getpid());
  std::string rows;
  for (int i = 0; i < 129; ++i) rows += fmt::format("{},{},{}\n", i % 7, i % 11 - 5, i % 3);
  write_file(folder / "train.csv", rows);
  const auto data = make_dataset("csv", Split::kTrain, {.data_dir = folder});
  Graph graph = build_model("jsc_tiny", data->sample_shape(), data->class_count());
  seed_everything(0);
  initialize_parameters(graph);
  set_up_logging("info");
  testing::internal::CaptureStderr();
  TrainingOptions options = batches_of(128);
  options.max_epochs = 2;
  int64_t trained_on = 0;
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { trained_on = report.training.count; };
  EXPECT_EQ(train(graph, *data, *data, options, hooks).progress.global_step, 2);
  EXPECT_EQ(trained_on, 128);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the last batch of each epoch, of 1 of 128 samples, is left out: batch norm"));
  for (const auto& [name, tensor] : state_dict(graph)) {
    if (tensor.dtype() != DType::kFloat32) continue;
    for (const float value : tensor.values<float>()) EXPECT_TRUE(std::isfinite(value)) << name;
  }
  fs::remove_all(folder);
}

TEST(EpochBatches, BatchNormRefusesASingleValue) {
  Graph graph = build_model("jsc_tiny", {16}, 5);
  initialize_parameters(graph);
  EXPECT_THAT(
      [&] {
        Interpreter(graph).run(at::randn({1, 16}));
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("\"seq_blocks_0\" (batch_norm1d)"), HasSubstr("[1, 16]"),
                                 HasSubstr("more than one value a channel"))));
  EXPECT_EQ(torch_output(graph, at::randn({1, 16})).size(1), 5);
}

}  // namespace
}  // namespace detent
