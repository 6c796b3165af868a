// The console blocks of README and tutorials, run as printed: what the commands print is compared with what
// the documents say they print.
//
// A block ```console has commands after "$ ", each with the lines that it prints to standard output. "..."
// stands for any number of lines. Numbers may differ by 2 %, since they depend on the processor's arithmetic,
// or by as much as a line "<!-- numbers within 10 % -->" before the block says, where a network was trained;
// spaces and lengths of rules in tables do not count; "<date>" is today.

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include "detent/datasets/published_data_for_test.h"
#include "detent/files/file.h"
#include "date_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

struct DocumentedCommand {
  std::string command;
  std::vector<std::string> output;
  size_t line = 0;  // of the document
  double tolerance = 0.02;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<DocumentedCommand> commands_of(const fs::path& document) {
  std::vector<DocumentedCommand> commands;
  static const RE2 kTolerance(R"(<!-- numbers within (\d+) % -->)");
  bool in_block = false;
  double tolerance = DocumentedCommand().tolerance;
  const std::vector<std::string> lines = lines_of(read_file(document));
  for (size_t i = 0; i < lines.size(); ++i) {
    int percent = 0;
    if (RE2::FullMatch(lines[i], kTolerance, &percent)) {
      tolerance = percent / 100.0;
    } else if (lines[i].starts_with("```")) {
      if (in_block) tolerance = DocumentedCommand().tolerance;
      in_block = lines[i] == "```console";
    } else if (in_block && lines[i].starts_with("$ ")) {
      std::string command = lines[i].substr(2);
      while (command.ends_with('\\')) command = command.substr(0, command.size() - 1) + lines.at(++i);
      commands.push_back({command, {}, i + 1, tolerance});
    } else if (in_block && !commands.empty()) {
      commands.back().output.push_back(lines[i]);
    }
  }
  return commands;
}

/// Words and numbers of a line.
std::vector<std::string> tokens_of(std::string line) {
  static const RE2 kDate("<date>");
  static const RE2 kRule("-{2,}:?|:-{2,}");
  RE2::GlobalReplace(&line, kDate, today());
  RE2::GlobalReplace(&line, kRule, "--");
  static const RE2 kToken(R"(([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|[^\s\d]+|\d+))");
  std::vector<std::string> tokens;
  re2::StringPiece rest(line);
  std::string token;
  while (RE2::FindAndConsume(&rest, kToken, &token)) tokens.push_back(token);
  return tokens;
}

bool same_token(const std::string& expected, const std::string& actual, double tolerance) {
  if (expected == actual) return true;
  static const RE2 kNumber(R"([-+]?\d+(\.\d+)?(e[-+]?\d+)?)");
  if (!RE2::FullMatch(expected, kNumber) || !RE2::FullMatch(actual, kNumber)) return false;
  const double a = std::stod(expected);
  const double b = std::stod(actual);
  // Differences of nearly equal numbers, as errors of 1e-6 are, have few digits that do not depend on the
  // machine.
  if (std::abs(a) < 1e-3) return std::abs(b) < 1e-2;
  return std::abs(a - b) <= tolerance * std::abs(a) + (expected.find('.') == std::string::npos ? 0 : 0.02);
}

bool same_line(const std::string& expected, const std::string& actual, double tolerance) {
  const std::vector<std::string> a = tokens_of(expected);
  const std::vector<std::string> b = tokens_of(actual);
  return std::ranges::equal(
      a, b, [&](const std::string& x, const std::string& y) { return same_token(x, y, tolerance); });
}

/// The first line of `expected` that `actual` has no counterpart of; "" where there is none.
std::string missing_line(const std::vector<std::string>& expected, const std::vector<std::string>& actual,
                         double tolerance = DocumentedCommand().tolerance) {
  const auto same = [&](const std::string& a, const std::string& b) { return same_line(a, b, tolerance); };
  size_t at = 0;
  bool anywhere = false;
  for (const std::string& line : expected) {
    if (line == "...") {
      anywhere = true;
      continue;
    }
    if (line.empty()) continue;
    while (at < actual.size() && (actual[at].empty() || (anywhere && !same(line, actual[at])))) ++at;
    if (at == actual.size() || !same(line, actual[at])) return line;
    ++at;
    anywhere = false;
  }
  return "";
}

class DocumentedCommands : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("detent_documented_{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void expect_as_documented(const std::string& document) {
    const std::vector<DocumentedCommand> commands = commands_of(fs::path(DETENT_SOURCE_DIR) / document);
    ASSERT_FALSE(commands.empty()) << document << " has no console block";
    for (const DocumentedCommand& documented : commands) {
      const fs::path log = folder_ / "log.txt";
      // Progress, on standard error, depends on how fast the machine is.
      const fs::path errors = folder_ / "errors.txt";
      const std::string line =
          fmt::format("cd {} && export PATH={}:$PATH && {} > {} 2> {} < /dev/null", folder_.string(),
                      DETENT_BIN, documented.command, log.string(), errors.string());
      const int status = std::system(line.c_str());
      const std::string output = read_file(log);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << document << ":" << documented.line << ": " << documented.command << "\n"
          << output << read_file(errors);
      EXPECT_EQ(missing_line(documented.output, lines_of(output), documented.tolerance), "")
          << document << ":" << documented.line << ": " << documented.command << "\nprinted\n"
          << output;
    }
  }

