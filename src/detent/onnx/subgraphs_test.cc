#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/temporary_file_test.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/importer.h"

#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Branches, loops and sequences of ONNX models.

namespace detent {
namespace {

using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

Tensor floats(const Shape& shape, const Floats& values) { return Tensor::from(shape, values); }

/// By the reference and by the engine.
void expect_results(const OnnxModelForTest& model, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& expected) {
  const Graph graph = import_onnx(model.write());
  const std::vector<Tensor> got = IntegerExecutor().compile(graph)->run(inputs);
  const std::vector<Tensor> engine = FastProgram(graph).run(inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(got[i].equals(expected[i])) << i << ": " << shape_text(got[i].shape());
    EXPECT_TRUE(engine[i].equals(expected[i])) << i;
  }
}

std::string refusal_of_subgraph(const OnnxModelForTest& model) {
  return error_of([&] { import_onnx(model.write()); });
}

TEST(OnnxSubgraphs, BranchesAreChosenAtRunTime) {
  for (const Shape& shape : {Shape{}, Shape{1}}) {
    OnnxModelForTest model(17);
    model.input("x", {2});
    model.input("c", shape, kOnnxBool);
    model.output("y");
    model.output("z");
    model.node("If", {"c"}, {"y", "z"},
               {{"then_branch", onnx_body({}, {onnx_node("Neg", {"x"}, {"n"})}, {"n", "x"})},
                {"else_branch", onnx_body({}, {onnx_node("Add", {"x", "x"}, {"s"})}, {"s", "s"})}});
    const Tensor x = floats({2}, {1, -2});
    Tensor c(DType::kBool, shape);
    c.values<bool>()[0] = true;
    expect_results(model, {x, c}, {floats({2}, {-1, 2}), x});
    Tensor otherwise(DType::kBool, shape);
    otherwise.values<bool>()[0] = false;
    expect_results(model, {x, otherwise}, {floats({2}, {2, -4}), floats({2}, {2, -4})});
  }
}

/// x, or its columns twice.
void add_branches_of_other_shapes(OnnxModelForTest& model) {
  model.input("x", {2, 3});
  model.input("c", {}, kOnnxBool);
  model.output("y");
  model.node("If", {"c"}, {"y"},
             {{"then_branch", onnx_body({}, {onnx_node("Identity", {"x"}, {"n"})}, {"n"})},
              {"else_branch", onnx_body({},
                                        {onnx_node("Transpose", {"x"}, {"t"}),
                                         onnx_node("Concat", {"t", "t"}, {"u"}, {{"axis", 1}})},
                                        {"u"})}});
}

Tensor condition_of(bool holds) {
  Tensor c(DType::kBool, {});
  c.values<bool>()[0] = holds;
  return c;
}

TEST(OnnxSubgraphs, BranchesOfOtherShapesAreComputedAsTheyAreChosen) {
  OnnxModelForTest model(17);
  add_branches_of_other_shapes(model);
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_results(model, {x, condition_of(true)}, {x});
  expect_results(model, {x, condition_of(false)}, {floats({3, 4}, {1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6})});
  const TemporaryPath exported("branches.onnx");
  export_onnx(import_onnx(model.write()), exported.get(), {});
  EXPECT_TRUE(FastProgram(import_onnx(exported.get())).run({{x, condition_of(true)}})[0].equals(x));
}

/// A sum that would divide by 0 in the other branch.
TEST(OnnxSubgraphs, ABranchThatIsNotChosenMayFail) {
  OnnxModelForTest model(17);
  model.input("x", {2, 1}, kOnnxInt64);
  model.input("c", {}, kOnnxBool);
  model.output("y", {}, kOnnxInt64);
  model.constant<int64_t>("three", {3, 1}, {6, 6, 6});
  model.node("If", {"c"}, {"y"},
             {{"then_branch", onnx_body({},
                                        {onnx_node("Concat", {"x", "x"}, {"xx"}, {{"axis", 1}}),
                                         onnx_node("Div", {"xx", "x"}, {"q"})},
                                        {"q"})},
              {"else_branch", onnx_body({}, {onnx_node("Identity", {"three"}, {"t"})}, {"t"})}});
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const Tensor zeros = Tensor::from<int64_t>({2, 1}, {0, 0});
  expect_results(model, {zeros, condition_of(false)}, {Tensor::from<int64_t>({3, 1}, {6, 6, 6})});
}

/// The network goes on with the rank that the model declares, or that of the first branch.
TEST(OnnxSubgraphs, BranchesOfOtherRanksMustBeChosen) {
  for (const bool declares : {false, true}) {
    OnnxModelForTest model(17);
    model.constant<int64_t>("dims", {1}, {0});
    model.input("x", {2});
    model.input("c", {}, kOnnxBool);
    model.output("y", {1, 2}, declares ? onnx::TensorProto::FLOAT : onnx::TensorProto::UNDEFINED);
    model.node("If", {"c"}, {"y"},
               {{"then_branch", onnx_body({}, {onnx_node("Identity", {"x"}, {"n"})}, {"n"})},
                {"else_branch", onnx_body({}, {onnx_node("Unsqueeze", {"x", "dims"}, {"u"})}, {"u"})}});
    const Tensor x = floats({2}, {1, -2});
    expect_results(model, {x, condition_of(!declares)}, {declares ? floats({1, 2}, {1, -2}) : x});
    const Graph graph = import_onnx(model.write());
    EXPECT_THAT(error_of([&] {
                  FastProgram(graph).run({{x, condition_of(declares)}});
                }),
                HasSubstr(declares ? "the then branch, which its condition chooses, gives 1 dimensions"
                                   : "the else branch, which its condition chooses, gives 2 dimensions"));
  }
}

/// As torchvision suppresses boxes: none where there are none, else those at positions that are found.
TEST(OnnxSubgraphs, BranchesOfOtherSizesAreChosenAtRunTime) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("none", {0}, {});
  model.constant<int64_t>("axis", {1}, {0});
  model.input("x", {4});
  model.input("c", {}, kOnnxBool);
  model.output("y");
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(kOnnxInt64);
  model.node("If", {"c"}, {"y"},
             {{"then_branch", onnx_body({}, {onnx_node("Identity", {"none"}, {"n"})}, {"n"})},
              {"else_branch",
               onnx_body({}, {onnx_node("NonZero", {"x"}, {"p"}), onnx_node("Squeeze", {"p", "axis"}, {"s"})},
                         {"s"})}});
  for (const bool holds : {false, true}) {
    Tensor c(DType::kBool, {});
    c.values<bool>()[0] = holds;
    const Tensor found = Tensor::from<int64_t>({2}, {1, 3});
    expect_results(model, {floats({4}, {0, 5, 0, -1}), c}, {holds ? Tensor(DType::kInt64, {0}) : found});
  }
}

/// Adds x to what it carries, and gives the iteration times x.
void add_summing_loop(OnnxModelForTest& model) {
  model.constant<int64_t>("most", {}, {3});
  model.constant<float>("zero", {2}, {0, 0});
  model.input("x", {2});
  model.output("sum");
  model.output("all");
  model.node("Loop", {"most", "", "zero"}, {"sum", "all"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Add", {"before", "x"}, {"after"}),
                                  onnx_node("Cast", {"i"}, {"number"}, {{"to", 1}}),
                                  onnx_node("Mul", {"number", "x"}, {"product"})},
                                 {"go", "after", "product"})}});
}

