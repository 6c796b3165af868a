#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"

// Models that take few of the sizes that they leave open.

namespace detent {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

Tensor ones(const Shape& shape) {
  return Tensor::from(shape, std::vector<float>(static_cast<size_t>(element_count(shape)), 1));
}

std::vector<Shape> result_shapes(const Graph& graph, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> reference = IntegerExecutor().compile(graph)->run(inputs);
  const std::vector<Tensor> engine = FastProgram(graph).run(inputs);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < reference.size(); ++i) {
    EXPECT_TRUE(reference[i].equals(engine[i])) << i;
    shapes.push_back(reference[i].shape());
  }
  return shapes;
}

/// Five strides of 2, after which nothing of the height is left: of 32 or 48 high images of text.
void add_text_recognition(OnnxModelForTest& model, const std::string& open) {
  model.input("x", {-1, 1, -2, -2});
  auto& shape = *model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (int i = 2; i < 4; ++i) shape.mutable_dim(i)->set_dim_param(open);
  model.output("y");
  for (int i = 0; i < 5; ++i) {
    model.node("MaxPool", {i == 0 ? "x" : fmt::format("p{}", i - 1)}, {fmt::format("p{}", i)},
               {{"kernel_shape", Ints{2, 1}}, {"strides", Ints{2, 1}}});
  }
  model.constant<int64_t>("axes", {1}, {2});
  model.node("Squeeze", {"p4", "axes"}, {"y"});
}

TEST(ImportTrials, FindHeightsThatAreSqueezed) {
  for (const std::string open : {"?", "-1", ""}) {
    OnnxModelForTest model(17);
    add_text_recognition(model, open);
    const Graph graph = import_onnx(model.write());
    EXPECT_EQ(result_shapes(graph, {ones({2, 1, 32, 100})}).at(0), (Shape{2, 1, 100})) << open;
    EXPECT_EQ(result_shapes(graph, {ones({1, 1, 48, 7})}).at(0), (Shape{1, 1, 7})) << open;
  }
}

/// A stride of 441 gives one position for 64 and for 96 samples: what is made of it holds for others too.
TEST(ImportTrials, DoNotTakePositionsOfLongStridesForKnown) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 1, -2});
  model.output("y");
  model.constant<float>("w", {2, 1, 50}, std::vector<float>(100, 1));
  model.constant<int64_t>("rows", {2}, {0, -1});
  model.node("Conv", {"x", "w"}, {"c"}, {{"strides", Ints{441}}});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 2, 1}}});
  model.node("Reshape", {"t", "rows"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(result_shapes(graph, {ones({1, 1, 2000})}).at(0), (Shape{1, 10}));
  EXPECT_EQ(result_shapes(graph, {ones({3, 1, 100})}).at(0), (Shape{3, 2}));
}

/// A step of a recurrent layer with the state [layers, batch, features], of which no size has a name.
TEST(ImportTrials, TakeTheSecondSizeOfAStateForTheBatch) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 3});
  model.input("state", {1, -2, 2});
  for (int i = 0; i < 2; ++i)
    model.graph()
        .mutable_input(i)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(i)
        ->clear_dim_param();
  model.output("y");
  model.output("next");
  model.constant<int64_t>("first", {1}, {0});
  model.node("Unsqueeze", {"x", "first"}, {"steps"});
  model.constant<float>("w", {1, 6, 3}, std::vector<float>(18, 0.1F));
  model.constant<float>("r", {1, 6, 2}, std::vector<float>(12, 0.1F));
  model.node("GRU", {"steps", "w", "r", "", "", "state"}, {"y", "next"}, {{"hidden_size", 2}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(graph.input_types().at("state").shape.at(1).symbol, kBatchName);
  EXPECT_EQ(result_shapes(graph, {ones({5, 3}), ones({1, 5, 2})}).at(1), (Shape{1, 5, 2}));
}

/// A trace names the first size of both inputs open, of which only the samples' is.
TEST(ImportTrials, AStateIsNotOfMoreSamplesThanThereAre) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 5, 3});
  model.input("state", {-1, 2, 2});
  model.output("y");
  model.constant<float>("w", {1, 6, 3}, std::vector<float>(18, 0.1F));
  model.constant<float>("r", {1, 6, 2}, std::vector<float>(12, 0.1F));
  model.node("Transpose", {"x"}, {"steps"}, {{"perm", Ints{1, 0, 2}}});
  model.node("GRU", {"steps", "w", "r", "", "", "state"}, {"y"}, {{"hidden_size", 2}});
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }), HasSubstr("input 5 has 2 samples"));
}

