// `detent quantize` as its users run it.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/io/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class QuantizeCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / fmt::format("detent_quantize_{}", getpid());
    fs::create_directories(folder());
    ASSERT_EQ(run("detent train digits_cnn digits --max-epochs 6 --batch-size 32 --learning-rate 0.01 "
                  "--project trained"),
              0)
        << log();
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  /// The exit status; what is printed ends in `log`.
  static int run(const std::string& command) {
    const std::string line = fmt::format("cd {} && PATH={}:$PATH {} > log.txt 2>&1 < /dev/null",
                                         folder().string(), DETENT_BIN, command);
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::string log() { return read_file(folder() / "log.txt"); }
  static int quantize(const std::string& options) {
    return run(
        "detent quantize digits_cnn digits --project quantized --overwrite --load "
        "mase_output/trained/software/training_ckpts/best.ckpt --load-type pl " +
        options);
  }
  /// Correct answers behind "test before: " or "test after: ".
  static int correct(const std::string& line) {
    const std::string text = log();
    const size_t open = text.find('(', text.find(line));
    return std::stoi(text.substr(open + 1));
  }
};

TEST_F(QuantizeCommand, ComparesExecutesAndSaves) {
  ASSERT_EQ(quantize("--num-samples 200"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("200 samples profiled"), HasSubstr("| SQNR alone |"),
                           HasSubstr("integer execution: 16 samples"),
                           HasSubstr("every code equal to the simulation's")));
  const int before = correct("test before:");
  const int after = correct("test after:");
  EXPECT_GT(before, 200);
  EXPECT_NEAR(after, before, 4);
  EXPECT_THAT(log(), ContainsRegex("weights, values +\\| +9914 \\|"));
  EXPECT_THAT(log(), ContainsRegex("weights, bytes with their scales +\\| +39656 \\| +[0-9]+ \\| "
                                   "[34]\\.[0-9]+ times smaller"));
  EXPECT_THAT(log(), ContainsRegex("bits a weight, average +\\| +32\\.00 \\| +[89]\\.[0-9]+ \\| +-2"));
  EXPECT_THAT(log(), ContainsRegex("bits an activation, average +\\| +32\\.00 \\|"));
  EXPECT_THAT(log(), ContainsRegex("test accuracy +\\| +0\\.[0-9]+ \\| +0\\.[0-9]+ \\| +[+-]0\\.0"));
  EXPECT_THAT(log(), HasSubstr("written:\n  mase_output/quantized/software/quantize/graph_module.mz\n"));
  for (const char* name : {"quantization_account.csv", "quantization_account.json",
                           "static_quantize/quantize_histogram.csv", "static_quantize/quantize_table.csv"}) {
    EXPECT_THAT(log(), HasSubstr(fmt::format("  mase_output/quantized/software/quantize/{}\n", name)));
  }
  const fs::path graph = folder() / "mase_output/quantized/software/quantize/graph_module.mz";
  ASSERT_TRUE(fs::exists(graph));
  EXPECT_TRUE(fs::exists(graph.parent_path() / "quantization_account.csv"));
  ASSERT_EQ(run("detent test digits_cnn digits --load " + graph.string()), 0) << log();
  EXPECT_THAT(log(), HasSubstr("(quantized)"));
  EXPECT_EQ(correct("test:"), after) << "what was saved is what was measured";
  ASSERT_EQ(run("detent test digits_cnn digits --engine integers --load " + graph.string()), 0) << log();
  EXPECT_EQ(correct("test:"), after) << "integers classify as the simulation does";
  EXPECT_NE(run("detent quantize digits_cnn digits --load " + graph.string()), 0);
  EXPECT_THAT(log(), HasSubstr("is quantized already"));
}