TEST(OnnxSubgraphs, LoopsAreWrittenOut) {
  OnnxModelForTest model(17);
  add_summing_loop(model);
  expect_results(model, {floats({2}, {1, -2})},
                 {floats({2}, {3, -6}), floats({3, 2}, {0, -0.0F, 1, -2, 2, -4})});
}

TEST(OnnxSubgraphs, LoopsEndWhereAKnownConditionFails) {
  OnnxModelForTest model(17);
  add_summing_loop(model);
  model.constant<int64_t>("last", {}, {1});
  onnx::NodeProto& loop = *model.graph().mutable_node(0);
  onnx::GraphProto& graph = *loop.mutable_attribute(0)->mutable_g();
  *graph.add_node() = onnx_node("Less", {"i", "last"}, {"again"});
  graph.mutable_output(0)->set_name("again");
  loop.set_input(0, "");
  expect_results(model, {floats({2}, {1, -2})}, {floats({2}, {2, -4}), floats({2, 2}, {0, -0.0F, 1, -2})});
}

/// Doubles x while its first element is below 10.
void add_doubling_loop(OnnxModelForTest& model, int64_t most = 6) {
  model.constant<int64_t>("most", {}, {most});
  model.constant<int64_t>("first", {}, {0});
  model.constant<float>("limit", {}, {10});
  model.input("x", {2});
  model.output("y");
  model.node("Gather", {"x", "first"}, {"start"});
  model.node("Less", {"start", "limit"}, {"begins"});
  model.node("Loop", {"most", "begins", "x"}, {"y"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Add", {"before", "before"}, {"after"}),
                                  onnx_node("Gather", {"after", "first"}, {"value"}),
                                  onnx_node("Less", {"value", "limit"}, {"again"})},
                                 {"again", "after"})}});
}

