#include "detent/passes/stat_to_conf.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/toml.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const std::string kRoot = DETENT_SOURCE_DIR;

StatToConfInput published() {
  return {read_toml(kRoot + "/tests/data/stats_for_quantisation.toml"), "stats.toml", std::nullopt, ""};
}

StatToConfInput published_with_base() {
  StatToConfInput input = published();
  input.base = read_toml(kRoot + "/configs/quantized_ops/toy_ternary_base.toml");
  input.base_file = "base.toml";
  return input;
}

Table run(const StatToConfInput& input, std::vector<std::string>* warnings = nullptr) {
  return stat_to_conf(input, [&](const std::string& message) {
    if (warnings != nullptr) warnings->push_back(message);
  });
}

Table& at(Table& table, std::initializer_list<const char*> path) {
  Table* result = &table;
  for (const char* key : path) result = &result->table(key);
  return *result;
}

Table& config_of(Table& result, const char* block) {
  return at(result, {"passes", "quantize", block, "config"});
}

/// A statistics file with one linear node "fc" that has weight and input statistics.
Table one_linear() {
  Table table;
  at(table, {"fc", "common"})["mase_op"] = "linear";
  for (const char* operand : {"data_in_0", "weight"}) {
    at(table, {"fc", "software", "args", operand, "stat", "range_min_max"})["max"] = 0.5;
  }
  return table;
}

