#include "detent/cli/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "detent/cli/option_fields.h"
#include "detent/core/error.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/safetensors.h"
#include "detent/graph_files/graph_file.h"
#include "detent/models/model.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kDate = "2026-01-31";
const std::string kRunConfigs = std::string(DETENT_SOURCE_DIR) + "/configs/quantized_ops/";

class RunConfiguration : public testing::Test {
 protected:
  RunConfiguration() : path_(testing::TempDir() + "detent_" + std::to_string(getpid()) + ".toml") {}
  ~RunConfiguration() override { std::filesystem::remove(path_); }

  RunConfig read(const std::string& text, const GivenOptions& given = {}) {
    write_file(path_, text);
    return make_run_config(path_, given, kDate, "train");
  }
  void expect_error(const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { read("model = \"toy\"\ndataset = \"toy-tiny\"\n" + text); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr(message))));
  }

  std::string path_;
};

std::vector<std::string> row_of(const RunConfig& config, const std::string& name) {
  for (const auto& row : config.table.rows()) {
    if (row[0] == name) return row;
  }
  return {};
}

TEST_F(RunConfiguration, ReadsTheTutorialsFile) {
  const RunConfig config =
      make_run_config(kRunConfigs + "toy_ternary_collect_stats.toml", {}, kDate, "train");
  EXPECT_EQ(config.options.model, "toy");
  EXPECT_EQ(config.options.dataset, "toy_tiny");
  EXPECT_THAT(config.passes.keys(),
              ElementsAre("profile_statistics", "report_node_meta_param", "save_node_meta_param"));
  EXPECT_EQ(config.software_dir, "detent_output/toy_classification_toy-tiny_2026-01-31/software");
}

TEST_F(RunConfiguration, FlagsWinOverTheFileAndItOverDefaults) {
  const std::string file = "model = \"toy\"\ndataset = \"toy-tiny\"\nbatch_size = 32\nseed = 5\n";
  const RunConfig config = read(file, {{"batch_size", 128}});
  EXPECT_EQ(config.options.training.batch_size, 128);  // the default, but given
  EXPECT_EQ(config.options.seed, 5);
  EXPECT_EQ(config.options.training.max_epochs, 20);
  EXPECT_THAT(row_of(config, "batch_size"), ElementsAre("batch_size", "128", "32", "128", "128"));
  EXPECT_THAT(row_of(config, "seed"), ElementsAre("seed", "0", "5", "", "5"));
  EXPECT_EQ(config.table.rows().size(), 4U) << "options at their defaults are left out";
  std::vector<std::string> of_train = field_names<RunOptions>();
  std::erase_if(of_train, [](const std::string& name) { return !reads_option("train", name); });
  EXPECT_EQ(read(file, {{"log_level", "debug"}}).table.rows().size(), of_train.size());
}

TEST_F(RunConfiguration, LeavesTheFilesColumnOutWithoutAFile) {
  const RunConfig config = make_run_config("", {{"model", "toy"}, {"dataset", "digits"}}, kDate, "train");
  EXPECT_THAT(row_of(config, "model"), ElementsAre("model", "NA", "toy", "toy"));
}

TEST_F(RunConfiguration, NaMeansNone) {
  const std::string file = "model = \"toy\"\ndataset = \"toy-tiny\"\nmax_steps = \"NA\"\nproject = \"NA\"\n";
  EXPECT_FALSE(read(file, {}).options.training.max_steps.has_value());
  EXPECT_FALSE(
      read("max_steps = 3\n" + std::string("model = \"toy\"\ndataset = \"digits\""), {{"max_steps", Value()}})
          .options.training.max_steps.has_value());
  expect_error("seed = \"NA\"", "key \"seed\": got NA (NA), expected integer");
}

TEST_F(RunConfiguration, NamesThePlaceOfEveryFault) {
  expect_error("batchsize = 3", ":3: unknown key \"batchsize\": did you mean \"batch_size\"?");
  expect_error("batch_size = \"big\"", ":3: key \"batch_size\": got \"big\" (a string), expected integer");
  expect_error("batch_size = 0", "key \"batch_size\": got 0, expected at least 1");
  expect_error("max_time = 30", "key \"max_time\": got 30, expected whole numbers with a unit");
  expect_error("image_std = [1, 0]", "key \"image_std\": got 0");
  expect_error("horizontal_flip = 2", "key \"horizontal_flip\": got 2, expected at least 0 and at most 1");
  expect_error("[parameter_groups.fc]\nmomentum = 1",
               "key \"parameter_groups\", \"fc\": unknown key \"momentum\"");
  expect_error("load_type = \"tflite\"", "key \"load_type\": unknown value \"tflite\"");
  expect_error("task = \"translation\"", "key \"task\": unknown task \"translation\"");
  expect_error("load = \"/no/such/file\"", "key \"load\": /no/such/file: no such file");
  expect_error("[passes.quantise]\nby = \"type\"", "unknown pass \"quantise\": did you mean \"quantize\"?");
  expect_error("[passes]\nquantize = 1", "key \"passes.quantize\": got 1, expected a table");
  expect_error("passes = 1", "expected a table [passes]");
  expect_error("[transform]\nstyle = \"module\"", "expected \"graph\"");
  expect_error("[transform]\nstil = \"graph\"", "unknown key");
  expect_error("[pases.quantize]", "did you mean \"passes\"?");
  EXPECT_THAT(
      [&] { read("model = \"toyy\"\ndataset = \"toy-tiny\""); },
      ThrowsMessage<Error>(HasSubstr(":1: key \"model\": unknown model \"toyy\": did you mean \"toy\"?")));
  EXPECT_THAT([&] { read("model = \"toy\"\ndataset = \"minst\""); },
              ThrowsMessage<Error>(
                  HasSubstr(":2: key \"dataset\": unknown data set \"minst\": did you mean \"mnist\"?")));
}

