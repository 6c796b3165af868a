#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/graph_parameters.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/export_onnx.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Loops whose number of iterations only a run knows.

namespace detent {
namespace {

using testing::Contains;
using testing::HasSubstr;

Tensor row(const std::vector<float>& values) { return Tensor::from(Shape{std::ssize(values)}, values); }
Tensor count_of(int64_t value) { return Tensor::from<int64_t>({}, std::vector{value}); }
Tensor truth(bool value) {
  Tensor tensor(DType::kBool, {});
  tensor.values<bool>()[0] = value;
  return tensor;
}

/// As imported, as stored, and as exported and imported again; by reference and engine.
void expect_everywhere(const Graph& graph, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& expected) {
  const TemporaryPath stored("kept.mz");
  const TemporaryPath exported("kept.onnx");
  write_graph(stored.get(), graph);
  export_onnx(graph, exported.get(), {});
  const Graph read = read_graph(stored.get());
  EXPECT_EQ(network_fingerprint(read), network_fingerprint(graph));
  for (const Graph& each : {graph, graph.deep_copy(), read, import_onnx(exported.get())}) {
    const std::vector<Tensor> results = IntegerExecutor().compile(each)->run(inputs);
    const std::vector<Tensor> engine = FastProgram(each).run(inputs);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(results[i].equals(expected[i])) << i << ": " << shape_text(results[i].shape());
      EXPECT_TRUE(engine[i].equals(expected[i])) << i << ": " << shape_text(engine[i].shape());
    }
  }
}

size_t loop_count(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count(graph.nodes(), "loop", &Node::op));
}

/// Adds x, `count` times, and gives the sums on the way.
void add_counted_loop(OnnxModelForTest& model) {
  model.constant<float>("zero", {2}, {0, 0});
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  model.output("sum");
  model.output("all");
  model.node("Loop", {"count", "", "zero"}, {"sum", "all"},
             {{"body", onnx_body({"i", "go", "before"}, {onnx_node("Add", {"before", "x"}, {"after"})},
                                 {"go", "after", "after"})}});
}

TEST(KeptLoops, RunAsOftenAsAnInputSays) {
  OnnxModelForTest model(17);
  add_counted_loop(model);
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(loop_count(graph), 1U);
  const Tensor x = row({1, -2});
  expect_everywhere(graph, {x, count_of(2)},
                    {row({2, -4}), Tensor::from(Shape{2, 2}, std::vector<float>{1, -2, 2, -4})});
  for (const int64_t none : {0, -3})
    expect_everywhere(graph, {x, count_of(none)}, {row({0, 0}), Tensor(DType::kFloat32, {0, 2})});
}

/// ONNX Runtime wants a name for the condition, if an empty one, where nothing is carried either.
TEST(KeptLoops, MayCarryNothing) {
  OnnxModelForTest model(17);
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  model.output("all");
  model.node("Loop", {"count", ""}, {"all"},
             {{"body", onnx_body({"i", "go"},
                                 {onnx_node("Cast", {"i"}, {"number"}, {{"to", 1}}),
                                  onnx_node("Mul", {"x", "number"}, {"y"})},
                                 {"go", "y"})}});
  const Graph graph = import_onnx(model.write());
  expect_everywhere(graph, {row({1, -2}), count_of(2)},
                    {Tensor::from(Shape{2, 2}, std::vector<float>{0, -0.0F, 1, -2})});
  const TemporaryPath exported("kept.onnx");
  export_onnx(graph, exported.get(), {});
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(read_file(exported.get())));
  const auto& loop = *std::ranges::find(proto.graph().node(), "Loop", &onnx::NodeProto::op_type);
  EXPECT_EQ(loop.input_size(), 2);
}

/// Doubles x while it is below `limit`.
TEST(KeptLoops, EndWhereAComputedConditionFails) {
  OnnxModelForTest model(17);
  model.input("x", {});
  model.input("limit", {});
  model.input("begins", {}, kOnnxBool);
  model.output("y");
  model.output("all");
  model.node("Loop", {"", "begins", "x"}, {"y", "all"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Add", {"before", "before"}, {"after"}),
                                  onnx_node("Less", {"after", "limit"}, {"again"})},
                                 {"again", "after", "before"})}});
  const Graph graph = import_onnx(model.write());
  const auto number = [](float value) { return Tensor::from(Shape{}, std::vector{value}); };
  expect_everywhere(graph, {number(1), number(5), truth(true)}, {number(8), row({1, 2, 4})});
  expect_everywhere(graph, {number(7), number(5), truth(true)}, {number(14), row({7})});
  expect_everywhere(graph, {number(1), number(5), truth(false)}, {number(1), row({})});
}

