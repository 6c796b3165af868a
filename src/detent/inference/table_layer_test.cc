#include "detent/inference/table_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using testing::HasSubstr;

template <class T>
ParameterRef constant_of(Shape shape, std::vector<T> values) {
  return Parameter{Tensor::from(std::move(shape), values), false};
}

/// Two outputs over three inputs with the values -1, 0 and 2: x0 + x2 as codes, and whether x1 is largest.
Node two_tables() {
  return {.name = "tables",
          .op = "lut",
          .mase_type = MaseType::kModuleRelatedFunc,
          .inputs = {NodeInput::of("x")},
          .attributes = {{"scale", 0.5}},
          .parameters = {{"inputs", constant_of<int64_t>({2, 1, 2}, {0, 2, 1, 1})},
                         {"tables", constant_of<int32_t>({2, 1, 9}, {0, 1, 2, 1, 2, 3, 2, 3, 4,  //
                                                                     0, 0, 7, 0, 0, 7, 0, 0, 7})},
                         {"input_values", constant_of<float>({3}, {-1, 0, 2})}}};
}

Graph graph_of(Node node, const Shape& input = {1, 3}) {
  Graph graph("tables");
  graph.add_input("x", input);
  graph.add(std::move(node));
  graph.add({.name = "output",
             .op = "output",
             .mase_type = MaseType::kOutput,
             .inputs = {NodeInput::of("tables")}});
  return graph;
}

std::string error_with(const std::function<void(Node&)>& change) {
  Node node = two_tables();
  change(node);
  return error_of([&] { verify(graph_of(std::move(node))); });
}

template <class T>
auto set(const char* name, Shape shape, std::vector<T> values) {
  return [=](Node& node) {
    for (auto& [key, parameter] : node.parameters) {
      if (key == name) parameter = constant_of<T>(shape, values);
    }
    if (node.find_parameter(name) == nullptr)
      node.parameters.emplace_back(name, constant_of<T>(shape, values));
  };
}

TEST(TableLayer, AddressesCountTheFirstInputFastest) {
  const Graph graph = graph_of(two_tables());
  verify(graph);
  const Node& node = graph.node("tables");
  const Tensor x = Tensor::from<float>({3, 3}, std::vector<float>{-1, 2, 0, 2, -0.0F, 2, 0, -1, -1});
  const Tensor codes = Tensor::from<int32_t>({3, 2}, std::vector<int32_t>{1, 7, 4, 0, 1, 0});
  EXPECT_TRUE(table_layer_codes(node, x).equals(codes));
  const Tensor values = Tensor::from<float>({3, 2}, std::vector<float>{0.5, 3.5, 2, 0, 0.5, 0});
  EXPECT_TRUE(table_layer_result(node, x).equals(values));
}

TEST(TableLayer, RefusesInputsOutsideOfTheTables) {
  const Graph graph = graph_of(two_tables());
  const auto run = [&](float value) {
    return error_of([&] {
      table_layer_result(graph.node("tables"), Tensor::from<float>({1, 3}, std::vector<float>{0, value, 2}));
    });
  };
  EXPECT_THAT(run(1), HasSubstr("node \"tables\" (lut): got the input 1, which its tables have no entry for; "
                                "expected one of -1, 0, 2"));
  EXPECT_THAT(run(std::numeric_limits<float>::quiet_NaN()), HasSubstr("got the input nan"));
  EXPECT_EQ(run(-1), "");
}

TEST(TableLayer, ThresholdsAreCounted) {
  Node node = two_tables();
  set<int32_t>("thresholds", {2, 2}, {1, 4, 7, 7})(node);
  set<float>("output_values", {3}, {-1, 0.25, 9})(node);
  const Graph graph = graph_of(node);
  verify(graph);
  const Tensor x = Tensor::from<float>({2, 3}, std::vector<float>{-1, 2, 0, 2, 0, 2});
  const Tensor expected = Tensor::from<float>({2, 2}, std::vector<float>{0.25, 9, 9, -1});
  EXPECT_TRUE(table_layer_result(graph.node("tables"), x).equals(expected));
}

TEST(TableLayer, VerifySaysWhatDoesNotFit) {
  constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(error_with([](Node&) {}), "");
  EXPECT_THAT(error_with(set<int64_t>("inputs", {2, 1, 2}, {0, 2, 1, 3})),
              HasSubstr("node \"tables\" (lut): parameter \"inputs\": got 3, expected 0 to 2"));
  EXPECT_THAT(error_with(set<float>("input_values", {3}, {-1, 2, 2})),
              HasSubstr("parameter \"input_values\": got 2 before 2, expected ascending"));
  EXPECT_THAT(error_with(set<float>("input_values", {2}, {-1, 2})),
              HasSubstr("parameter \"tables\": got shape [2, 1, 9], expected [2, 1, 4]"));
  EXPECT_THAT(error_with(set<float>("tables", {2, 1, 9}, std::vector<float>(18))),
              HasSubstr("parameter \"tables\": got float32 of shape [2, 1, 9], expected int32"));
  EXPECT_THAT(error_with(set<float>("output_values", {3}, {0, 1, 2})),
              HasSubstr("output 0: its tables give 0 to 4, expected indices of the 3 output values"));
  EXPECT_THAT(error_with(set<int32_t>("thresholds", {2, 2}, {1, 4, 7, 6})),
              HasSubstr("\"thresholds\": those of output 1 are not ascending"));
  EXPECT_THAT(error_with([](Node& node) { node.attributes["scale"] = 0.0; }),
              HasSubstr("attribute \"scale\": got 0"));
  const auto sums_twice = [&](Node& node) {
    set<int64_t>("inputs", {1, 2, 1}, {0, 1})(node);
    set<int32_t>("tables", {1, 2, 3}, {0, 0, kHuge, 0, 0, 1})(node);
  };
  EXPECT_THAT(error_with(sums_twice), HasSubstr("output 0: its sums can be 0 to 2147483648, expected"));
  EXPECT_THAT(error_with(set<int64_t>("inputs", {1, 1, 40}, std::vector<int64_t>(40))),
              HasSubstr("tables over 40 inputs of 3 values have 1.22e+19 entries, expected at most 2^24"));
}

TEST(TableLayer, PaddingNeedsAZero) {
  Node node = two_tables();
  node.op = "lut_conv1d";
  node.attributes = {{"kernel_size", 1}, {"padding", 1}};
  const Shape image = {1, 3, 4};
  EXPECT_EQ(error_of([&] { verify(graph_of(node, image)); }), "");
  set<float>("input_values", {3}, {-1, 1, 2})(node);
  EXPECT_THAT(error_of([&] { verify(graph_of(node, image)); }),
              HasSubstr("attribute \"padding\": zeros are not among the input values"));
}

}  // namespace
}  // namespace detent