/// Two networks in one, for sounds of two rates: the second one's windows do not fit 512 samples.
void add_two_rates(OnnxModelForTest& model) {
  const auto branch = [](const std::string& window) {
    onnx::GraphProto graph;
    graph.set_name(window);
    *graph.add_node() = onnx_node("Conv", {"x", window}, {"c"}, {{"strides", Ints{256}}});
    *graph.add_node() = onnx_node("Squeeze", {"c", "axes"}, {"s"});
    graph.add_output()->set_name("s");
    return graph;
  };
  model.input("x", {-1, 1, -2});
  model.input("rate", {}, onnx::TensorProto::INT64);
  model.output("y");
  model.constant<int64_t>("fast", {}, {16000});
  model.constant<int64_t>("axes", {1}, {2});
  model.constant<float>("short", {1, 1, 400}, std::vector<float>(400, 1));
  model.constant<float>("long", {1, 1, 900}, std::vector<float>(900, 2));
  model.node("Equal", {"rate", "fast"}, {"is_fast"});
  model.node("If", {"is_fast"}, {"y"}, {{"then_branch", branch("short")}, {"else_branch", branch("long")}});
}

TEST(ImportTrials, LeaveABranchOutThatDoesNotTakeTheSizes) {
  const auto rate = [](int64_t value) { return Tensor::from<int64_t>({}, Ints{value}); };
  OnnxModelForTest model(17);
  add_two_rates(model);
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(result_shapes(graph, {ones({1, 1, 512}), rate(16000)}).at(0), (Shape{1, 1}));
  for (const bool in_engine : {false, true}) {
    const std::vector<Tensor> slow = {ones({1, 1, 512}), rate(8000)};
    EXPECT_THAT(
        error_of(
            [&] { in_engine ? FastProgram(graph).run(slow) : IntegerExecutor().compile(graph)->run(slow); }),
        testing::AllOf(HasSubstr("node \"y_node\" (assert)"),
                       HasSubstr("the else branch, which its condition chooses"), HasSubstr("--shape")));
  }
  const Graph other = import_onnx(model.write(), {.shapes = {{"x", {1, 1, 1000}}}});
  EXPECT_THAT(error_of([&] {
                import_onnx(model.write(), {.shapes = {{"x", {1, 1, 100}}}});
              }),
              HasSubstr("a window of 400 does not fit into 100"));
  EXPECT_EQ(result_shapes(other, {ones({1, 1, 1000}), rate(8000)}).at(0), (Shape{1, 1}));

  const std::filesystem::path written = model.folder / "written.onnx";
  export_onnx(graph, written);
  EXPECT_EQ(result_shapes(import_onnx(written), {ones({1, 1, 512}), rate(16000)}).at(0), (Shape{1, 1}));
}

/// A size that an exporter declares open, though a constant of the traced run fixes it.
TEST(ImportTrials, FixSizesThatAConstantFixes) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2, 3});
  model.output("y");
  model.constant<float>("places", {1, 11, 3}, std::vector<float>(33, 1));
  model.node("Add", {"x", "places"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("x")), "float32 [N, 11, 3]");
  EXPECT_EQ(result_shapes(graph, {ones({2, 11, 3})}).at(0), (Shape{2, 11, 3}));
}

/// A layer tells how many features it reads; they grow with the open size, but are not all of them.
TEST(ImportTrials, FixSizesThatGiveTheFeaturesOfALayer) {
  OnnxModelForTest row(17);
  row.input("x", {-1, -2});
  row.output("y");
  row.constant<int64_t>("axis", {1}, {1});
  row.constant<float>("more", {1, 160}, std::vector<float>(160, 1));
  row.constant<float>("weight", {3610, 1}, std::vector<float>(3610, 1));
  row.node("ReduceSum", {"x", "axis"}, {"sum"});
  row.node("MatMul", {"sum", "more"}, {"features"});
  row.node("Concat", {"x", "features"}, {"both"}, {{"axis", 1}});
  row.node("MatMul", {"both", "weight"}, {"y"});
  EXPECT_EQ(tensor_type_text(import_onnx(row.write()).input_types().at("x")), "float32 [N, 3450]");

  OnnxModelForTest image(17);
  image.input("x", {-1, 1, -2, -3});
  image.output("y");
  image.constant<float>("window", {2, 1, 5, 5}, std::vector<float>(50, 1));
  image.constant<float>("weight", {392, 3}, std::vector<float>(392 * size_t{3}, 1));
  image.node("Conv", {"x", "window"}, {"c"});
  image.node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  image.node("Flatten", {"p"}, {"f"});
  image.node("Gemm", {"f", "weight"}, {"y"});
  EXPECT_EQ(tensor_type_text(import_onnx(image.write()).input_types().at("x")), "float32 [N, 1, 32, 32]");
}

