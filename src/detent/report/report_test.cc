#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph/builder.h"
#include "detent/report/network.h"
#include "detent/report/page.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Graph small_network() {
  GraphBuilder builder("small");
  const NodeInput x = builder.input("x", {4, 8, 8});
  const NodeInput y = builder.convolution("head_conv", x, 4, 16, {3, 3});
  return builder.finish(builder.linear("fc", builder.call("relu", {y}), 6, 10));
}

const Table& node_of(const Table& network, std::string_view name) {
  for (const Value& value : *network.find("nodes")->get_if<List>()) {
    const Table& node = *value.get_if<Table>();
    if (*node.find("name")->get_if<std::string>() == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  static const Table kNone;
  return kNone;
}

TEST(ValueHistogram, EveryFiniteValueIsInTheCellThatHoldsIt) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(3, 10);
  std::vector<float> values(5000);
  for (float& value : values) value = normal(random);
  const ValueHistogram histogram = value_histogram(values, 16);
  ASSERT_EQ(histogram.counts.size(), 16U);
  std::vector<int64_t> expected(16);
  const double width = (static_cast<double>(histogram.high) - static_cast<double>(histogram.low)) / 16;
  for (const float value : values) {
    size_t cell = 0;
    while (cell < 15 && static_cast<double>(value) >=
                            static_cast<double>(histogram.low) + static_cast<double>(cell + 1) * width)
      ++cell;
    ++expected[cell];
  }
  EXPECT_EQ(histogram.counts, expected);
}

TEST(ValueHistogram, TakesWhatHasNoRangeOrTheWidest) {
  EXPECT_TRUE(value_histogram({}, 8).counts.empty());
  EXPECT_THAT(value_histogram(std::vector<float>(7, -2.0F), 8).counts, ElementsAre(7));
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> values = {-most, most, 0, std::nanf(""), std::numeric_limits<float>::infinity()};
  const ValueHistogram histogram = value_histogram(values, 2);
  EXPECT_THAT(histogram.counts, ElementsAre(1, 2));
  EXPECT_EQ(histogram.not_finite, 2);
}

TEST(TableValue, NumbersBecomeNumbersAndHeadingsKeys) {
  EXPECT_EQ(key_of_heading("SQNR weight"), "sqnr_weight");
  EXPECT_EQ(key_of_heading("saturated %"), "saturated_percent");
  EXPECT_EQ(key_of_heading("samples/s"), "samples_s");
  EXPECT_EQ(key_of_heading("second - first"), "second_first");
  TextTable table({"node", "SQNR", "change", "note"});
  table.add_row({"conv1", "12.50", "+3", ""});
  EXPECT_EQ(table_value(table),
            List{Value(Table{{"node", "conv1"}, {"sqnr", 12.5}, {"change", 3}, {"note", Value()}})});
}

TEST(NetworkValue, HoldsFormatsGridsAndSizes) {
  Graph graph = small_network();
  Node& layer = graph.node("head_conv");
  layer.quantization["weight"] = parse_quant_spec_text("fixed:width=4,frac_width=2");
  layer.quantization["data_in_0"] = parse_quant_spec_text("block_fp");
  Parameter& weight = *layer.find_parameter("weight");
  for (float& value : weight.tensor.values<float>()) value = 1;
  weight.tensor.values<float>()[0] = 10;

  const OperandHistograms histograms = {
      {{"head_conv", "data_in_0"}, value_histogram(std::vector<float>{1, 2})}};
  const Table network = network_value(graph, histograms);
  const Table& node = node_of(network, "head_conv");
  EXPECT_EQ(*node.find("op"), Value("conv2d"));
  EXPECT_FALSE(node.contains("computes_in"));
  // 4 bits a weight, 32 a bias.
  const int64_t weights = weight.tensor.numel();
  EXPECT_EQ(*node.find("parameters"), Value(weights + layer.find_parameter("bias")->tensor.numel()));
  EXPECT_EQ(*node.find("parameter_bytes"),
            Value(weights / 2 + 4 * layer.find_parameter("bias")->tensor.numel()));

  const List& operands = *node.find("operands")->get_if<List>();
  ASSERT_EQ(operands.size(), 2U);
  const Table& input = *operands[0].get_if<Table>();
  EXPECT_TRUE(input.find("grid")->is_na()) << "a block format has no values of its own";
  EXPECT_TRUE(input.contains("histogram"));
  const Table& quantized = *operands[1].get_if<Table>();
  const Table& grid = *quantized.find("grid")->get_if<Table>();
  EXPECT_EQ(*grid.find("count"), Value(16));
  EXPECT_EQ(*grid.find("low"), Value(-2.0));
  EXPECT_EQ(*grid.find("high"), Value(1.75));
  EXPECT_EQ(grid.find("values")->get_if<List>()->size(), 16U);
  EXPECT_DOUBLE_EQ(*quantized.find("clipped_share")->get_if<double>(), 1 / static_cast<double>(weights));
}

TEST(NetworkValue, WeightsAreThoseOfTheNetworkInFloat) {
  Graph floats = small_network();
  for (float& value : floats.node("fc").find_parameter("weight")->tensor.values<float>()) value = 0.25F;
  Graph graph = floats.deep_copy();
  graph.node("fc").quantization["weight"] = parse_quant_spec_text("int8:granularity=channel");
  for (float& value : graph.node("fc").find_parameter("weight")->tensor.values<float>()) value = 0.5F;
  const auto range_of = [](const Table& network) {
    const Table& operand = *(*node_of(network, "fc").find("operands")->get_if<List>())[0].get_if<Table>();
    return *operand.find("histogram")->get_if<Table>()->find("low");
  };
  EXPECT_EQ(range_of(network_value(graph, {})), Value(0.5));
  EXPECT_EQ(range_of(network_value(graph, {}, &floats)), Value(0.25));
}

TEST(ReportPage, HoldsTheResultsWhateverTheirText) {
  const Table results{
      {"command", "test"}, {"version", "1"}, {"note", "</script><b>&\"{{style}} {{results}}\u2028"}};
  const std::string page = report_page(results);
  const std::string begin = "<script type=\"application/json\" id=\"results\">";
  const size_t from = page.find(begin) + begin.size();
  const std::string json = page.substr(from, page.find("</script>", from) - from);
  EXPECT_EQ(parse_json(json, "page"), Value(results));
  EXPECT_THAT(page, Not(HasSubstr("<b>&")));
  EXPECT_THAT(page, Not(HasSubstr("http://www.w3.org/1999")));
}

TEST(ReportPage, IsKnownAgain) {
  const TemporaryPath page("page.html");
  write_file(page.get(), report_page({{"command", "test"}, {"version", "1"}}));
  EXPECT_TRUE(is_report_page(page.get()));
  const TemporaryPath other("other.html");
  write_file(other.get(), "<!doctype html><p>mine");
  EXPECT_FALSE(is_report_page(other.get()));
  EXPECT_FALSE(is_report_page("/nowhere.html"));
}

Table point(const char* name, double cost, double value, bool on_front) {
  return {{"name", name}, {"cost", cost}, {"value", value}, {"on_front", on_front}, {"chosen", false}};
}

TEST(FrontDrawing, ShowsFinitePointsAndNamesThoseOfTheFront) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string drawing =
      front_drawing({{"cost_name", "bytes"},
                     {"value_name", "sqnr"},
                     {"points", List{point("small", 100, 10, true), point("large", 300, 20, true),
                                     point("worse", 300, 5, false), point("exact", 400, infinite, true)}}});
  EXPECT_THAT(drawing,
              testing::AllOf(HasSubstr(">bytes<"), HasSubstr(">sqnr<"), HasSubstr(">small<"),
                             HasSubstr(">large<"), Not(HasSubstr("worse")), Not(HasSubstr("exact"))));
  size_t squares = 0;
  for (size_t at = drawing.find("<rect"); at != std::string::npos; at = drawing.find("<rect", at + 1))
    ++squares;
  EXPECT_EQ(squares, 1U + 3U) << "the ground and the points";
  EXPECT_THAT(drawing, HasSubstr("stroke=\"#4477aa\"")) << "from one to the next";
}

TEST(FrontDrawing, TakesNoneAndEqualAndHugePoints) {
  for (const List& points : {List{}, List{point("a", 1, 1, true), point("b", 1, 1, true)},
                             List{point("a", 1e16, 0, true), point("b", 1e16 + 2, 1e308, true)}}) {
    const std::string drawing =
        front_drawing({{"cost_name", "bytes"}, {"value_name", "sqnr"}, {"points", points}});
    EXPECT_THAT(drawing, testing::AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  }
}

}  // namespace
}  // namespace detent