TEST_F(QuantizeCommand, TakesTheOptionsOfThePass) {
  ASSERT_EQ(
      quantize(
          "--weights int3 --activations int6 --elementwise int8 --calibrator mse --symmetric-activations "
          "true --weight-granularity tensor --requantization fixed_point --edge-layers eight_bits"),
      0)
      << log();
  EXPECT_THAT(log(), HasSubstr("every code equal to the simulation's"));
  ASSERT_EQ(quantize("--keep-float fc.*,stem_conv"), 0) << log();
  EXPECT_THAT(log(),
              HasSubstr("integer execution: not possible: graph \"digits_cnn\": these nodes stay in float"));
}

TEST_F(QuantizeCommand, ReplacesNoResultOfOtherSettings) {
  const std::string command =
      "detent quantize digits_cnn digits --load mase_output/trained/software/training_ckpts/best.ckpt "
      "--load-type pl "
      "--num-samples 100 ";
  ASSERT_EQ(run(command + "--project kept --weights int4"), 0) << log();
  const fs::path graph = folder() / "mase_output/kept/software/quantize/graph_module.mz";
  const std::string first = read_file(graph);
  EXPECT_EQ(run(command + "--project kept --weights int3"), 1);
  EXPECT_THAT(log(),
              AllOf(HasSubstr("kept/software/quantize/graph_module.mz holds the result of other settings "
                              "(passes.static_quantize.weights = \"int4\", got \"int3\")"),
                    HasSubstr("--project NAME"), HasSubstr("--overwrite"), Not(HasSubstr("test before"))));
  EXPECT_EQ(run(command + "--project kept --weights int4 --improve gptq"), 1);
  EXPECT_EQ(read_file(graph), first);
  ASSERT_EQ(run(command + "--project kept --weights int4"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("holds the result of this command: it is repeated and replaced"));
  EXPECT_EQ(read_file(graph), first);
  ASSERT_EQ(run(command + "--project kept --weights int3 --overwrite"), 0) << log();
  EXPECT_NE(read_file(graph), first);
  fs::remove(graph.parent_path() / "settings.toml");
  EXPECT_EQ(run(command + "--project kept --weights int3"), 1);
  EXPECT_THAT(log(), HasSubstr("settings.toml does not say what it is"));
}

TEST_F(QuantizeCommand, NamesItsFolderByTheWidths) {
  const std::string command =
      "detent quantize digits_cnn digits --load mase_output/trained/software/training_ckpts/best.ckpt "
      "--load-type pl "
      "--num-samples 20 ";
  ASSERT_EQ(run(command + "--weights int4 --activations uint6"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("_w4a6/software/quantize/graph_module.mz"));
  ASSERT_EQ(run(command + "--elementwise uint10"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("_w8a8e10/software/quantize/graph_module.mz"));
}

TEST_F(QuantizeCommand, ChecksPassesBeforeItLoadsData) {
  const std::string command =
      "detent quantize mnist_cnn mnist --data-dir nowhere --load "
      "mase_output/trained/software/training_ckpts/best.ckpt --load-type pl ";
  EXPECT_NE(run(command + "--improve bias_correction,gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("the right order is fuse_batch_norm, static_quantize, gptq, bias_correction"));
  EXPECT_NE(run(command + "--improve gptq,adaround"), 0);
  EXPECT_THAT(log(), HasSubstr("both choose the weights"));
  EXPECT_NE(run(command + "--prepare gptq"), 0);
  EXPECT_THAT(log(), HasSubstr("the right order is static_quantize, gptq"));
  const auto transform = [&](const std::string& passes) {
    std::ofstream(folder() / "wrong.toml") << passes;
    EXPECT_NE(run("detent transform mnist_cnn mnist --data-dir nowhere --config wrong.toml"), 0) << passes;
    return log();
  };
  EXPECT_THAT(
      transform("[passes.quantize]\nby = \"type\"\n[passes.quantize.linear.config]\nname = \"fxed\"\n"),
      HasSubstr("wrong.toml, [passes.quantize] linear.config: unknown format \"fxed\""));
  EXPECT_THAT(transform("[passes.static_quantize]\n[passes.gptq]\npercdamp = -1\n"),
              HasSubstr("wrong.toml, [passes.gptq]: key \"percdamp\": got -1"));
}

TEST_F(QuantizeCommand, TransformRefusesLikewise) {
  const std::string network =
      " --load mase_output/trained/software/training_ckpts/best.ckpt --load-type pl --project transformed";
  std::ofstream(folder() / "profile.toml")
      << "[passes.profile_statistics]\nby = \"type\"\ntarget_activation_nodes = [\"linear\"]\n"
         "[passes.profile_statistics.activation_statistics.range_min_max]\n";
  for (const int width : {4, 5}) {
    std::ofstream(folder() / fmt::format("w{}.toml", width))
        << "[passes.quantize]\nby = \"type\"\n[passes.quantize.default.config]\nname = \"NA\"\n"
        << "[passes.quantize.conv2d.config]\nname = \"affine\"\nweight_symmetric = true\nweight_width = "
        << width << "\n";
  }
  const auto transform = [&](const std::string& config, const std::string& options = "") {
    return run("detent transform digits_cnn digits --config " + config + network + options);
  };
  ASSERT_EQ(transform("profile.toml"), 0) << log();
  ASSERT_EQ(transform("w4.toml"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("holds a network that no pass has changed: it is replaced"));
  const fs::path graph =
      folder() / "mase_output/transformed/software/transform/transformed_ckpt/graph_module.mz";
  const std::string first = read_file(graph);
  EXPECT_EQ(transform("w5.toml"), 1);
  EXPECT_THAT(
      log(),
      AllOf(HasSubstr("holds the result of other settings (passes.quantize.conv2d.config.weight_width = "
                      "4, got 5)"),
            Not(HasSubstr("validation before"))));
  EXPECT_EQ(transform("profile.toml"), 1) << "nor is it replaced by one that is not changed";
  EXPECT_EQ(read_file(graph), first);
  EXPECT_EQ(transform("w4.toml"), 0) << log();
  EXPECT_EQ(transform("w5.toml", " --overwrite"), 0) << log();
  EXPECT_EQ(
      run("detent transform digits_cnn digits --project twice --config w4.toml --load " + graph.string()), 1);
  EXPECT_THAT(log(), AllOf(HasSubstr("quantized already with other formats"), HasSubstr("weight)"),
                           Not(HasSubstr("validation before"))));
}

TEST_F(QuantizeCommand, RefusesWrongInput) {
  const auto refusal = [](const std::string& options) {
    EXPECT_NE(quantize(options), 0) << options;
    return log();
  };
  EXPECT_THAT(refusal("--weights int1"), HasSubstr("key \"weights\": got \"int1\", expected int2 to int16"));
  EXPECT_THAT(refusal("--weights uint8"), HasSubstr("expected a signed type"));
  EXPECT_THAT(refusal("--calibrator best"), HasSubstr("key \"calibrator\": unknown value \"best\""));
  EXPECT_THAT(refusal("--keep-float nothing"), HasSubstr("\"nothing\" matches no node"));
  EXPECT_THAT(refusal("--num-samples 0"), HasSubstr("key \"num_samples\": got 0, expected at least 1"));
  EXPECT_THAT(refusal("--improve gptqq"), HasSubstr("--improve: unknown pass \"gptqq\""));
  EXPECT_THAT(refusal("--symmetric-activations true"), HasSubstr("expected signed types"));
  EXPECT_NE(run("detent quantize digits_cnn digits"), 0);
  EXPECT_THAT(log(), HasSubstr("needs a trained network: --load FILE"));
  EXPECT_NE(run("detent test digits_cnn digits --engine integers --load "
                "mase_output/trained/software/training_ckpts/best.ckpt --load-type pl"),
            0);
  EXPECT_THAT(log(), HasSubstr("is not quantized for integer execution"));
  EXPECT_NE(quantize("--weights int16 --activations uint16"), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("sums of output channel"), HasSubstr("beyond the 32 bits")));
}

}  // namespace
}  // namespace detent