// As the original's but for seq_blocks_2 and 4, which have their own statistics, and the default, which has
// none.
TEST(StatToConf, CompletesTheTutorialsBase) {
  Table expected = read_toml(kRoot + "/tests/data/published_toy_ternary_scaled.toml");
  const auto set = [&](const char* block, std::vector<double> values) {
    Table& config = config_of(expected, block);
    size_t i = 0;
    for (const char* prefix : {"data_in", "weight", "bias"}) {
      config[fmt::format("{}_median", prefix)] = values[i++];
      config[fmt::format("{}_max", prefix)] = values[i++];
    }
  };
  set("seq_blocks_2", {0.0, 6.567787170410156, 0.00030127764330245554, 0.099988654255867,
                       -0.010821569710969925, 0.09944488853216171});
  set("seq_blocks_4", {0.03673841804265976, 2.9003794193267822, 0.003981685731559992, 0.09934879839420319,
                       0.006421931087970734, 0.0846341997385025});
  Table& defaults = config_of(expected, "default");
  for (const std::string& key : defaults.keys()) {
    if (key.ends_with("_mean") || key.ends_with("_median") || key.ends_with("_max")) defaults.erase(key);
  }
  std::vector<std::string> warnings;
  EXPECT_EQ(toml_text(run(published_with_base(), &warnings)), toml_text(expected));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(StatToConf, FillsTheBuiltInBaseByName) {
  Table result = run(published());
  EXPECT_THAT(at(result, {"passes", "quantize"}).keys(),
              ElementsAre("by", "report", "default", "seq_blocks_0", "seq_blocks_1", "seq_blocks_2",
                          "seq_blocks_3", "seq_blocks_4"));
  EXPECT_EQ(*at(result, {"passes", "quantize"}).find("by"), Value("name"));
  EXPECT_TRUE(config_of(result, "default").find("weight_max")->is_na());
  EXPECT_EQ(*config_of(result, "seq_blocks_2").find("weight_max"), Value(0.099988654255867));
  EXPECT_TRUE(config_of(result, "seq_blocks_2").find("weight_mean")->is_na());
  EXPECT_THAT(config_of(result, "seq_blocks_1").keys(),
              ElementsAre("name", "data_in_scaling_factor", "data_in_width", "data_in_mean", "data_in_median",
                          "data_in_max"));
}

TEST(StatToConf, TakesAnyNodeNameAndTheMeanOfMagnitudes) {
  StatToConfInput input{one_linear(), "s.toml", std::nullopt, ""};
  at(input.statistics, {"fc", "software", "args", "weight", "stat", "abs_mean"})["abs_mean"] = 0.25;
  Table result = run(input);
  EXPECT_EQ(*config_of(result, "fc").find("weight_mean"), Value(0.25));
  EXPECT_EQ(*config_of(result, "fc").find("weight_max"), Value(0.5));
  EXPECT_FALSE(config_of(result, "fc").contains("bias_width"));
}

TEST(StatToConf, KeepsWhatTheBaseSaysOfABlock) {
  StatToConfInput input = published_with_base();
  Table& base = config_of(*input.base, "seq_blocks_0");
  base = {{"name", "ternary"}, {"weight_threshold", 0.1}, {"bias_width", 2}};
  Table result = run(input);
  const Table& config = config_of(result, "seq_blocks_0");
  EXPECT_FALSE(config.contains("weight_max"));
  EXPECT_EQ(*config.find("bias_max"), Value(0.4969978332519531));
}

TEST(StatToConf, GivesFormatsOnlyTheKeysTheyTake) {
  StatToConfInput input = published_with_base();
  config_of(*input.base, "default") = {{"name", "fixed"}, {"data_in_width", 8}, {"weight_width", 4}};
  Table result = run(input);
  EXPECT_THAT(config_of(result, "seq_blocks_0").keys(), ElementsAre("name", "data_in_width", "weight_width"));
}

TEST(StatToConf, GivesSecondInputsTheirOwnKeys) {
  Table statistics;
  at(statistics, {"add", "common"})["mase_op"] = "add";
  at(statistics, {"add", "software", "args", "data_in_0", "stat", "range_min_max"})["max"] = 1.0;
  at(statistics, {"add", "software", "args", "data_in_1", "stat", "range_min_max"})["max"] = 2.0;
  Table result = run({statistics, "s.toml", std::nullopt, ""});
  EXPECT_EQ(*config_of(result, "add").find("data_in_max"), Value(1.0));
  EXPECT_EQ(*config_of(result, "add").find("data_in_1_max"), Value(2.0));
  EXPECT_EQ(*config_of(result, "add").find("data_in_1_scaling_factor"), Value(true));
}

TEST(StatToConf, WarnsOfWhatIsProbablyNotMeant) {
  StatToConfInput input = published_with_base();
  Table& quantize = at(*input.base, {"passes", "quantize"});
  quantize["by"] = "type";
  quantize.table("linear").table("config")["name"] = "fixed";
  at(input.statistics, {"view", "software", "args", "data_in_0", "stat", "range_min_max"})["max"] = 1.0;
  std::vector<std::string> warnings;
  run(input, &warnings);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("by = \"type\" became \"name\""),
                                    HasSubstr("[passes.quantize.linear]"), HasSubstr("node \"view\"")));
}