TEST(ImportTrials, FixABatchThatAConstantFixes) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 10});
  model.output("y");
  model.constant<int64_t>("shape", {3}, Ints{8, 2, 5});
  model.node("Reshape", {"x", "shape"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("x")), "float32 [8, 10]");
}

/// The sizes of a Split say nothing of the batch.
/// A loop joins what it gives to a constant of two samples.
TEST(ImportTrials, FixABatchThatALoopBeginsWith) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 4});
  model.input("count", {}, onnx::TensorProto::INT64);
  model.output("y");
  model.constant<float>("nothing", {2, 0, 4}, {});
  model.constant<int64_t>("one", {1}, {1});
  model.node("Unsqueeze", {"x", "one"}, {"row"});
  model.node("Loop", {"count", "", "nothing"}, {"y"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Concat", {"before", "row"}, {"after"}, {{"axis", 1}})},
                                 {"go", "after"})}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("x")), "float32 [2, 4]");
}

TEST(ImportTrials, FixABatchOfOneThatNoSizeNames) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 8});
  model.output("y");
  model.constant<int64_t>("row", {2}, {1, -1});
  model.constant<int64_t>("sizes", {2}, {2, 6});
  model.node("Reshape", {"x", "row"}, {"r"});
  model.node("Split", {"r", "sizes"}, {"a", "y"}, {{"axis", 1}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(result_shapes(graph, {ones({1, 8})}).at(0), (Shape{1, 6}));
}

/// A batch that the exporter's run had fixed, where a window needs more samples than are tried first.
TEST(ImportTrials, FixABatchOfOneAtOtherSizes) {
  OnnxModelForTest model(17);
  model.input("x", {-1, -2});
  model.output("y");
  model.constant<int64_t>("axis", {1}, {1});
  model.constant<int64_t>("shape", {2}, Ints{1, -1});
  model.constant<float>("window", {1, 1, 200}, std::vector<float>(200, 1));
  model.node("Unsqueeze", {"x", "axis"}, {"u"});
  model.node("Conv", {"u", "window"}, {"c"});
  model.node("Reshape", {"c", "shape"}, {"flat"});
  model.node("Squeeze", {"c", "axis"}, {"same"});
  model.node("Add", {"flat", "same"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(tensor_type_text(graph.input_types().at("x")), HasSubstr("float32 [1, "));
  EXPECT_EQ(result_shapes(graph, {ones({1, 300})}).at(0), (Shape{1, 101}));
}

/// A step of a decoder as an exporter's run had it: one token of one sample, and any number before it. The
/// first size of the past has a name of its own.
TEST(ImportTrials, FixAStepOfOneSample) {
  OnnxModelForTest model(17);
  model.input("ids", {-1, -2}, onnx::TensorProto::INT64);
  model.input("past", {-3, -4, 2});
  model.output("y");
  model.constant<float>("table", {5, 2}, std::vector<float>(10, 1));
  model.constant<int64_t>("step", {3}, Ints{1, 1, 2});
  model.node("Gather", {"table", "ids"}, {"e"});
  model.node("Reshape", {"e", "step"}, {"now"});
  model.node("Concat", {"past", "now"}, {"y"}, {{"axis", 1}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("ids")), "int64 [1, 1]");
  EXPECT_EQ(result_shapes(graph, {Tensor(DType::kInt64, {1, 1}), ones({1, 7, 2})}).at(0), (Shape{1, 8, 2}));
}

/// As in video matting: the first state is one number that is expanded, whatever the size of images.
TEST(ImportTrials, BeginStatesWithOneNumber) {
  OnnxModelForTest model(17);
  model.input("x", {1, 3, -2, -3});
  model.input("state", {1, -4, -5, -6});
  model.output("y");
  model.constant<float>("window", {1, 3, 3, 3}, std::vector<float>(27, 1));
  model.node("Conv", {"x", "window"}, {"c"}, {{"strides", Ints{4, 4}}, {"pads", Ints{1, 1, 1, 1}}});
  model.node("Shape", {"c"}, {"shape"});
  model.node("Expand", {"state", "shape"}, {"s"});
  model.node("Add", {"c", "s"}, {"y"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("state")), "float32 [1, 1, 1, 1]");
  EXPECT_EQ(result_shapes(graph, {ones({1, 3, 40, 80}), ones({1, 1, 1, 1})}).at(0), (Shape{1, 1, 10, 20}));
}

TEST(ImportTrials, KeepAnOpenBatchThatIsSqueezedWithoutAxes) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 1, 10, 1});
  model.output("y");
  model.node("Squeeze", {"x"}, {"y"});
  set_up_logging("warning");
  testing::internal::CaptureStderr();
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("Squeeze: without axes it keeps open dimensions where they are 1 too"));
  EXPECT_EQ(result_shapes(graph, {ones({3, 1, 10, 1})}).at(0), (Shape{3, 10}));
  EXPECT_EQ(result_shapes(graph, {ones({1, 1, 10, 1})}).at(0), (Shape{1, 10}));

  OnnxModelForTest of_one(17);
  of_one.input("x", {1, 1, 10});
  of_one.output("y");
  of_one.node("Squeeze", {"x"}, {"y"});
  const Graph fixed = import_onnx(of_one.write());
  EXPECT_EQ(tensor_type_text(fixed.input_types().at("x")), "float32 [1, 1, 10]");
  EXPECT_EQ(result_shapes(fixed, {ones({1, 1, 10})}).at(0), Shape{10});
}

