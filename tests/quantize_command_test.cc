// `detent quantize` as its users run it.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
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
        "detent quantize digits_cnn digits --project quantized --load "
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