  fs::path folder_;
};

TEST(DocumentedOutput, IsComparedButForSpacesAndLastDigits) {
  EXPECT_EQ(missing_line({"| a |  1.50 |"}, {"| a | 1.51 |"}), "");
  EXPECT_EQ(missing_line({"|---|----:|"}, {"|-----|-----:|"}), "");
  EXPECT_EQ(missing_line({"...", "b"}, {"a", "b", "c"}), "");
  EXPECT_EQ(missing_line({"b"}, {"a", "b"}), "b");
  EXPECT_EQ(missing_line({"a", "c"}, {"a", "b", "c"}), "c");
  EXPECT_EQ(missing_line({"accuracy 0.95"}, {"accuracy 0.85"}), "accuracy 0.95");
  EXPECT_EQ(missing_line({"12 nodes"}, {"13 nodes"}), "12 nodes");
  EXPECT_EQ(missing_line({"accuracy 0.95"}, {"accuracy 0.91"}, 0.05), "");
  EXPECT_EQ(missing_line({"a", "b"}, {"a"}), "b");
}

TEST_F(DocumentedCommands, OfTheReadme) {
  const std::string model = "models/squeezenet1.1-float/squeezenet1.1.onnx";
  const auto root = published_data({model, "imagenet-sample/labels.tsv"});
  if (!root) GTEST_SKIP() << "no " << model << " and imagenet-sample in $DETENT_DATA or ../shared/data";
  fs::create_symlink(*root / model, folder_ / "squeezenet1.1.onnx");
  for (const char* sample : {"input_0.npy", "output_0.npy"})
    fs::create_symlink(*root / "models/squeezenet1.1-float/test_data_set/0" / sample, folder_ / sample);
  fs::copy(*root / "imagenet-sample/labels.tsv", folder_);
  fs::create_directory_symlink(*root / "imagenet-sample/images", folder_ / "images");
  expect_as_documented("README.md");
}

TEST_F(DocumentedCommands, OfTheMnistTutorial) {
  const auto root = published_data({"mnist/train-images-idx3-ubyte.gz"});
  if (!root) GTEST_SKIP() << "no mnist in $DETENT_DATA or ../shared/data";
  fs::create_symlink(fs::path(DETENT_SOURCE_DIR) / "configs", folder_ / "configs");
  fs::create_directory(folder_ / "data");
  fs::create_symlink(*root / "mnist", folder_ / "data/mnist");
  expect_as_documented("docs/tutorial_mnist.md");
}

TEST_F(DocumentedCommands, OfTheResnet20Tutorial) {
  const std::string weights = "models/resnet20-cifar10-pth/resnet20-12fca82f.th";
  const auto root = published_data({weights, "cifar-10/test_batch.bin"});
  if (!root) GTEST_SKIP() << "no " << weights << " and cifar-10 in $DETENT_DATA or ../shared/data";
  fs::create_symlink(*root / weights, folder_ / "resnet20-12fca82f.th");
  fs::create_directory(folder_ / "data");
  fs::create_symlink(*root / "cifar-10", folder_ / "data/cifar-10");
  expect_as_documented("docs/tutorial_resnet20.md");
}

}  // namespace
}  // namespace detent