/// A list that grows by x, whose size is open too, with each iteration.
TEST(KeptLoops, CarriedValuesMayChangeTheirSizes) {
  OnnxModelForTest model(17);
  model.constant<float>("none", {0}, {});
  model.input("x", {-1});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  model.node("Loop", {"count", "", "none"}, {"y"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Concat", {"before", "x"}, {"after"}, {{"axis", 0}})},
                                 {"go", "after"})}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(infer_shapes(graph).at("output").shape, Shape{kOpenSize});
  expect_everywhere(graph, {row({1, 2}), count_of(2)}, {row({1, 2, 1, 2})});
  constexpr int64_t kMoreThanPlans = 12;  // of the engine, each for other sizes
  expect_everywhere(graph, {row({1}), count_of(kMoreThanPlans)},
                    {row(std::vector<float>(kMoreThanPlans, 1))});
  expect_everywhere(graph, {row({3}), count_of(0)}, {row({})});
}

/// Carries a number that each iteration after the first finds as a list, and gives the sums on the way.
void add_loop_of_another_rank(OnnxModelForTest& model, const std::string& condition) {
  model.constant<float>("zero", {}, {0});
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  if (!condition.empty()) model.input(condition, {}, kOnnxBool);
  model.output("sum");
  model.output("all");
  model.node("Loop", {"count", condition, "zero"}, {"sum", "all"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("Cast", {"i"}, {"number"}, {{"to", onnx::TensorProto::FLOAT}}),
                                  onnx_node("Add", {"before", "x"}, {"added"}),
                                  onnx_node("Add", {"added", "number"}, {"after"})},
                                 {"go", "after", "after"})}});
}

TEST(KeptLoops, CarriedValuesMayGetAnotherRank) {
  OnnxModelForTest model(17);
  add_loop_of_another_rank(model, "");
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(loop_count(graph), 1U);
  const Tensor x = row({1, -2});
  expect_everywhere(graph, {x, count_of(3)},
                    {row({6, -3}), Tensor::from(Shape{3, 2}, std::vector<float>{1, -2, 3, -3, 6, -3})});
  expect_everywhere(graph, {x, count_of(1)}, {x, Tensor::from(Shape{1, 2}, std::vector<float>{1, -2})});
  EXPECT_THAT(error_of([&] {
                IntegerExecutor().compile(graph)->run({{x, count_of(0)}});
              }),
              HasSubstr("ends before iteration 1, in which a carried value gets another type or number"));
}

TEST(KeptLoops, AnotherRankMayHangOnACondition) {
  OnnxModelForTest model(17);
  add_loop_of_another_rank(model, "begins");
  const Graph graph = import_onnx(model.write());
  const Tensor x = row({1, -2});
  expect_everywhere(graph, {x, count_of(2), truth(true)},
                    {row({3, -3}), Tensor::from(Shape{2, 2}, std::vector<float>{1, -2, 3, -3})});
  EXPECT_THAT(error_of([&] {
                FastProgram(graph).run({{x, count_of(2), truth(false)}});
              }),
              HasSubstr("ends before iteration 1"));
}

/// A loop of i + 1 iterations within each, with a branch.
TEST(KeptLoops, HoldLoopsAndBranches) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("one", {}, {1});
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  const auto inner = onnx_body({"j", "stay", "u"}, {onnx_node("Add", {"u", "x"}, {"w"})}, {"stay", "w"});
  const auto negative = onnx_body({}, {onnx_node("Neg", {"sum"}, {"minus"})}, {"minus"});
  const auto same = onnx_body({}, {onnx_node("Identity", {"sum"}, {"plus"})}, {"plus"});
  model.node(
      "Loop", {"count", "", "x"}, {"y"},
      {{"body",
        onnx_body({"i", "go", "v"},
                  {onnx_node("Add", {"i", "one"}, {"times"}),
                   onnx_node("Loop", {"times", "", "v"}, {"sum"}, {{"body", inner}}),
                   onnx_node("Equal", {"i", "one"}, {"second"}),
                   onnx_node("If", {"second"}, {"next"}, {{"then_branch", negative}, {"else_branch", same}})},
                  {"go", "next"})}});
  const Graph graph = import_onnx(model.write());
  // 1 + 1, -(2 + 2), -4 + 3
  expect_everywhere(graph, {row({1, 10}), count_of(3)}, {row({-1, -10})});
}