TEST(StatToConf, NamesWhatIsMissing) {
  StatToConfInput input{one_linear(), "s.toml", std::nullopt, ""};
  const auto expect_error = [&](const std::string& message) {
    EXPECT_THAT([&] { run(input); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const auto set_max = [&](double number) {
    at(input.statistics, {"fc", "software", "args", "weight", "stat", "range_min_max"})["max"] = number;
  };
  set_max(HUGE_VAL);
  expect_error("operand \"weight\", statistic range_min_max: \"max\": got inf, expected one finite number");
  set_max(0.5);
  at(input.statistics, {"fc", "software", "args", "weight"})["stat"] = Table();
  expect_error("s.toml: node \"fc\", operand \"weight\": none of the statistics abs_mean");
  at(input.statistics, {"fc", "software", "args", "weight", "stat", "range_min_max"})["max"] = List{1.0, 2.0};
  expect_error("dims = \"all\"");
  input.statistics = Table{{"fc", 3}};
  expect_error("got 3, expected a table");
  input.statistics = Table{{"fc", Table()}};
  expect_error("no node has statistics");
  input.base = Table{{"model", "toy"}};
  input.base_file = "b.toml";
  expect_error("b.toml: table \"passes\" is missing");
}

/// "fc" with the statistics that calibrators use, of a weight in [-1, 3] and of inputs in [0, 6].
Table calibration_statistics() {
  Table table;
  at(table, {"fc", "common"})["mase_op"] = "linear";
  const auto add = [&](const char* part, const char* operand, Value min, Value max) {
    Table& statistics = at(table, {"fc", "software", part, operand, "stat"});
    statistics["range_min_max"] = Table{{"min", std::move(min)}, {"max", std::move(max)}, {"count", 400}};
  };
  add("args", "weight", -1.0, 3.0);
  add("args", "bias", -0.25, 0.125);
  add("args", "data_in_0", 0.0, 6.0);
  add("results", "data_out_0", -10.0, 20.0);
  return table;
}

StatToConfInput calibrated_to(const char* format, CalibrationOptions options = {}) {
  StatToConfInput input{calibration_statistics(), "stats.toml"};
  for (const char* prefix : {"data_in", "weight", "bias"}) {
    input.formats.emplace_back(prefix, parse_quant_spec_text(format));
  }
  input.calibration = options;
  return input;
}

TEST(StatToConfCalibrated, GivesEveryOperandTheParametersOfItsRange) {
  StatToConfInput input = calibrated_to("fixed:width=8");
  input.formats.emplace_back("data_out", parse_quant_spec_text("fixed:width=6"));
  Table result = run(input);
  const Table expected = {{"name", "fixed"},         {"data_in_name", "fixed"},  {"data_in_frac_width", 4},
                          {"weight_name", "fixed"},  {"weight_frac_width", 5},   {"bias_name", "fixed"},
                          {"bias_frac_width", 9},    {"data_out_name", "fixed"}, {"data_out_width", 6},
                          {"data_out_frac_width", 0}};
  EXPECT_EQ(value_text(config_of(result, "fc")), value_text(expected));
  EXPECT_EQ(value_text(config_of(result, "default")), "{name = NA}");
}

TEST(StatToConfCalibrated, LeavesOutWhatIsNotAskedFor) {
  StatToConfInput input = calibrated_to("affine:width=8");
  input.formats[0].second.reset();
  input.formats[2].second.reset();
  Table result = run(input);
  const Table& config = config_of(result, "fc");
  EXPECT_TRUE(config.find("data_in_name")->is_na());
  EXPECT_TRUE(config.find("bias_name")->is_na());
  EXPECT_EQ(value_text(*config.find("weight_zero_point")), "[-64]");
  EXPECT_FALSE(config.contains("data_out_name"));
}

TEST(StatToConfCalibrated, TakesTheFormatsOfABase) {
  StatToConfInput input{calibration_statistics(), "stats.toml"};
  input.base = Table();
  at(*input.base, {"passes", "quantize", "default"})["config"] =
      Table{{"name", "ternary"}, {"data_in_name", "affine"}, {"data_in_signed", false}, {"weight_width", 2}};
  input.calibration = CalibrationOptions{.scale_form = ScaleForm::kPowerOfTwo};
  Table result = run(input);
  const Table& config = config_of(result, "fc");
  EXPECT_EQ(value_text(*config.find("weight_max")), "3.0");
  EXPECT_EQ(value_text(*config.find("bias_max")), "0.25");  // as the weight, from its own statistics
  EXPECT_EQ(value_text(*config.find("data_in_scale")), "[0.03125]");
}

TEST(StatToConfCalibrated, KeepsParametersThatTheBaseGivesForTheNode) {
  StatToConfInput input = calibrated_to("fixed:width=8");
  input.base = Table();
  at(*input.base, {"passes", "quantize", "default"})["config"] = Table{{"name", Value()}};
  at(*input.base, {"passes", "quantize", "fc"})["config"] =
      Table{{"name", "fixed"}, {"weight_frac_width", 1}, {"data_in_width", 4}};
  Table result = run(input);
  EXPECT_EQ(value_text(*config_of(result, "fc").find("weight_frac_width")), "1");
  EXPECT_EQ(value_text(*config_of(result, "fc").find("data_in_frac_width")), "0");
}

TEST(StatToConfCalibrated, OneScaleAChannelFromStatisticsPerChannel) {
  StatToConfInput input = calibrated_to("affine:symmetric=true");
  input.formats[1].second = parse_quant_spec_text("affine:symmetric=true,granularity=channel");
  EXPECT_THAT([&] { run(input); },
              ThrowsMessage<Error>(HasSubstr("node \"fc\", operand \"weight\": affine:symmetric=true,"
                                             "granularity=channel has granularity \"channel\", but its "
                                             "statistics are of the whole tensor")));
  at(input.statistics, {"fc", "software", "args", "weight", "stat", "range_min_max"}) =
      Table{{"min", List{-1.27, 0.0}}, {"max", List{1.0, 2.54}}, {"count", 200}};
  Table result = run(input);
  const std::string scales = value_text(*config_of(result, "fc").find("weight_scale"));
  EXPECT_THAT(scales, testing::MatchesRegex("\\[0.0(1|0999)[0-9]*, 0.0(2|1999)[0-9]*\\]"));
}

/// Such scales follow from the tensor itself, which statistics of the whole cannot give.
TEST(StatToConfCalibrated, GroupsTakeTheirScalesFromTheTensor) {
  StatToConfInput input = calibrated_to("int8");
  input.formats[1].second = parse_quant_spec_text("int4_g128");
  std::vector<std::string> warnings;
  Table result = run(input, &warnings);
  const Table& config = config_of(result, "fc");
  EXPECT_FALSE(config.contains("weight_scale"));
  EXPECT_EQ(value_text(*config.find("weight_group_size")), "128");
  EXPECT_TRUE(config.contains("data_in_scale"));
  EXPECT_THAT(warnings, IsEmpty());
  input.calibration->calibrator = Calibrator::kPercentile;
  input.formats[0].second.reset();
  input.formats[2].second.reset();
  run(input, &warnings);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("operand \"weight\": groups take their scales from the")));
}

TEST(StatToConfCalibrated, OneScaleAGroupFromStatisticsOfGroups) {
  StatToConfInput input = calibrated_to("int8");
  input.formats[1].second = parse_quant_spec_text("int8:granularity=group,group_size=64");
  Table& range = at(input.statistics, {"fc", "software", "args", "weight", "stat", "range_min_max"});
  range = Table{{"min", List{List{-1.27, 0.0}, List{-0.127, -2.54}}},
                {"max", List{List{1.0, 2.54}, List{0.0, 0.0}}},
                {"count", 64},
                {"group_size", 64}};
  Table result = run(input);
  const std::string scales = value_text(*config_of(result, "fc").find("weight_scale"));
  EXPECT_THAT(scales,
              testing::MatchesRegex(
                  "\\[0.0(1|0999)[0-9]*, 0.0(2|1999)[0-9]*, 0.00(1|0999)[0-9]*, 0.0(2|1999)[0-9]*\\]"));
  range["group_size"] = 32;
  EXPECT_THAT([&] { run(input); },
              ThrowsMessage<Error>(HasSubstr("group_size=64, but its statistics are of groups of 32")));
}

TEST(StatToConfCalibrated, NamesTheStatisticThatACalibratorNeeds) {
  EXPECT_THAT([&] { run(calibrated_to("affine", {.calibrator = Calibrator::kMse})); },
              ThrowsMessage<Error>(HasSubstr("stats.toml: node \"fc\", operand \"data_in_0\": calibrator "
                                             "\"mse\" needs the statistic histogram")));
}

TEST(StatToConfCalibrated, FormatsWithoutParametersNeedNoStatistics) {
  Table result = run(calibrated_to("mx:element=e4m3", {.calibrator = Calibrator::kMse}));
  EXPECT_EQ(value_text(*config_of(result, "fc").find("weight_name")), "\"mx\"");
}

}  // namespace
}  // namespace detent
