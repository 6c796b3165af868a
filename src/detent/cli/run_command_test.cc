#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "detent/cli/program_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/onnx/model_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// Square roots of these numbers by `detent run`.
ProgramResult roots_of(const std::vector<float>& values, const std::vector<std::string>& options = {}) {
  OnnxModelForTest model(17);
  model.input("x", {std::ssize(values)});
  model.output("y");
  model.node("Sqrt", {"x"}, {"y"});
  const TemporaryPath input("x.npy");
  write_npy(input.get(), Tensor::from(Shape{std::ssize(values)}, values));
  std::vector<std::string> args = {"run", model.write(), "--input", "x=" + input.get().string()};
  args.insert(args.end(), options.begin(), options.end());
  return run_program(args);
}

TEST(RunCommand, ShowsTheRangeOfNumbersBesideNan) {
  EXPECT_THAT(roots_of({4, 1, 9}).output, HasSubstr("| 1 to 3 |"));
  for (const std::vector<float>& values : {std::vector<float>{-1, 4, 9}, {4, -1, 9}, {9, 4, -1}}) {
    EXPECT_THAT(roots_of(values).output, HasSubstr("2 to 3, 1 x NaN"));
    EXPECT_THAT(roots_of(values, {"--json"}).output, HasSubstr("\"range\": \"2 to 3, 1 x NaN\""));
  }
  EXPECT_THAT(roots_of({-1, -4}).output, HasSubstr(" NaN |"));
}

/// As of a model in float64, in which exp(200) is finite.
TEST(RunCommand, NamesTheNodeThatGivesTheFirstInfinity) {
  OnnxModelForTest model(17);
  model.input("x", {2}, onnx::TensorProto::DOUBLE);
  model.output("y");
  model.node("Exp", {"x"}, {"power"});
  model.node("Log", {"power"}, {"y"});
  const TemporaryPath input("x.npy");
  const auto warnings = [&](double x) {
    write_npy(input.get(), Tensor::from({2}, std::vector<double>{1, x}));
    return run_program({"run", model.write(), "--input", "x=" + input.get().string()}).errors;
  };
  EXPECT_THAT(warnings(200),
              HasSubstr("y has NaN or infinite elements: node \"power_node\" (exp) is the first"));
  EXPECT_THAT(warnings(1e300), HasSubstr("(cast) is the first"));
  EXPECT_EQ(warnings(20), "");
  EXPECT_EQ(warnings(INFINITY), "");
}

/// Rows of `table` by the number of those of x, as exporters take each sample's from a mask.
TEST(BenchCommand, BatchesOfOtherNamesHaveItsSize) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.input("table", {-2, 2});
  model.output("y");
  model.constant<int64_t>("zero", {}, {0});
  model.constant<int64_t>("one", {}, {1});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"count"});
  model.node("Range", {"zero", "count", "one"}, {"places"});
  model.node("Gather", {"table", "places"}, {"rows"});
  model.node("Add", {"x", "rows"}, {"y"});
  const ProgramResult result = run_program({"bench", model.write(), "--batch", "3", "--seconds", "0.001"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

/// Sums of its layer are proved for no accumulator of 8 bits, and no operator of ONNX has one.
TEST(QuantizeCommand, WritesNoGraphWhereTheModelCannotBeWritten) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.output("y");
  model.constant<float>("w", {2, 3}, {1, 0, -1, 0, 1, -1});
  model.node("MatMul", {"x", "w"}, {"y"});
  const std::string path = model.write();
  const TemporaryPath samples("x.npy");
  write_npy(samples.get(), Tensor::from({3, 2}, std::vector<float>{1, 2, 3, -4, 5, 6}));
  const std::string folder = samples.get().parent_path().string();
  const ProgramResult result =
      run_program({"quantize", path, "--calibration", samples.get().string(), "--project-dir", folder,
                   "--project", "p", "--accumulator", "int8", "-o", folder + "/y.onnx"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("has the accumulator int8, where "));
  EXPECT_FALSE(std::filesystem::exists(folder + "/p/software/quantize/graph_module.mz"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/y.onnx"));
}

TEST(CompareCommand, TakesNumbersThatHoldForAllSamples) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.input("factor", {});
  model.output("y");
  model.constant<float>("w", {2, 3}, {1, 0, -1, 0, 1, -1});
  model.node("MatMul", {"x", "w"}, {"p"});
  model.node("Mul", {"p", "factor"}, {"y"});
  const TemporaryPath samples("x.safetensors");
  const std::vector<std::pair<std::string, Tensor>> arrays = {
      {"x", Tensor::from({3, 2}, std::vector<float>{1, 2, 3, -4, 5, 6})},
      {"factor", Tensor::from({}, std::vector<float>{2})}};
  write_safetensors(samples.get(), arrays);
  const std::string folder = samples.get().parent_path().string();
  const std::vector<std::string> with_samples = {model.write(),   "--calibration", samples.get().string(),
                                                 "--project-dir", folder,          "--project"};
  std::vector<std::string> comparing = {"compare", "--formats", "int8"};
  comparing.insert(comparing.end(), with_samples.begin(), with_samples.end());
  comparing.emplace_back("compared");
  const ProgramResult compared = run_program(comparing);
  EXPECT_EQ(compared.status, 0) << compared.errors;
  std::vector<std::string> searching = {"search", "--evaluations", "2", "--max-bits", "32"};
  searching.insert(searching.end(), with_samples.begin(), with_samples.end());
  searching.emplace_back("searched");
  const ProgramResult searched = run_program(searching);
  EXPECT_EQ(searched.status, 0) << searched.errors;
}

/// How many samples an object as `detent test --json` prints it says are right.
int64_t correct_of(const std::string& json) {
  const Value results = parse_json(json, "results");
  const List& networks = *results.get_if<Table>()->find("accuracy")->get_if<List>();
  return *networks.front().get_if<Table>()->find("correct")->get_if<int64_t>();
}

/// Labels of few samples need not reach the network's last class.
TEST(TestCommand, TakesLabelsOfSomeOfTheClasses) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.output("y");
  model.constant<float>("w", {2, 3}, {1, 0, -1, 0, 1, -1});
  model.node("MatMul", {"x", "w"}, {"y"});
  const std::string path = model.write();
  const TemporaryPath file("test.csv");
  const std::string dump = (file.get().parent_path() / "dump").string();
  for (const auto& [text, is_taken] : {std::pair("0.5,0.25,0\n0.25,1,1\n", true), {"0.5,0.25,3\n", false}}) {
    std::ofstream(file.get()) << text;
    const ProgramResult result =
        run_program({"test", path, "csv", "--data-dir", file.get().parent_path().string(), "--json", "--dump",
                     dump, "--overwrite"});
    EXPECT_EQ(result.status == 0, is_taken) << result.errors;
    if (is_taken) {
      EXPECT_EQ(correct_of(result.output), 2);
    }
  }
}

}  // namespace
}  // namespace detent
