#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/toml.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"

// The pass quantize on operands that have formats already.

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Requantizing : public testing::Test {
 protected:
  Requantizing() {
    context_.output_dir =
        std::filesystem::temp_directory_path() / fmt::format("detent_requantizing_{}", getpid());
    context_.report = [](const std::string&) {};
    context_.warn = [](const std::string& text) { ADD_FAILURE() << text; };
    EXPECT_EQ(quantize("type", "linear",
                       "name = \"fixed\"\ndata_in_width = 8\nweight_width = 4\nbias_name = \"NA\"\n"),
              "");
  }
  ~Requantizing() override { std::filesystem::remove_all(context_.output_dir); }

  /// "" when it succeeds. Other nodes: the config of `default`.
  std::string quantize(const std::string& by, const std::string& key, const std::string& config,
                       const std::string& options = "", const std::string& fallback = "name = \"NA\"\n") {
    const std::string toml = fmt::format(
        "[passes.quantize]\nby = \"{}\"\n{}[passes.quantize.default.config]\n{}"
        "[passes.quantize.{}.config]\n{}",
        by, options, fallback, key, config);
    return detent::error_of([&] {
      run_pipeline(graph_, *parse_toml(toml, "t.toml").find("passes")->get_if<Table>(), "t.toml", context_);
    });
  }

  std::vector<std::string> formats(const std::string& node) {
    std::vector<std::string> texts;
    for (const auto& [operand, quantizer] : graph_.node(node).quantization) {
      texts.push_back(operand + " " + quant_spec_text(quantizer->spec));
    }
    return texts;
  }

  Graph graph_ = build_model("toy", {1, 2, 2}, 2);
  PassContext context_;
};

TEST_F(Requantizing, IsRefusedByTheNamesOfNodesAndOperands) {
  const auto before = formats("seq_blocks_2");
  EXPECT_THAT(
      quantize("type", "linear", "name = \"fixed\"\ndata_in_width = 8\nweight_width = 3\n"),
      AllOf(HasSubstr("t.toml, [passes.quantize]: quantized already with other formats: \"seq_blocks_0\" "
                      "(weight), \"seq_blocks_2\" (weight), \"seq_blocks_4\" (weight)"),
            HasSubstr("requantize = true"), Not(HasSubstr("data_in"))));
  EXPECT_THAT(quantize("type", "relu", "name = \"fixed\"\n", "", "name = \"ternary\"\n"),
              HasSubstr("\"seq_blocks_0\" (data_in_0, weight)"))
      << "by default, too";
  EXPECT_EQ(formats("seq_blocks_2"), before);
  EXPECT_THAT(formats("seq_blocks_1"), IsEmpty()) << "an error leaves the graph as it was";
}

TEST_F(Requantizing, OnRequestReplacesFormats) {
  const std::string ternary = "name = \"ternary\"\nweight_width = 2\n";
  EXPECT_EQ(quantize("name", "seq_blocks_2", ternary, "requantize = true\n"), "");
  EXPECT_THAT(formats("seq_blocks_2"), ElementsAre("bias ternary", "data_in_0 fixed", "weight ternary"));
  EXPECT_EQ(
      quantize("name", "seq_blocks_2", "name = \"fixed\"\nweight_name = \"NA\"\n", "requantize = true\n"),
      "");
  EXPECT_THAT(formats("seq_blocks_2"), ElementsAre("data_in_0 fixed"))
      << "NA takes a format off, and the bias' that follows it";
}

TEST_F(Requantizing, OperandsWithoutKeysStayAsTheyAre) {
  EXPECT_EQ(quantize("name", "seq_blocks_2", "name = \"fixed\"\ndata_out_width = 6\n"), "");
  EXPECT_THAT(formats("seq_blocks_2"),
              ElementsAre("data_in_0 fixed", "data_out_0 fixed:width=6", "weight fixed:width=4"));
  EXPECT_THAT(formats("seq_blocks_0"), ElementsAre("data_in_0 fixed", "weight fixed:width=4"))
      << "name = NA leaves a node alone";
}

TEST_F(Requantizing, TheSameFormatsAgainAreNoChange) {
  const auto before = formats("seq_blocks_2");
  EXPECT_EQ(quantize("type", "linear",
                     "name = \"fixed\"\ndata_in_width = 8\nweight_width = 4\nbias_name = \"NA\"\n"),
            "");
  EXPECT_EQ(formats("seq_blocks_2"), before);
}

}  // namespace
}  // namespace detent