TEST(OnnxSubgraphs, LoopsEndWhereAComputedConditionFails) {
  OnnxModelForTest model(17);
  add_doubling_loop(model);
  for (const auto& [x, y] : {std::pair{1.0F, 16.0F}, {12.0F, 12.0F}, {9.0F, 18.0F}, {-1.0F, -64.0F}})
    expect_results(model, {floats({2}, {x, 1})}, {floats({2}, {y, y / x})});
}

/// Whether an iteration still runs is a value that follows from that of all iterations before it.
TEST(OnnxSubgraphs, IterationsSeekConstantsAsOftenAsThoseBefore) {
  std::vector<size_t> sought;
  for (const int64_t most : {10, 20, 40}) {
    OnnxModelForTest model(17);
    add_doubling_loop(model, most);
    OnnxModelFile file(model.write());
    const OnnxImportOptions options;
    OnnxImporter importer(file, options, {});
    importer.run();
    sought.push_back(importer.constants_sought());
  }
  EXPECT_EQ(sought[2] - sought[1], 2 * (sought[1] - sought[0]));
}

/// As `while value < 10 and count < 3` is exported: no bound of iterations but the counter's.
TEST(OnnxSubgraphs, LoopsEndWhereACounterDoes) {
  OnnxModelForTest model(17);
  model.constant<float>("limit", {}, {10});
  model.constant<int64_t>("first", {}, {0});
  model.constant<int64_t>("one", {}, {1});
  model.constant<int64_t>("three", {}, {3});
  model.input("x", {2});
  model.output("y");
  model.output("count");
  model.graph().mutable_output(1)->mutable_type()->mutable_tensor_type()->set_elem_type(kOnnxInt64);
  model.node("Gather", {"x", "first"}, {"start"});
  model.node("Less", {"start", "limit"}, {"begins"});
  model.node("Loop", {"", "begins", "x", "first"}, {"y", "count"},
             {{"body", onnx_body({"i", "go", "before", "n"},
                                 {onnx_node("Add", {"before", "before"}, {"after"}),
                                  onnx_node("Add", {"n", "one"}, {"next"}),
                                  onnx_node("Gather", {"after", "first"}, {"value"}),
                                  onnx_node("Less", {"value", "limit"}, {"low"}),
                                  onnx_node("Less", {"next", "three"}, {"few"}),
                                  onnx_node("And", {"low", "few"}, {"again"})},
                                 {"again", "after", "next"})}});
  using Case = std::tuple<float, float, int64_t>;
  for (const auto& [x, y, count] : {Case{1, 8, 3}, Case{12, 12, 0}, Case{6, 12, 1}, Case{-1, -8, 3}}) {
    expect_results(model, {floats({2}, {x, 1})},
                   {floats({2}, {y, y / x}), Tensor::from<int64_t>({}, {count})});
  }
}