TEST(KeptLoops, ScanAlongAnOpenSize) {
  OnnxModelForTest model(17);
  model.constant<float>("zero", {2}, {0, 0});
  model.input("x", {2, -1});
  model.output("sum");
  model.output("all");
  model.node("Scan", {"zero", "x"}, {"sum", "all"},
             {{"body", onnx_body({"before", "part"}, {onnx_node("Add", {"before", "part"}, {"after"})},
                                 {"after", "after"})},
              {"num_scan_inputs", 1},
              {"scan_input_axes", std::vector<int64_t>{1}},
              {"scan_input_directions", std::vector<int64_t>{1}},
              {"scan_output_axes", std::vector<int64_t>{1}},
              {"scan_output_directions", std::vector<int64_t>{1}}});
  expect_everywhere(import_onnx(model.write()),
                    {Tensor::from(Shape{2, 3}, std::vector<float>{1, 2, 3, 10, 20, 30})},
                    {row({6, 60}), Tensor::from(Shape{2, 3}, std::vector<float>{6, 5, 3, 60, 50, 30})});
}

/// As a list that a script appends to is exported.
TEST(KeptLoops, AppendToLists) {
  for (const bool stacks : {false, true}) {
    OnnxModelForTest model(17);
    model.input("x", {2});
    model.input("count", {}, kOnnxInt64);
    model.output("y");
    model.node("SequenceConstruct", {"x"}, {"begin"});
    model.node("Loop", {"count", "", "x", "begin"}, {"last", "list"},
               {{"body", onnx_body({"i", "go", "v", "before"},
                                   {onnx_node("Add", {"v", "x"}, {"w"}),
                                    onnx_node("SequenceInsert", {"before", "w"}, {"after"})},
                                   {"go", "w", "after"})}});
    model.node("ConcatFromSequence", {"list"}, {"y"},
               {{"axis", stacks ? 1 : 0}, {"new_axis", stacks ? 1 : 0}});
    const std::vector<float> rows = {1, -2, 2, -4, 3, -6};
    const std::vector<float> columns = {1, 2, 3, -2, -4, -6};
    const Tensor expected = stacks ? Tensor::from(Shape{2, 3}, columns) : row(rows);
    expect_everywhere(import_onnx(model.write()), {row({1, -2}), count_of(2)}, {expected});
  }
}