TEST_F(RunConfiguration, AcceptsTheGraphStyleAndTheShortTask) {
  const RunConfig config = read(
      "model = \"toy\"\ndataset = \"toy-tiny\"\ntask = \"cls\"\nproject = \"mine\"\n[transform]\nstyle = "
      "\"graph\"");
  EXPECT_EQ(config.options.task, "classification");
  EXPECT_EQ(config.software_dir, "detent_output/mine/software");
}

TEST_F(RunConfiguration, MissingNamesAreWrongUsage) {
  EXPECT_THROW(read("dataset = \"toy-tiny\""), UsageError);
  EXPECT_THROW(read("model = \"toy\""), UsageError);
  EXPECT_THROW(make_run_config("x.txt", {}, kDate, "train"), UsageError);
  EXPECT_THROW(make_run_config("", {{"model", "toy"}, {"dataset", "nothing"}}, kDate, "train"), UsageError);
}

/// `detent quantize model.mz --calibration inputs.npy`
TEST_F(RunConfiguration, FilesNameTheNetworkAndTheSamples) {
  const std::string file = path_ + ".mz";
  const std::string inputs = path_ + ".npy";
  write_graph(file, build_model("toy", {1, 2, 2}, 2));
  write_npy(inputs, Tensor(DType::kFloat32, {3, 1, 2, 2}));
  const RunConfig config = make_run_config("", {{"model", file}, {"calibration", inputs}}, kDate, "quantize");
  EXPECT_FALSE(config.options.model.has_value());
  EXPECT_EQ(config.options.load, file);
  EXPECT_EQ(config.options.dataset, "unlabelled");
  EXPECT_EQ(config.options.data_dir, inputs);
  EXPECT_EQ(config.software_dir, "detent_output/toy_classification_unlabelled_2026-01-31/software");
  const auto dataset_of = [&](const std::string& folder) {
    return make_run_config("", {{"model", file}, {"calibration", folder}}, kDate, "quantize").options.dataset;
  };
  const std::string folder = path_ + "_samples";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(dataset_of(folder), "image_folder");
  std::filesystem::copy_file(inputs, folder + "/inputs.npy");
  EXPECT_EQ(dataset_of(folder), "unlabelled");
  std::filesystem::create_directories(folder + "/cats");
  write_file(folder + "/cats/a.jpg", "");
  const auto message_of = [&](const GivenOptions& given) -> std::string {
    try {
      make_run_config("", given, kDate, "quantize");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of({{"model", file}, {"calibration", folder}}),
              HasSubstr("got arrays (inputs.npy) beside images (cats/a.jpg)"));
  std::filesystem::remove_all(folder);
  EXPECT_THAT(message_of({{"model", "none.onnx"}, {"calibration", inputs}}), HasSubstr("none.onnx: no such"));
  EXPECT_THAT(message_of({{"model", file}, {"calibration", "none"}}),
              HasSubstr("none: no such file or folder"));
  EXPECT_THAT(message_of({{"model", file}, {"load", file}, {"calibration", inputs}}),
              HasSubstr("two networks"));
  EXPECT_THAT(message_of({{"model", file}, {"dataset", "toy-tiny"}, {"calibration", inputs}}),
              HasSubstr("stands for a data set"));
  std::filesystem::remove(file);
  std::filesystem::remove(inputs);
}

TEST_F(RunConfiguration, AGraphBringsItsModel) {
  const std::string file = path_ + ".mz";
  write_graph(file, build_model("toy", {1, 2, 2}, 2));
  const RunConfig config = make_run_config("", {{"dataset", "toy-tiny"}, {"load", file}}, kDate, "train");
  EXPECT_FALSE(config.options.model.has_value());
  EXPECT_EQ(config.software_dir, "detent_output/toy_classification_toy-tiny_2026-01-31/software");
  EXPECT_THROW(
      make_run_config("", {{"dataset", "toy-tiny"}, {"load", file}, {"load_type", "pl"}}, kDate, "train"),
      UsageError);
  write_safetensors(file, std::vector<std::pair<std::string, Tensor>>{{"w", Tensor()}});
  EXPECT_THAT(
      [&] {
        make_run_config("", {{"dataset", "toy-tiny"}, {"load", file}}, kDate, "train");
      },
      ThrowsMessage<UsageError>(HasSubstr(file + " holds parameters")));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace detent
