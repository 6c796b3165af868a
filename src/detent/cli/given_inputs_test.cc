#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "detent/cli/program_for_test.h"
#include "detent/cli/read_network.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/safetensors.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/model_for_test.h"
#include "detent/workflows/network_values.h"

namespace detent {
namespace {

using testing::HasSubstr;

TEST(GivenInputs, AFileOfArraysHasTheirNames) {
  const auto error = [](const char* text) {
    return error_of([&] { given_inputs(std::vector<std::string>{text}, {}); });
  };
  EXPECT_THAT(error("x=arrays.npz"), HasSubstr("a .npz file has arrays by name: --input arrays.npz"));
  EXPECT_THAT(error("x=missing.npy"), HasSubstr("missing.npy"));
}

/// A network that broadcasts a state of any size loads with one of one number; arrays of others are taken
/// for what the model leaves open.
TEST(GivenInputs, GiveTheSizesOfANetworkThatWouldBeginWithStatesOfOne) {
  OnnxModelForTest model(17);
  model.input("x", {1, 3, -2, -3});
  model.input("state", {1, -4, -5, -6});
  model.output("y");
  model.constant<float>("window", {1, 3, 3, 3}, std::vector<float>(27, 1));
  model.node("Conv", {"x", "window"}, {"c"},
             {{"strides", std::vector<int64_t>{4, 4}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  model.node("Shape", {"c"}, {"shape"});
  model.node("Expand", {"state", "shape"}, {"s"});
  model.node("Add", {"c", "s"}, {"y"});
  const std::filesystem::path path = model.write();
  const GivenInputs arrays{{},
                           {{"x", "x.npy", Tensor(DType::kFloat32, {1, 3, 20, 24})},
                            {"state", "state.npy", Tensor(DType::kFloat32, {1, 1, 5, 6})}}};
  const Graph graph = read_network(path, arrays);
  EXPECT_EQ(tensor_type_text(graph.input_types().at("state")), "float32 [N, 1, 5, 6]");
  EXPECT_EQ(tensor_type_text(read_network(path, GivenInputs()).input_types().at("state")),
            "float32 [1, 1, 1, 1]");
}

/// One step is squeezed, where the usual sizes have several.
void add_squeezed_steps(OnnxModelForTest& model) {
  model.input("x", {-1, -2, 2});
  model.output("y");
  model.constant<int64_t>("one", {1}, {1});
  model.constant<float>("w", {2, 2}, {1, 2, 3, 4});
  model.node("Shape", {"x"}, {"shape"}, {{"start", 1}, {"end", 2}});
  model.node("Equal", {"shape", "one"}, {"is_one"});
  model.node("If", {"is_one"}, {"z"},
             {{"then_branch", onnx_body({}, {onnx_node("Squeeze", {"x", "one"}, {"a"})}, {"a"})},
              {"else_branch", onnx_body({}, {onnx_node("Identity", {"x"}, {"b"})}, {"b"})}});
  model.node("MatMul", {"z", "w"}, {"y"});
}

TEST(GivenInputs, ChooseBranchesByTheirSizes) {
  OnnxModelForTest model(17);
  add_squeezed_steps(model);
  const std::filesystem::path path = model.write();
  for (const int64_t steps : {1, 3}) {
    const GivenInputs given{{}, {{"x", "x.npy", Tensor(DType::kFloat32, {2, steps, 2})}}};
    const Graph graph = read_network(path, given);
    const std::vector<Tensor> inputs = input_tensors(graph, given, given_sizes(graph, given));
    EXPECT_EQ(IntegerExecutor().compile(graph)->run(inputs).at(0).shape(),
              steps == 1 ? Shape({2, 2}) : Shape({2, 3, 2}));
  }
}

TEST(GivenInputs, SamplesChooseBranchesByTheirSizes) {
  OnnxModelForTest model(17);
  add_squeezed_steps(model);
  const std::string path = model.write();
  const TemporaryPath samples("x.safetensors");
  for (const int64_t steps : {1, 3}) {
    Tensor x(DType::kFloat32, {4, steps, 2});
    std::iota(x.values<float>().begin(), x.values<float>().end(), -5.0F);
    write_safetensors(samples.get(), std::vector{std::pair(std::string("x"), x)});
    const ProgramResult result =
        run_program({"quantize", path, "--calibration", samples.get().string(), "--project-dir",
                     samples.get().parent_path().string(), "--project", "p", "--overwrite"});
    EXPECT_EQ(result.status, 0) << result.errors;
  }
}

/// Samples of three rows, of a network that takes one at usual sizes.
TEST(GivenInputs, SamplesGiveTheSizesOfANetworkThatTakesOtherUsualOnes) {
  OnnxModelForTest model(18);
  model.input("x", {-1, 2});
  model.output("y");
  model.constant<int64_t>("one", {}, {1});
  model.constant<float>("w", {2, 2}, {1, 2, 3, 4});
  model.node("SplitToSequence", {"x", "one"}, {"rows"}, {{"axis", 0}});
  model.node("SequenceMap", {"rows"}, {"mapped"},
             {{"body", onnx_body({"row"}, {onnx_node("MatMul", {"row", "w"}, {"product"})}, {"product"})}});
  model.node("ConcatFromSequence", {"mapped"}, {"y"}, {{"axis", 0}});
  const TemporaryPath samples("x.safetensors");
  Tensor x(DType::kFloat32, {4, 3, 2});
  std::iota(x.values<float>().begin(), x.values<float>().end(), -5.0F);
  write_safetensors(samples.get(), std::vector{std::pair(std::string("x"), x)});
  const ProgramResult result =
      run_program({"quantize", model.write(), "--calibration", samples.get().string(), "--project-dir",
                   samples.get().parent_path().string(), "--project", "p"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(GivenInputs, ElementsOfOtherWidthsSuitAnInput) {
  const auto halves = Tensor::from<double>({2}, std::vector<double>{0.5, -2});
  EXPECT_TRUE(
      as_input_dtype(halves, DType::kFloat32)->equals(Tensor::from<float>({2}, std::vector<float>{0.5, -2})));
  const auto bytes = Tensor::from<uint8_t>({2}, std::vector<uint8_t>{3, 200});
  EXPECT_TRUE(
      as_input_dtype(bytes, DType::kInt64)->equals(Tensor::from<int64_t>({2}, std::vector<int64_t>{3, 200})));
  EXPECT_FALSE(as_input_dtype(bytes, DType::kFloat32));
  EXPECT_FALSE(as_input_dtype(bytes, DType::kInt8));
  EXPECT_FALSE(as_input_dtype(halves, DType::kInt64));
  EXPECT_FALSE(as_input_dtype(bytes, DType::kBool));
}

/// As the Python module takes them.
TEST(GivenInputs, FloatsOfOtherWidthsAreConverted) {
  OnnxModelForTest model(17);
  model.input("x", {1, 2});
  model.output("y");
  model.node("Relu", {"x"}, {"y"});
  const Graph graph = read_network(model.write(), GivenInputs());
  const auto tensors = [&](const Tensor& given) {
    return input_tensors(graph, {{}, {{"x", "x.npy", given}}}, {}, {});
  };
  EXPECT_EQ(tensors(Tensor(DType::kFloat64, {1, 2})).at(0).dtype(), DType::kFloat32);
  EXPECT_EQ(tensors(Tensor(DType::kFloat16, {1, 2})).at(0).dtype(), DType::kFloat32);
  EXPECT_THAT(error_of([&] {
                tensors(Tensor(DType::kUInt8, {1, 2}));
              }),
              HasSubstr("x.npy: got uint8, expected float32 for the input \"x\" (numpy: "
                        "x.astype(\"float32\") where that is meant)"));
}

}  // namespace
}  // namespace detent
