#include "detent/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// x [1, 4] -> linear 4 -> 3 -> relu -> output
Graph small_graph() {
  GraphBuilder builder("small");
  NodeInput x = builder.input("x", {4});
  x = builder.linear("layers.0", x, 4, 3);
  x = builder.call("relu", {x});
  return builder.finish(x);
}

Shape result_of(const std::string& op, const Shape& input, Table attributes,
                std::vector<NodeInput> more = {}) {
  GraphBuilder builder("one");
  std::vector<NodeInput> inputs = {builder.input("x", {input.begin() + 1, input.end()})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  const Graph graph = builder.finish(builder.call(op, std::move(inputs), std::move(attributes)));
  return infer_shapes(graph, input[0]).at("output").shape;
}

TEST(Operators, AreSortedUniqueAndDocumented) {
  std::string previous;
  for (const OperatorSchema& schema : all_operators()) {
    EXPECT_LT(previous, schema.name);
    EXPECT_FALSE(schema.help.empty()) << schema.name;
    EXPECT_NE(static_cast<bool>(schema.infer), static_cast<bool>(schema.infer_results)) << schema.name;
    EXPECT_EQ(&find_operator(schema.name), &schema);
    previous = schema.name;
  }
  EXPECT_THAT(error_of([] { find_operator("con2d"); }), HasSubstr("did you mean \"conv2d\"?"));
}

TEST(Graph, RenamesNodesWhereTheyAreRead) {
  Graph graph = small_graph();
  graph.rename("layers_0", "first");
  graph.rename("x", "samples");
  verify(graph);
  EXPECT_THAT(graph.node_names(), ElementsAre("samples", "first", "relu", "output"));
  EXPECT_EQ(graph.node("relu").inputs[0].node, "first");
  EXPECT_EQ(graph.position("first"), 1U);
  EXPECT_EQ(graph.find("layers_0"), nullptr);
  EXPECT_TRUE(graph.input_types().contains("samples"));
  EXPECT_THAT(error_of([&] { graph.rename("first", "relu"); }),
              HasSubstr("node \"relu\": the name is taken"));
}

TEST(Graph, NamesNodesAndParametersAsPyTorchDoes) {
  const Graph graph = small_graph();
  EXPECT_THAT(graph.node_names(), ElementsAre("x", "layers_0", "relu", "output"));
  EXPECT_EQ(graph.node("layers_0").parameter_key("weight"), "layers.0.weight");
  EXPECT_EQ(graph.parameter_count(), 15);
  EXPECT_THAT(error_of([&] { graph.node("layer_0"); }), HasSubstr("did you mean \"layers_0\"?"));
}

TEST(Graph, DeepCopiesDoNotShareParameters) {
  Graph graph = small_graph();
  const Graph shallow = graph;
  const Graph deep = graph.deep_copy();
  graph.node("layers_0").find_parameter("weight")->tensor.values<float>()[0] = 5;
  EXPECT_EQ(shallow.node("layers_0").find_parameter("weight")->tensor.values<float>()[0], 5);
  EXPECT_EQ(deep.node("layers_0").find_parameter("weight")->tensor.values<float>()[0], 0);
}

TEST(Graph, RefusesTakenNamesUnknownInputsAndRemovalOfReadNodes) {
  Graph graph = small_graph();
  EXPECT_THAT(error_of([&] { graph.add_input("x", {1, 4}); }), HasSubstr("the name is taken"));
  Node node;
  node.name = "new";
  node.op = "relu";
  node.inputs = {NodeInput::of("rely")};
  EXPECT_THAT(error_of([&] { graph.add(node); }), HasSubstr("did you mean \"relu\"?"));
  EXPECT_THAT(error_of([&] { graph.erase("relu"); }), HasSubstr("\"output\" reads it"));
  graph.erase("output");
  graph.erase("relu");
  EXPECT_THAT(graph.node_names(), ElementsAre("x", "layers_0"));
}

struct BrokenGraph {
  const char* name;
  void (*break_it)(Graph&);
  const char* message;
};

TEST(Verify, NamesTheFirstNodeThatBreaksARule) {
  const std::vector<BrokenGraph> cases = {
      {"duplicate", [](Graph& g) { g.nodes()[2].name = "layers_0"; }, "\"layers_0\": the name occurs twice"},
      {"name", [](Graph& g) { g.nodes()[2].name = "a b"; }, "letters, digits and underscores"},
      {"order", [](Graph& g) { std::swap(g.nodes()[1], g.nodes()[2]); }, "no earlier node"},
      {"count", [](Graph& g) { g.nodes()[2].inputs.clear(); }, "\"relu\" (relu): got 0 inputs, expected 1"},
      {"operator", [](Graph& g) { g.nodes()[2].op = "rela"; }, "did you mean \"relu\"?"},
      {"attribute", [](Graph& g) { g.nodes()[2].attributes["slope"] = 1; }, "unknown attribute \"slope\""},
      {"missing", [](Graph& g) { g.nodes()[1].parameters.erase(g.nodes()[1].parameters.begin()); },
       "parameter \"weight\" is missing"},
      {"extra", [](Graph& g) { g.nodes()[2].parameters.emplace_back("weight", Parameter{}); },
       "unknown parameter \"weight\""},
      {"shape", [](Graph& g) { g.nodes()[1].find_parameter("bias")->tensor = Tensor(DType::kFloat32, {4}); },
       "node \"layers_0\" (linear): parameter \"bias\": got shape [4], expected [3]"},
      {"operand", [](Graph& g) { g.nodes()[2].quantization["weight"]; }, "unknown operand \"weight\""},
      {"output", [](Graph& g) { g.erase("output"); }, "must be the output"},
      {"dtype", [](Graph& g) { g.nodes()[1].find_parameter("bias")->tensor = Tensor(DType::kUInt8, {3}); },
       "node \"layers_0\" (linear): parameter \"bias\": got uint8, expected float32"},
      {"twice", [](Graph& g) { g.nodes()[1].parameters.push_back(g.nodes()[1].parameters[0]); },
       "parameter \"weight\" occurs twice"},
      {"type", [](Graph& g) { g.nodes()[2].mase_type = MaseType::kPlaceholder; },
       "\"relu\" (relu): got the MASE type \"placeholder\", which placeholder has and no other operator"},
      {"input", [](Graph& g) { g.nodes()[0].mase_type = MaseType::kModule; }, "got the MASE type \"module\""},
      {"constant", [](Graph& g) { g.nodes()[2].inputs[0] = NodeInput::of_constant("one"); },
       "the constant input \"one\" is neither a number nor a list of numbers"},
      {"absent", [](Graph& g) { g.nodes()[2].inputs[0] = NodeInput::absent(); },
       "node \"relu\" (relu): input 0 is absent"},
      {"result", [](Graph& g) { g.nodes()[2].inputs[0].result = 1; },
       "node \"relu\" reads result 1 of \"layers_0\", which has 1"},
      {"spec", [](Graph& g) { g.nodes()[2].quantization["data_in_0"]->spec.format = Affine{.width = 40}; },
       "\"relu\" (relu): operand \"data_in_0\": key \"width\""},
      {"axis",
       [](Graph& g) {
         g.nodes()[1].quantization["weight"] = QuantSpec{Affine{}, Granularity::kChannel, 2};
       },
       "\"layers_0\" (linear): operand \"weight\": key \"axis\": got 2"},
  };
  for (const BrokenGraph& broken : cases) {
    Graph graph = small_graph();
    broken.break_it(graph);
    EXPECT_THAT(error_of([&] { verify(graph); }), HasSubstr(broken.message)) << broken.name;
  }
}

TEST(Verify, RefusesNumbersInPlaceOfTensors) {
  GraphBuilder builder("numbers");
  const NodeInput x = builder.input("x", {4});
  const NodeInput size = builder.call("size", {x, constant(0)});
  Graph graph = builder.finish(builder.call("mul", {x, size}));
  graph.node("mul").quantization["data_in_1"]->spec.format = Affine{};
  EXPECT_THAT(error_of([&] { verify(graph); }),
              HasSubstr("operand \"data_in_1\" is quantized, and is a number"));
  graph.node("mul").quantization.clear();
  graph.node("output").inputs = {size};
  EXPECT_THAT(error_of([&] { verify(graph); }), HasSubstr("the output is a number"));
}

TEST(ShapeInference, RefusesWindowsWithoutElements) {
  const auto pool = [](const Shape& input, int64_t kernel, int64_t padding, int64_t dilation) {
    return error_of([&] {
      result_of("max_pool1d", input,
                {{"kernel_size", kernel}, {"padding", padding}, {"dilation", dilation}, {"stride", 1}});
    });
  };
  EXPECT_EQ(pool({1, 1, 2}, 2, 1, 2), "");
  EXPECT_THAT(pool({1, 1, 1}, 2, 1, 2), HasSubstr("covers nothing but padding"));
  EXPECT_THAT(pool({1, 1, 0}, 2, 1, 1), HasSubstr("size of the input: got 0"));
  EXPECT_THAT(error_of([] {
                result_of("adaptive_avg_pool1d", {1, 1, 0}, {{"output_size", 1}});
              }),
              HasSubstr("size of the input: got 0"));
}

TEST(ShapeInference, RefusesSizesThatOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(error_of([] {
                result_of("pad", {1, 4}, {{"pad", List{kMost, kMost}}});
              }),
              HasSubstr("expected 0 to"));
  EXPECT_THAT(error_of([] {
                result_of("max_pool1d", {1, 1, 4}, {{"kernel_size", kMost}, {"padding", kMost / 2}});
              }),
              HasSubstr("size of a window"));
  EXPECT_THAT(result_of("slice", {1, 9}, {{"dims", 1}, {"steps", kMost}}), ElementsAre(1, 1));
  EXPECT_THAT(error_of([] {
                result_of("slice", {1, 9}, {{"dims", List{1, -1}}, {"steps", 2}});
              }),
              HasSubstr("\"dims\": got -1 twice"));
}

TEST(ShapeInference, Windows) {
  EXPECT_THAT(result_of("max_pool2d", {2, 3, 7, 8}, {{"kernel_size", 2}}), ElementsAre(2, 3, 3, 4));
  EXPECT_THAT(result_of("max_pool2d", {2, 3, 7, 8}, {{"kernel_size", 2}, {"ceil_mode", true}}),
              ElementsAre(2, 3, 4, 4));
  EXPECT_THAT(result_of("avg_pool2d", {2, 3, 2, 3}, {{"kernel_size", 2560}, {"ceil_mode", true}}),
              ElementsAre(2, 3, 1, 1));
  EXPECT_THAT(result_of("avg_pool1d", {2, 3, 8}, {{"kernel_size", 3}, {"stride", 2}, {"padding", 1}}),
              ElementsAre(2, 3, 4));
  EXPECT_THAT(result_of("adaptive_max_pool2d", {2, 3, 8, 8}, {{"output_size", List{Value(2), Value(1)}}}),
              ElementsAre(2, 3, 2, 1));
  EXPECT_THAT(error_of([] {
                result_of("max_pool2d", {1, 1, 1, 1}, {{"kernel_size", 2}});
              }),
              HasSubstr("node \"max_pool2d\" (max_pool2d): a window of 2 does not fit into 1"));
  EXPECT_THAT(error_of([] {
                result_of("max_pool2d", {1, 1, 8, 8}, {});
              }),
              HasSubstr("attribute \"kernel_size\": got NA"));
  EXPECT_THAT(error_of([] {
                result_of("max_pool2d", {1, 1, 8, 8}, {{"kernel_size", 2}, {"padding", 2}});
              }),
              HasSubstr("padding 2 is more than half of the window 2"));
}

TEST(ShapeInference, Reshapes) {
  EXPECT_THAT(result_of("view", {6, 2, 4}, {}, {constant(-1), constant(4)}), ElementsAre(12, 4));
  EXPECT_THAT(result_of("flatten", {6, 2, 4, 5}, {{"end_dim", 2}}), ElementsAre(6, 8, 5));
  EXPECT_THAT(error_of([] {
                result_of("reshape", {1, 7}, {}, {constant(2), constant(-1)});
              }),
              HasSubstr("7 elements of shape [1, 7] do not fit into [2, 3]"));
  EXPECT_THAT(error_of([] {
                result_of("view", {1, 4}, {}, {constant(-1), constant(-1)});
              }),
              HasSubstr("more than one dimension is -1"));
}

TEST(ShapeInference, Broadcasts) {
  EXPECT_THAT(broadcast_shapes({4, 1, 3}, {2, 1}), ElementsAre(4, 2, 3));
  EXPECT_THROW(broadcast_shapes({4}, {3}), Error);
  EXPECT_THAT(result_of("mul", {2, 3}, {}, {constant(2)}), ElementsAre(2, 3));
}

TEST(ShapeInference, Convolutions) {
  GraphBuilder builder("conv");
  NodeInput x = builder.input("x", {4, 9, 9});
  x = builder.convolution("a", x, 4, 8, {3, 3}, {{"stride", 2}, {"padding", 1}, {"groups", 2}});
  const Graph graph = builder.finish(x);
  EXPECT_THAT(infer_shapes(graph, 3).at("a").shape, ElementsAre(3, 8, 5, 5));
  EXPECT_THAT(graph.node("a").find_parameter("weight")->tensor.shape(), ElementsAre(8, 2, 3, 3));
}

}  // namespace
}  // namespace detent