/// More rows than a node joins, as of a search for the nearest of many.
TEST(KeptLoops, JoinResultsOfManyIterations) {
  constexpr int64_t kRows = 5000;
  OnnxModelForTest model(17);
  model.constant<float>("rows", {kRows, 1}, std::vector<float>(kRows, 0.5F));
  model.input("x", {1});
  model.output("y");
  model.output("n");
  model.constant<int64_t>("count", {}, {kRows});
  model.node(
      "Scan", {"rows"}, {"y"},
      {{"num_scan_inputs", 1}, {"body", onnx_body({"row"}, {onnx_node("Sub", {"x", "row"}, {"z"})}, {"z"})}});
  model.node("Loop", {"count", ""}, {"n"},
             {{"body", onnx_body({"i", "go"}, {onnx_node("Add", {"x", "x"}, {"z"})}, {"go", "z"})}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(loop_count(graph), 2U);
  const auto column = [&](float value) {
    return Tensor::from(Shape{kRows, 1}, std::vector<float>(kRows, value));
  };
  expect_everywhere(graph, {row({2})}, {column(1.5F), column(4)});
}

/// As the rows of a tensor are repeated, each as often as another one says.
TEST(KeptLoops, RepeatRows) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("one", {1}, {1});
  model.constant<int64_t>("width", {1}, {2});
  model.constant<int64_t>("second", {1}, {1});
  model.constant<int64_t>("flat", {2}, {-1, 2});
  model.input("x", {-1, 2});
  model.input("times", {-1}, kOnnxInt64);
  model.output("y");
  model.node("Shape", {"times"}, {"count"});
  model.node("ConstantOfShape", {"count"}, {"ones"}, {{"value", onnx_tensor<int64_t>("", {1}, {1})}});
  model.node("SplitToSequence", {"times", "ones"}, {"each"}, {{"axis", 0}});
  model.node("SplitToSequence", {"x", "ones"}, {"rows"}, {{"axis", 0}});
  model.node("SequenceEmpty", {}, {"empty"});
  const auto body = onnx_body(
      {"i", "go", "before"},
      {onnx_node("SequenceAt", {"each", "i"}, {"often"}), onnx_node("SequenceAt", {"rows", "i"}, {"row"}),
       onnx_node("Unsqueeze", {"row", "second"}, {"taller"}),
       onnx_node("Concat", {"one", "often", "width"}, {"shape"}, {{"axis", 0}}),
       onnx_node("Expand", {"taller", "shape"}, {"repeated"}),
       onnx_node("Reshape", {"repeated", "flat"}, {"part"}),
       onnx_node("SequenceInsert", {"before", "part"}, {"after"})},
      {"go", "after"});
  model.node("Loop", {"count", "", "empty"}, {"list"}, {{"body", body}});
  model.node("ConcatFromSequence", {"list"}, {"y"}, {{"axis", 0}});
  const Graph graph = import_onnx(model.write());
  EXPECT_EQ(loop_count(graph), 1U);
  const Tensor x = Tensor::from(Shape{3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto often = [](const std::vector<int64_t>& times) { return Tensor::from<int64_t>({3}, times); };
  expect_everywhere(graph, {x, often({2, 0, 1})},
                    {Tensor::from(Shape{3, 2}, std::vector<float>{1, 2, 1, 2, 5, 6})});
  expect_everywhere(graph, {x, often({0, 1, 0})}, {Tensor::from(Shape{1, 2}, std::vector<float>{3, 4})});
}

/// In which a loop within reads what only the graph around has.
TEST(KeptLoops, HoldLoopsThatReadFarValues) {
  OnnxModelForTest model(17);
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  const auto inner = onnx_body({"j", "stay", "u"}, {onnx_node("Add", {"u", "x"}, {"w"})}, {"stay", "w"});
  model.node("Loop", {"count", "", "x"}, {"y"},
             {{"body", onnx_body({"i", "go", "v"},
                                 {onnx_node("Loop", {"count", "", "v"}, {"next"}, {{"body", inner}})},
                                 {"go", "next"})}});
  expect_everywhere(import_onnx(model.write()), {row({1, -2}), count_of(2)}, {row({5, -10})});
}

TEST(KeptLoops, ReadNoListsThatTheyAppendTo) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("last", {}, {-1});
  model.input("x", {2});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  model.node("SequenceConstruct", {"x"}, {"begin"});
  model.node("Loop", {"count", "", "begin"}, {"list"},
             {{"body", onnx_body({"i", "go", "before"},
                                 {onnx_node("SequenceAt", {"before", "last"}, {"v"}),
                                  onnx_node("SequenceInsert", {"before", "v"}, {"after"})},
                                 {"go", "after"})}});
  model.node("ConcatFromSequence", {"list"}, {"y"}, {{"axis", 0}});
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("is a sequence whose length only a run knows"));
}

/// x W, again and again: the weight is the body's.
void add_multiplying_loop(OnnxModelForTest& model) {
  model.constant<float>("layer.weight", {2, 2}, {0, 1, 2, 0});
  model.input("x", {1, 2});
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  model.node("Loop", {"count", "", "x"}, {"y"},
             {{"body", onnx_body({"i", "go", "v"}, {onnx_node("MatMul", {"v", "layer.weight"}, {"w"})},
                                 {"go", "w"})}});
}

TEST(KeptLoops, HaveParameters) {
  OnnxModelForTest model(17);
  add_multiplying_loop(model);
  Graph graph = import_onnx(model.write());
  EXPECT_EQ(graph.parameter_count(), 4);
  const auto matrix = [](float a, float b) { return Tensor::from(Shape{1, 2}, std::vector{a, b}); };
  expect_everywhere(graph, {matrix(1, 3), count_of(3)}, {matrix(12, 2)});
  StateDict state = state_dict(graph);
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].first, "y_node.layer.weight");
  const Graph before = graph;
  state[0].second = Tensor::from(Shape{2, 2}, std::vector<float>{1, 0, 0, 1});
  load_state_dict(graph, state, "test");
  EXPECT_NE(network_fingerprint(graph), network_fingerprint(before));
  expect_everywhere(graph, {matrix(1, 3), count_of(3)}, {matrix(1, 3)});
  expect_everywhere(before, {matrix(1, 3), count_of(1)}, {matrix(6, 1)});
}

TEST(KeptLoops, ErrorsNameTheLoopAndTheNode) {
  OnnxModelForTest model(17);
  model.input("x", {}, kOnnxInt64);
  model.input("count", {}, kOnnxInt64);
  model.output("y", {}, kOnnxInt64);
  model.node("Loop", {"count", "", "x"}, {"y"},
             {{"body", onnx_body({"i", "go", "v"}, {onnx_node("Div", {"v", "i"}, {"w"})}, {"go", "w"})}});
  const Graph graph = import_onnx(model.write());
  for (const std::string& message : {error_of([&] {
                                       IntegerExecutor().compile(graph)->run({{count_of(6), count_of(1)}});
                                     }),
                                     error_of([&] {
                                       FastProgram(graph).run({{count_of(6), count_of(1)}});
                                     })})
    EXPECT_THAT(message, HasSubstr("node \"y_node\" (loop): iteration 0: node \"w_node\" (div)"));
}