/// The first sizes of all inputs are tried as one batch.
TEST(ImportTrials, FixTheFirstSizesOfAllInputsWithTheBatch) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 2});
  model.input("lengths", {-2});
  model.output("y");
  model.output("one_hot");
  model.constant<int64_t>("shape", {1}, {2});
  model.node("Reshape", {"x", "shape"}, {"y"});
  model.node("Hardmax", {"lengths"}, {"one_hot"});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(tensor_type_text(graph.input_types().at("x")), "float32 [1, 2]");
  EXPECT_EQ(tensor_type_text(graph.input_types().at("lengths")), "float32 [1]");
}

TEST(ImportTrials, TakeNoPositionsForSizes) {
  OnnxModelForTest model(17);
  model.input("x", {1, 5, 3});
  model.input("starts", {-1}, onnx::TensorProto::INT64);
  model.output("y");
  model.constant<int64_t>("ends", {1}, {std::numeric_limits<int64_t>::max() - 1});
  model.constant<int64_t>("axes", {1}, {2});
  model.node("Slice", {"x", "starts", "ends", "axes"}, {"y"});
  const Graph graph = import_onnx(model.write());
  const Tensor start = Tensor::from<int64_t>({1}, Ints{1});
  EXPECT_EQ(result_shapes(graph, {ones({1, 5, 3}), start}).at(0), (Shape{1, 5, 2}));
}

/// A trace of two sentences, each of a length of its own that the exporter wrote down.
TEST(ImportTrials, FixTheOpenSizesOfATraceOneByOne) {
  OnnxModelForTest model(17);
  model.input("source", {-1, -2});
  model.input("target", {-1, -3});
  model.output("y");
  model.output("z");
  model.constant<int64_t>("nine", {2}, Ints{9, -1});
  model.constant<int64_t>("seven", {2}, Ints{7, -1});
  model.node("Transpose", {"source"}, {"s"});
  model.node("Transpose", {"target"}, {"t"});
  model.node("Reshape", {"s", "nine"}, {"y"});
  model.node("Reshape", {"t", "seven"}, {"z"});
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(tensor_type_text(graph.input_types().at("source")), HasSubstr(", 9]"));
  EXPECT_THAT(tensor_type_text(graph.input_types().at("target")), HasSubstr(", 7]"));
  EXPECT_EQ(result_shapes(graph, {ones({3, 9}), ones({3, 7})}).at(1), (Shape{7, 3}));
}

TEST(ImportTrials, SayWhatHelpsANetworkThatTakesCertainSizesAlone) {
  const auto error_with = [](const char* op) {
    OnnxModelForTest model(17);
    model.input("x", {-1, -2, -3});
    model.output("y");
    model.constant<float>("weights", {1, 11, 13}, std::vector<float>(143, 1));
    model.node(op, {"x", "weights"}, {"y"});
    return error_of([&] { import_onnx(model.write()); });
  };
  const auto advises = HasSubstr("where it takes certain sizes alone, --shape NAME=... gives them");
  EXPECT_THAT(error_with("Mul"), testing::AllOf(HasSubstr("do not broadcast"), advises));
  EXPECT_THAT(error_with("Unheard"), testing::Not(advises));
}

}  // namespace
}  // namespace detent