/// Over the first dimension, which is the batch of other networks.
TEST(OnnxSubgraphs, LoopsOverAnOpenSizeTakeAGivenOne) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("first", {}, {0});
  model.constant<float>("zero", {2}, {0, 0});
  model.input("x", {-1, 2});
  model.output("y");
  model.node("Shape", {"x"}, {"sizes"});
  model.node("Gather", {"sizes", "first"}, {"count"});
  model.node("Loop", {"count", "", "zero"}, {"y"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Gather", {"x", "i"}, {"row"}),
                                  onnx_node("Add", {"before", "row"}, {"after"})},
                                 {"go", "after"})}});
  const Graph graph = import_onnx(model.write(), {.shapes = {{"x", {3, 2}}}});
  const std::vector<Tensor> inputs = {floats({3, 2}, {1, 2, 3, 4, 5, 6})};
  const std::vector<Tensor> results = IntegerExecutor().compile(graph)->run(inputs);
  EXPECT_TRUE(results[0].equals(floats({2}, {9, 12})));
  EXPECT_EQ(std::ranges::count(graph.nodes(), "add", &Node::op), 3);
  const Graph open = import_onnx(model.write());
  EXPECT_EQ(std::ranges::count(open.nodes(), "loop", &Node::op), 1);
  EXPECT_TRUE(IntegerExecutor().compile(open)->run(inputs)[0].equals(floats({2}, {9, 12})));
}

TEST(OnnxSubgraphs, ScansTakeInputsApart) {
  OnnxModelForTest model(17);
  model.constant<float>("zero", {2}, {0, 0});
  model.input("x", {2, 3});
  model.output("sum");
  model.output("all");
  model.node("Scan", {"zero", "x"}, {"sum", "all"},
             {{"body", onnx_body({"before", "part"}, {onnx_node("Add", {"before", "part"}, {"after"})},
                                 {"after", "after"})},
              {"num_scan_inputs", 1},
              {"scan_input_axes", Ints{1}},
              {"scan_input_directions", Ints{1}},
              {"scan_output_axes", Ints{1}},
              {"scan_output_directions", Ints{1}}});
  expect_results(model, {floats({2, 3}, {1, 2, 3, 10, 20, 30})},
                 {floats({2}, {6, 60}), floats({2, 3}, {6, 5, 3, 60, 50, 30})});
}

TEST(OnnxSubgraphs, SequencesOfTensors) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("last", {}, {-1});
  model.constant<int64_t>("two", {}, {2});
  model.input("x", {3, 2});
  for (const char* output : {"joined", "at", "length", "mapped"}) model.output(output);
  model.graph().mutable_output(2)->mutable_type()->mutable_tensor_type()->set_elem_type(kOnnxInt64);
  model.node("SplitToSequence", {"x", "two"}, {"parts"}, {{"axis", 0}});
  model.node("SequenceInsert", {"parts", "x"}, {"more"});
  model.node("SequenceErase", {"more", "last"}, {"again"});
  model.node("ConcatFromSequence", {"again"}, {"joined"}, {{"axis", 0}});
  model.node("SequenceAt", {"parts", "last"}, {"at"});
  model.node("SequenceLength", {"more"}, {"length"});
  model.node("SequenceMap", {"parts"}, {"negative"},
             {{"body", onnx_body({"p"}, {onnx_node("Neg", {"p"}, {"n"})}, {"n"})}});
  model.node("ConcatFromSequence", {"negative"}, {"mapped"}, {{"axis", 0}});
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  expect_results(
      model, {x},
      {x, floats({1, 2}, {5, 6}), Tensor::from<int64_t>({}, {3}), floats({3, 2}, {-1, -2, -3, -4, -5, -6})});
}

TEST(OnnxSubgraphs, ASequenceIsNoTensor) {
  OnnxModelForTest model(17);
  model.input("x", {3, 2});
  model.output("y");
  model.node("SequenceConstruct", {"x", "x"}, {"parts"});
  model.node("Neg", {"parts"}, {"y"});
  EXPECT_THAT(refusal_of_subgraph(model), HasSubstr("input 0 is a sequence of tensors, expected a tensor"));
  model.graph().mutable_node(1)->set_op_type("Identity");
  EXPECT_THAT(refusal_of_subgraph(model), HasSubstr("output \"y\": is a sequence of tensors"));
  model.graph().mutable_node(1)->set_op_type("SequenceAt");
  model.graph().mutable_node(1)->add_input("position");
  model.constant<int64_t>("position", {}, {2});
  EXPECT_THAT(refusal_of_subgraph(model), HasSubstr("position 2 of a sequence of 2 tensors"));
}

}  // namespace
}  // namespace detent