std::string refused_loop(const OnnxModelForTest& model) {
  return error_of([&] { import_onnx(model.write()); });
}

TEST(KeptLoops, ThatNothingEndsAreRefused) {
  OnnxModelForTest model(17);
  model.input("x", {2});
  model.output("y");
  model.node("Loop", {"", "", "x"}, {"y"},
             {{"body", onnx_body({"i", "go", "v"}, {onnx_node("Neg", {"v"}, {"w"})}, {"go", "w"})}});
  EXPECT_THAT(refused_loop(model), HasSubstr("nothing ends the loop"));
}

/// Within a loop one that a condition ends, which is written out in vain before it is kept.
TEST(KeptLoops, ReadTwoGraphsFurtherOut) {
  OnnxModelForTest model(17);
  model.constant<int64_t>("one", {}, {1});
  model.constant<float>("none", {2}, {0, 0});
  model.input("x", {-1, 2});
  model.input("ends", {-1}, kOnnxInt64);
  model.input("count", {}, kOnnxInt64);
  model.output("y");
  const auto inner =
      onnx_body({"k", "stay", "j", "u"},
                {onnx_node("Gather", {"x", "j"}, {"row"}), onnx_node("Add", {"u", "row"}, {"w"}),
                 onnx_node("Add", {"j", "one"}, {"next"}), onnx_node("Less", {"next", "end"}, {"on"})},
                {"on", "next", "w"});
  model.node(
      "Loop", {"count", ""}, {"y"},
      {{"body",
        onnx_body({"i", "go"},
                  {onnx_node("Gather", {"ends", "i"}, {"end"}), onnx_node("Less", {"i", "end"}, {"begins"}),
                   onnx_node("Loop", {"", "begins", "i", "none"}, {"last", "sum"}, {{"body", inner}})},
                  {"go", "sum"})}});
  const Tensor x = Tensor::from(Shape{3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  expect_everywhere(import_onnx(model.write()),
                    {x, Tensor::from(Shape{3}, std::vector<int64_t>{3, 1, 3}), count_of(3)},
                    {Tensor::from(Shape{3, 2}, std::vector<float>{9, 12, 0, 0, 5, 6})});
}

TEST(KeptLoops, OfOtherRanksAreRefused) {
  OnnxModelForTest model(17);
  add_counted_loop(model);
  model.constant<int64_t>("axis", {1}, {0});
  onnx::GraphProto& body = *model.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  *body.add_node() = onnx_node("Unsqueeze", {"after", "axis"}, {"more"});
  body.mutable_output(1)->set_name("more");
  EXPECT_THAT(refused_loop(model),
              HasSubstr("a carried value changes its type or number of dimensions in every iteration"));
}

TEST(KeptLoops, AreVerified) {
  OnnxModelForTest model(17);
  add_counted_loop(model);
  const Graph graph = import_onnx(model.write());
  const auto error_with = [&](const auto& change) {
    Graph changed = graph;
    const auto loop = std::ranges::find(changed.nodes(), "loop", &Node::op);
    change(*loop);
    return error_of([&] { verify(changed); });
  };
  EXPECT_THAT(error_with([](Node& loop) { loop.body = nullptr; }), HasSubstr("(loop): has no body"));
  EXPECT_THAT(error_with([](Node& loop) { loop.inputs.pop_back(); }), HasSubstr("and a body of 4 inputs"));
  EXPECT_THAT(error_with([](Node& loop) { loop.attributes["carried"] = Value(int64_t{5}); }),
              HasSubstr("of which 5 are carried"));
  EXPECT_THAT(error_with([](Node& loop) {
                Graph body = *loop.body;
                body.nodes().back().inputs[0] = body.nodes().back().inputs[1];
                loop.body = std::make_shared<const Graph>(std::move(body));
              }),
              HasSubstr("gives a condition of float32 [2], expected one bool"));
  EXPECT_THAT(error_with([](Node& loop) {
                Graph body = *loop.body;
                body.nodes().back().inputs.push_back(NodeInput::of("nothing"));
                loop.body = std::make_shared<const Graph>(std::move(body));
              }),
              HasSubstr("in its body: node \"output\" reads \"nothing\""));
}

}  // namespace
}  // namespace detent
