// Quantization-aware training of digits_cnn on the built-in digits, by one command each, with fixed seeds.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Trains in float once, and quantized from there on, with the float network as teacher.
class QatAccuracy : public testing::Test {
 protected:
  static constexpr int kImages = 360;

  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / fmt::format("detent_qat_accuracy_{}", getpid());
    fs::create_directories(folder());
    of_float() = correct_of("--max-epochs 20 --project trained");
    ASSERT_GT(of_float(), kImages * 9 / 10);
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static int& of_float() {
    static int correct = 0;
    return correct;
  }

  /// Test images that the network of the best epoch classifies, after `detent train` with these options.
  static int correct_of(const std::string& options) {
    const std::string line = fmt::format(
        "cd {} && PATH={}:$PATH detent train digits_cnn digits --seed 0 --num-threads 1 {} > log.txt 2>&1 < "
        "/dev/null",
        folder().string(), DETENT_BIN, options);
    const int status = std::system(line.c_str());
    const std::string log = read_file(folder() / "log.txt");
    std::smatch match;
    static const std::regex correct(R"(test \(best epoch\):.*\((\d+)/360\))");
    const bool ended =
        WIFEXITED(status) && WEXITSTATUS(status) == 0 && std::regex_search(log, match, correct);
    EXPECT_TRUE(ended) << log;
    return ended ? std::stoi(match[1]) : 0;
  }
  static int quantized(const std::string& name, const std::string& options) {
    const std::string trained = "detent_output/trained/software/training_ckpts/best.ckpt";
    return correct_of(
        fmt::format("--quantize {0} --project {0} --load {1} --teacher {1} {2}", name, trained, options));
  }
  /// The loss of accuracy in points.
  static double points_lost(const std::string& name, const std::string& options = "--max-epochs 12") {
    return 100.0 * (of_float() - quantized(name, options)) / kImages;
  }
  /// Networks of few bits take longer.
  static constexpr const char* kLonger =
      "--max-epochs 24 --batch-size 64 --learning-rate 2e-3 --scale-learning-rate 1e-3 "
      "--learning-rate-schedule cosine_steps";
};

TEST_F(QatAccuracy, TernaryWeights) { EXPECT_LE(points_lost("ternary_a8"), 1); }
TEST_F(QatAccuracy, BinaryWeights) { EXPECT_LE(points_lost("binary_a8", kLonger), 2); }
TEST_F(QatAccuracy, TwoBits) { EXPECT_LE(points_lost("int2_lsq", kLonger), 2); }
TEST_F(QatAccuracy, TwoLevelsOfBinaryResidual) { EXPECT_LE(points_lost("binary_residual_a8"), 1.5); }

TEST_F(QatAccuracy, RoundingsCodebooksAndBiases) {
  EXPECT_LE(points_lost("int4_stochastic"), 1);
  EXPECT_LE(points_lost("w4a8_learned_rounding"), 1);
  EXPECT_LE(points_lost("int4_dorefa"), 2);
  EXPECT_LE(points_lost("codebook4_a8"), 1);
  EXPECT_LE(points_lost("fp4_learned_bias"), 2);
}

TEST_F(QatAccuracy, FoldedNorms) {
  EXPECT_LE(points_lost("int4_lsq", "--fold-batch-norm corrected --max-epochs 12"), 1);
  EXPECT_LE(points_lost("int8_lsq", "--fold-batch-norm batch --reestimate-batch-norm 8 --max-epochs 4"), 1);
}

/// With at most four fifths of the bits; three images are chance.
TEST_F(QatAccuracy, LearnedWidths) {
  const int uniform = quantized("w4a8_lsq", "--max-epochs 12");
  const std::string config = fmt::format("{}/configs/digits/learned_widths.toml", DETENT_SOURCE_DIR);
  EXPECT_GE(quantized("mixed_lsq", "--config " + config), uniform - 3);
  std::smatch match;
  const std::string log = read_file(folder() / "log.txt");
  static const std::regex widths(R"(learned widths: ([0-9.]+) average_bits)");
  ASSERT_TRUE(std::regex_search(log, match, widths)) << log;
  EXPECT_LE(std::stod(match[1]), 0.8 * 4);
}

}  // namespace
}  // namespace detent
